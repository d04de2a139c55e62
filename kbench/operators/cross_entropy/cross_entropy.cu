// Cross-entropy with the gradient of the logits: the row of softmax, with another output. The arithmetic is fp32.
//
//     loss = max + log(sum(exp(x - max))) - x[label]
//     dx = d_loss * (softmax(x) - onehot(label))
//
// A row is read once and written once. dx may be x: the thread that writes dx[label] has read x[label] before. A label that is
// not a column makes the loss NaN, and reads nothing.
#include "rows/dispatch.cuh"
#include "rows/softmax_row.cuh"

namespace kbench {

struct CrossEntropyBackward {
  static constexpr int inputs = 1, outputs = 1;
  static constexpr float kPadding = -INFINITY;
  static constexpr Kernels kKernels = Kernels::all;
  static constexpr int kMostKept = 2;
  struct Arguments {
    const std::int64_t* labels;
    const float* d_loss;
    float* loss;
    const void* x;
    std::int64_t stride;
  };

  template <typename S>
  struct Row : SoftmaxRow<S, true> {
    using Base = SoftmaxRow<S, true>;
    using T = typename S::T;
    // Some rows that begin anywhere need a few registers more than those of Bounds.
    static constexpr bool more = S::packs == 4 ? sizeof(T) == 4 : S::packs <= 2 && S::cluster && !S::keep;
    static constexpr int blocks = S::edges && more ? Base::blocks - 1 : Base::blocks;
    // The kernel's parameter: what it points to takes no registers.
    const Arguments* arguments;
    float d, wanted;  // only one thread of a row has the logit that is wanted
    int label;
    bool owns;  // the label; the first thread of a row owns one that is not a column

    __device__ __forceinline__ void begin(const Arguments& given, const Part<S>& part) {
      arguments = &given;
      label = -1;
      d = wanted = 0.0f;
      owns = false;
      if (part.layout.columns > 0) {
        const std::int64_t number =
            S::group ? std::int64_t(blockIdx.x) * (Base::threads / S::width) + threadIdx.x / S::width
                     : block_row<S::cluster>();
        const std::int64_t given_label = given.labels[number];
        d = given.d_loss[number];
        if (std::uint64_t(given_label) < std::uint64_t(part.layout.columns)) {
          label = int(given_label);
          owns = has_label(part);
          if (owns) wanted = to_float(static_cast<const T*>(given.x)[number * given.stride + label]);
        } else {
          owns = part.leads();
          wanted = NAN;
        }
      }
    }

    // Whether the label is in one of the thread's accesses, or one of its elements outside them.
    __device__ __forceinline__ bool has_label(const Part<S>& part) const {
      const int inside = label - part.layout.head, access = inside / S::vector;
      bool found = inside >= 0 && access < part.end && unsigned(access - part.first) < unsigned(S::packs * S::width) &&
                   (access - part.first) % S::width == 0;
#pragma unroll
      for (int e = 0; e < S::thread_edges; ++e) found |= part.edge[e] == label;
      return found;
    }

    __device__ __forceinline__ void finish(typename Base::Total total, int columns, std::int64_t number) {
      Base::finish(total, columns, number);
      if (owns) arguments->loss[number] = this->total.max - wanted + logf(this->total.sum);
    }

    __device__ __forceinline__ void write(InPack at, const Part<S>& part, const float (&in)[1][S::vector],
                                          float (&out)[1][S::vector]) const {
      Base::write(at, part, in, out);
#pragma unroll
      for (int v = 0; v < S::vector; ++v) out[0][v] *= d;
      const int place = label - int(part.column()) - part.offset(at.p);
      if (place < 0 || place >= S::vector) return;  // one comparison for all but one access of a row
#pragma unroll
      for (int v = 0; v < S::vector; ++v) {
        if (v == place) out[0][v] -= d;
      }
    }

    __device__ __forceinline__ void write(InEdge at, const Part<S>& part, const float (&in)[1][1],
                                          float (&out)[1][1]) const {
      Base::write(at, part, in, out);
      out[0][0] = d * (part.edge[at.e] == label ? out[0][0] - 1.0f : out[0][0]);
    }
  };
};

cudaError_t cross_entropy_full(const Call& call) {
  const Tensor &d_loss = call.inputs[0], &x = call.inputs[1], &labels = call.inputs[2];
  const Tensor &loss = call.outputs[0], &dx = call.outputs[1];
  require_rows(x, {&dx}, {});
  for (const Tensor* each : {&d_loss, &labels, &loss}) {
    require(each->has_sizes({x.sizes[0]}) && each->contiguous(), "labels, losses and their gradients must have an element for each row");
  }
  require(labels.dtype == Dtype::int64 && d_loss.dtype == Dtype::float32 && loss.dtype == Dtype::float32,
          "labels must be int64, and losses and their gradients float32");
  const CrossEntropyBackward::Arguments arguments = {labels.data<const std::int64_t>(), d_loss.data<const float>(),
                                                     loss.data<float>(), x.address, x.strides[0]};
  return with_type(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    return launch_rows(call, rows_call<T, CrossEntropyBackward>(call, arguments, {&x}, {&dx}), {});
  });
}

const std::vector<Kernel> kernels = {
    {"cross_entropy_full", cross_entropy_full, {"d_loss", "x", "labels"}, {"loss", "dx"}, KBENCH_ROW_OPTIONS}};

}  // namespace kbench

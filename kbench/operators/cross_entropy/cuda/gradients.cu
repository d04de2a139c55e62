// The gradients of cross-entropy: dx = d_loss * (softmax(x) - onehot(label)), after the forward pass, or together with it. It is
// the row of softmax, with another output: each element is read once and written once. The arithmetic is fp32. dx may be x: the
// thread that writes dx[label] has read x[label] before.
#include "logits.cuh"
#include "rows/sharing.cuh"
#include "rows/softmax_row.cuh"

namespace kbench {

struct CrossEntropyArguments {
  const std::int64_t* labels;
  const float* d_loss;
  float* loss;         // written by the kernel for both passes
  const float* saved;  // read by the kernel for the backward pass, see require_statistics
  const void* x;
  std::int64_t stride, rows;
};

// The softmax of a row whose maximum and sum the forward pass saved.
template <typename S>
struct SavedSoftmaxRow : Bounds<S> {
  using T = typename S::T;
  using Total = KnownTotal;
  // Nothing is converted before `write`, so the kernel need not hide the elements from the compiler.
  static constexpr int kept = S::packs;
  float max, scale;

  template <typename Packs, typename Edges>
  __device__ __forceinline__ Total reduce(const Packs&, const Edges&, const Part<S>&) const {
    return {};
  }
  __device__ __forceinline__ void finish(Total, int, std::int64_t) {}
  __device__ __forceinline__ unsigned zero() const { return 0; }

  template <typename Place, int COUNT>
  __device__ __forceinline__ void write(Place, const Part<S>&, const float (&in)[1][COUNT], float (&out)[1][COUNT]) const {
#pragma unroll
    for (int v = 0; v < COUNT; ++v) out[0][v] = exponential<T>(in[0][v] - max) * scale;
  }
};

// SAVED: the forward pass was computed before. Otherwise the row is reduced, and its loss is written, too. If the label is not
// a column, no logit is read for it, the loss is NaN, and the gradient is d_loss * softmax(x).
template <bool SAVED>
struct CrossEntropyGradient {
  static constexpr int inputs = 1, outputs = 1;
  static constexpr float kPadding = -INFINITY;
  using Arguments = CrossEntropyArguments;

  static Sharing share(const Rows& rows) { return share_row(rows, kWarpSize); }  // no vocabulary is shorter than a warp
  template <typename T, bool EDGES>
  static constexpr auto ways() {
    if constexpr (SAVED) {
      return warps_and_blocks + Ways<Block<8>>();
    } else {
      return warps_and_blocks + Ways<Block<8>, Block<1, true>, Block<2, true>>();
    }
  }

  template <typename S>
  struct Row : std::conditional_t<SAVED, SavedSoftmaxRow<S>, SoftmaxRow<S, true>> {
    using Base = std::conditional_t<SAVED, SavedSoftmaxRow<S>, SoftmaxRow<S, true>>;
    using T = typename S::T;
    // Some rows that begin anywhere need a few registers more than those of Bounds.
    static constexpr bool more = S::packs == 4 ? sizeof(T) == 4 : S::packs <= 2 && S::cluster && !S::keep;
    static constexpr int blocks = S::edges && more ? Base::blocks - 1 : Base::blocks;
    // The kernel's parameter: what it points to takes no registers.
    const Arguments* arguments;
    float d, wanted;  // wanted: the logit of the label, in the thread that writes the loss
    int label;
    bool owns;  // whether this thread writes the loss: it holds the label's element, or is the first if there is none

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
        const bool exists = std::uint64_t(given_label) < std::uint64_t(part.layout.columns);
        d = given.d_loss[number];
        if (exists) label = int(given_label);
        if constexpr (SAVED) {
          this->max = given.saved[number];
          this->scale = reciprocal(given.saved[given.rows + number]);
        } else if (exists) {
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
      bool mine = inside >= 0 && access < part.end && unsigned(access - part.first) < unsigned(S::packs * S::width) &&
                   (access - part.first) % S::width == 0;
#pragma unroll
      for (int e = 0; e < S::thread_edges; ++e) mine |= part.edge[e] == label;
      return mine;
    }

    __device__ __forceinline__ void finish(typename Base::Total total, int columns, std::int64_t number) {
      Base::finish(total, columns, number);
      if constexpr (!SAVED) {
        if (owns) arguments->loss[number] = this->total.max - wanted + logf(this->total.sum);
      }
    }

    __device__ __forceinline__ void write(InPack at, const Part<S>& part, const float (&in)[1][S::vector],
                                          float (&out)[1][S::vector]) const {
      Base::write(at, part, in, out);
#pragma unroll
      for (int v = 0; v < S::vector; ++v) out[0][v] *= d;
      const int place = label - int(part.column()) - part.offset(at.p);
      if (place < 0 || place >= S::vector) return;  // so all accesses but the label's cost one comparison
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

// The inputs are d_loss, x, labels and, if SAVED, what the forward pass saved. The outputs are the losses, unless SAVED, and dx.
template <bool SAVED>
cudaError_t gradients(const Call& call) {
  const Tensor &d_loss = call.inputs[0], &x = call.inputs[1], &labels = call.inputs[2], &dx = call.outputs[SAVED ? 0 : 1];
  require_rows(x, {&dx});
  require_logits(x, labels, {&d_loss});
  CrossEntropyArguments arguments = {labels.data<const std::int64_t>(), d_loss.data<const float>(), nullptr, nullptr,
                                     x.address, x.strides[0], x.sizes[0]};
  if constexpr (SAVED) {
    require_statistics(x, call.inputs[3]);
    arguments.saved = call.inputs[3].data<const float>();
  } else {
    require_logits(x, labels, {&call.outputs[0]});
    arguments.loss = call.outputs[0].data<float>();
  }
  return with_type(x.dtype, [&](auto zero) {
    using Op = CrossEntropyGradient<SAVED>;
    return launch_rows(call, rows_call<decltype(zero), Op>(call, arguments, {&x}, {&dx}), {});
  });
}

const std::vector<Kernel> kernels = {
    {"losses_and_gradients", gradients<false>, {"d_loss", "x", "labels"}, {"loss", "dx"}, {KBENCH_ROW_OPTIONS}},
    {"gradients", gradients<true>, {"d_loss", "x", "labels", "saved"}, {"dx"}, {KBENCH_ROW_OPTIONS}}};

}  // namespace kbench

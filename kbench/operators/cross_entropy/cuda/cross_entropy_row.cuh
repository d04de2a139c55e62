// A row of the gradients of cross-entropy: dx = d_loss * (softmax(x) - onehot(label)). The arithmetic is fp32. dx may be x: the
// thread that writes dx[label] has read x[label] before.
#pragma once

#include "rows/dispatch.cuh"
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
  static constexpr Kernels kKernels = Kernels::all;
  static constexpr int kMostKept = SAVED ? 0 : 2;
  using Arguments = CrossEntropyArguments;

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
        const bool known = std::uint64_t(given_label) < std::uint64_t(part.layout.columns);
        d = given.d_loss[number];
        if (known) label = int(given_label);
        if constexpr (SAVED) {
          this->max = given.saved[number];
          this->scale = reciprocal(given.saved[given.rows + number]);
        } else if (known) {
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

// Throws Unsupported unless the logits' rows have labels, and losses or gradients of losses in float32.
inline void require_logits(const Tensor& x, const Tensor& labels, std::initializer_list<const Tensor*> numbers) {
  require(x.sizes[1] > 0, "a row has no logits");
  require(labels.dtype == Dtype::int64, "labels must be int64");
  require(labels.has_sizes({x.sizes[0]}) && labels.contiguous(), "labels must have an element for each row, without gaps");
  for (const Tensor* each : numbers) {
    require(each->dtype == Dtype::float32, "losses and their gradients must be float32");
    require(each->has_sizes({x.sizes[0]}) && each->contiguous(),
            "losses and their gradients must have an element for each row, without gaps");
  }
}

// What the forward pass saves: the maxima of all rows, then their sums of exp(x - maximum). Throws Unsupported for another
// shape.
inline void require_statistics(const Tensor& x, const Tensor& saved) {
  require(saved.dtype == Dtype::float32 && saved.has_sizes({2, x.sizes[0]}) && saved.contiguous(),
          "what the forward pass saved must be (2, M) in float32");
}

}  // namespace kbench

// Softmax of a row, as a use of the kernel for row operators (rows/registers.cuh): the maximum, the sum, the output.
#pragma once

#include "registers.cuh"
#include "softmax_total.cuh"

namespace kbench {

// fp32 exponentials replace the elements. 16-bit rows keep the elements, in half the registers, and compute every
// exponential twice. They keep the exponentials with KEEP, and if a thread has few elements. With KEEP and 6 accesses,
// 64 registers hold the exponentials of 4.
struct Softmax {
  static constexpr int inputs = 1, outputs = 1;
  static constexpr float kPadding = -INFINITY;
  struct Arguments {};

  template <typename S>
  struct Row;
};

// EXACT: the sum has the precision of fp32 also in 16 bits, which a loss needs.
template <typename S, bool EXACT = false>
struct SoftmaxRow : Bounds<S> {
  using T = typename S::T;
  using Total = SoftmaxTotal<T>;
  static constexpr bool keep = S::keep || sizeof(T) == 4 || S::vector == 1 || S::packs == 1 || (S::group && S::packs <= 2);
  static constexpr int kept = !keep ? 0 : sizeof(T) == 2 && S::packs == 6 ? 4 : S::packs;

  // Whether the exponentials of elements outside of the accesses are kept, too.
  static constexpr bool keep_edges = kept == S::packs && S::packs <= 8;

  float exponentials[kept ? kept : 1][S::vector], edge_exponentials[S::thread_edges + 1];
  float max;         // of the elements whose exponentials are kept
  float scale, kept_scale;
  float shrink;      // the scale as an exponent: one operation less per element
  Total total;

  __device__ __forceinline__ void begin(const Softmax::Arguments&, const Part<S>&) {}

  __device__ __forceinline__ Total reduce(const Pack<T, S::vector> (&packs)[1][S::packs],
                                          const float (&edges)[1][S::thread_edges + 1], const Part<S>&) {
    PackMax<T, S::vector> packs_max;
#pragma unroll
    for (int p = 0; p < S::packs; ++p) packs_max.add(packs[0][p]);
    max = packs_max.get();
#pragma unroll
    for (int e = 0; e < S::thread_edges; ++e) max = fmaxf(max, edges[0][e]);
    max = shuffle_max<S::width>(max);

    // A group holds the whole row: if all of it is -inf, the result must be NaN.
    const float less = S::group ? max : shift(max);
    float sum = 0.0f;
#pragma unroll
    for (int p = 0; p < S::packs; ++p) {
      float elements[S::vector];
      to_floats(packs[0][p], elements);
#pragma unroll
      for (int v = 0; v < S::vector; ++v) {
        const float e = exponential<T>(elements[v] - less);
        if (p < kept) exponentials[p < kept ? p : 0][v] = e;
        sum += e;
      }
    }
#pragma unroll
    for (int e = 0; e < S::thread_edges; ++e) sum += edge_exponentials[e] = exponential<T>(edges[0][e] - less);
#ifndef __HIP_PLATFORM_AMD__
    if constexpr (!EXACT && sizeof(T) == 2 && S::width == KBENCH_WARP_SIZE && (S::group || S::cluster || S::team)) {
      return {max, warp_sum<S::packs * S::vector + S::thread_edges>(sum)};
    }
#endif
    return {max, shuffle_sum<S::width>(sum)};
  }

  __device__ __forceinline__ void finish(Total row_total, int, std::int64_t) {
    total = row_total;
    scale = reciprocal(total.sum);
    kept_scale = S::group ? scale : exponential<T>(max - shift(total.max)) * scale;
    shrink = -log2_flush(total.sum);
  }

  __device__ __forceinline__ unsigned zero() const { return total.sum != total.sum; }

  __device__ __forceinline__ void write(InPack pack, const Part<S>&, const float (&in)[1][S::vector],
                                        float (&out)[1][S::vector]) const {
#pragma unroll
    for (int v = 0; v < S::vector; ++v) {
      out[0][v] = pack.p < kept ? exponentials[pack.p < kept ? pack.p : 0][v] * kept_scale : again(in[0][v]);
    }
  }

  __device__ __forceinline__ void write(InEdge edge, const Part<S>&, const float (&in)[1][1], float (&out)[1][1]) const {
    out[0][0] = keep_edges ? edge_exponentials[edge.e] * kept_scale : again(in[0][0]);
  }

  __device__ __forceinline__ float again(float element) const {
    return kept == S::packs ? exponential<T>(element - total.max) * scale
                            : exp2_flush(fmaf(element - total.max, kLog2E, shrink));
  }
};

template <typename S>
struct Softmax::Row : SoftmaxRow<S> {
  static constexpr bool at_once = S::group && !S::edges && sizeof(typename S::T) == 4 && S::packs >= 4;
};

}  // namespace kbench

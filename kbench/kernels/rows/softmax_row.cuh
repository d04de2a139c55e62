// Softmax of a row, as a use of the kernel for row operators (registers.cuh): the maximum, the sum, the output; and how the
// totals of several parts of a row are combined.
#pragma once

#include "registers.cuh"

namespace kbench {

constexpr float kLog2E = 1.442695041f;

// The value to subtract from x before exp. With a maximum of -inf, exp(-inf - -inf) would be NaN, although the term
// must become zero if a finite element follows.
__device__ __forceinline__ float shift(float max) { return max == -INFINITY ? 0.0f : max; }

// e^x of x <= 0. exp2 of the rounded x * log2(e) has an error of up to |x| units in the last place of fp32. That is lost in
// the rounding to 16 bits, but too much in fp32.
template <typename T>
__device__ __forceinline__ float exponential(float x) {
  if constexpr (sizeof(T) == 4) {
    return exp_flush(x);
  } else {
    return exp2_flush(x * kLog2E);
  }
}

// The maximum, and the sum of exp(x - maximum), over some elements. fmaxf ignores NaN, which is correct here: x -
// maximum is NaN again, and so are the sum and the whole row.
template <typename T>
struct alignas(8) SoftmaxTotal {
  float max, sum;

  static __device__ __forceinline__ SoftmaxTotal none() { return {-INFINITY, 0.0f}; }

  __device__ __forceinline__ void add(SoftmaxTotal other) {
    const float both = fmaxf(max, other.max);
    sum = sum * exponential<T>(max - shift(both)) + other.sum * exponential<T>(other.max - shift(both));
    max = both;
  }

  // The maximum is that of the whole warp. WIDTH is smaller only if the other threads repeat the totals of the first
  // WIDTH.
  template <int WIDTH>
  __device__ __forceinline__ SoftmaxTotal reduce() const {
    const float both = shuffle_max<kWarpSize>(max);  // one instruction for all threads
    return {both, shuffle_sum<WIDTH>(sum * exponential<T>(max - shift(both)))};
  }
};

// The total of totals in shared memory, see exchange.cuh. The maximum of all comes first, so that no exponential waits for
// another. They are read twice: to keep them in registers, some kernels would spill others. A row of -inf becomes NaN.
template <typename T>
__device__ __forceinline__ SoftmaxTotal<T> reduce_all(const SoftmaxTotal<T>* totals, int count) {
  constexpr int each = 4;  // at once; there are seldom more
  const SoftmaxTotal<T>* mine = totals + threadIdx.x % kWarpSize;
  const int left = count - int(threadIdx.x % kWarpSize);
  float max = -INFINITY, sum = 0.0f;
#pragma unroll
  for (int i = 0; i < each; ++i) {
    if (i * kWarpSize < left) max = fmaxf(max, mine[i * kWarpSize].max);
  }
#pragma unroll 1
  for (int i = each * kWarpSize; i < left; i += kWarpSize) max = fmaxf(max, mine[i].max);
  max = shuffle_max<kWarpSize>(max);
  const auto add = [&](const SoftmaxTotal<T>& part) { sum += part.sum * exponential<T>(part.max - max); };
#pragma unroll
  for (int i = 0; i < each; ++i) {
    if (i * kWarpSize < left) add(mine[i * kWarpSize]);
  }
#pragma unroll 1
  for (int i = each * kWarpSize; i < left; i += kWarpSize) add(mine[i]);
  return {max, shuffle_sum<kWarpSize>(sum)};
}

// The sum over a warp of numbers from 0 to LARGEST, by the single instruction for integers, in steps of 2^-31 of the
// largest possible sum; NaN if one is NaN. A thread has the exponentials of up to 97 elements, and the largest of the
// warp is 1. They lose less than 4e-5 of their sum, which is a tenth of the rounding error of fp16.
template <int LARGEST>
__device__ __forceinline__ float warp_sum(float value) {
  constexpr float scale = float(0x80000000u / (kWarpSize * LARGEST));
  const float sum = float(__reduce_add_sync(0xffffffffu, __float2uint_rn(value * scale))) * (1.0f / scale);
  return __any_sync(0xffffffffu, value != value) ? NAN : sum;
}

// The maximum of the elements of packs.
template <typename T, int VECTOR>
struct PackMax {
  float value = -INFINITY;

  __device__ __forceinline__ void add(const Pack<T, VECTOR>& pack) {
#pragma unroll
    for (int v = 0; v < VECTOR; ++v) value = fmaxf(value, to_float(pack.values[v]));
  }
  __device__ __forceinline__ float get() const { return value; }
};

__device__ __forceinline__ float2 to_float2(__half2 a) { return __half22float2(a); }
__device__ __forceinline__ float2 to_float2(__nv_bfloat162 a) { return __bfloat1622float2(a); }

// Two elements at a time in 16 bits.
template <typename T, typename T2>
struct PairMax {
  T2 value = {from_float<T>(-INFINITY), from_float<T>(-INFINITY)};

  __device__ __forceinline__ void add(const Pack<T, 8>& pack) {
    T2 pairs[4];
    memcpy(pairs, pack.values, sizeof pairs);
#pragma unroll
    for (int v = 0; v < 4; ++v) value = __hmax2(value, pairs[v]);
  }
  __device__ __forceinline__ float get() const {
    const float2 both = to_float2(value);
    return fmaxf(both.x, both.y);
  }
};

template <>
struct PackMax<__half, 8> : PairMax<__half, __half2> {};
template <>
struct PackMax<__nv_bfloat16, 8> : PairMax<__nv_bfloat16, __nv_bfloat162> {};

// fp32 exponentials replace the elements. 16-bit rows keep the elements, in half the registers, and compute every
// exponential twice. They keep the exponentials with KEEP, and if a thread has few elements.
//
// EXACT: the sum has the precision of fp32 also in 16 bits, which a loss needs.
template <typename S, bool EXACT = false>
struct SoftmaxRow : Bounds<S> {
  using T = typename S::T;
  using Total = SoftmaxTotal<T>;
  static constexpr bool keep = S::keep || sizeof(T) == 4 || S::vector == 1 || S::packs == 1 || (S::group && S::packs <= 2);
  static constexpr int kept = keep ? S::packs : 0;

  // Whether the exponentials of elements outside of the accesses are kept, too.
  static constexpr bool keep_edges = keep && S::packs <= 8;

  float exponentials[kept ? kept : 1][S::vector], edge_exponentials[S::thread_edges + 1];
  float max;         // of the elements whose exponentials are kept
  float scale, kept_scale;
  float shrink;      // the scale as an exponent: one operation less per element
  Total total;

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
    if constexpr (!EXACT && sizeof(T) == 2 && S::width == kWarpSize && (S::group || S::cluster)) {
      return {max, warp_sum<S::packs * S::vector + S::thread_edges>(sum)};
    }
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

}  // namespace kbench

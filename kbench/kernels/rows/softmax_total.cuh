// The maximum and the sum of exponentials of a part of a row, and how those of several parts are combined.
#pragma once

#include "warps.cuh"

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
    const float both = shuffle_max<KBENCH_WARP_SIZE>(max);  // one instruction for all threads
    return {both, shuffle_sum<WIDTH>(sum * exponential<T>(max - shift(both)))};
  }

  // In 64 bits, of which bit 31 is 0: a sum of exponentials is never negative, so its sign is free (rows/team.cuh).
  __device__ __forceinline__ std::uint64_t word() const {
    return std::uint64_t(__float_as_uint(max)) << 32 | (__float_as_uint(sum) & 0x7fffffffu);
  }
  static __device__ __forceinline__ SoftmaxTotal of_word(std::uint64_t word) {
    return {__uint_as_float(unsigned(word >> 32)), __uint_as_float(unsigned(word) & 0x7fffffffu)};
  }
};

// The total of the parts of a row that the threads of a warp have, for all of them. The maximum of all comes first, so that no
// exponential waits for another. A row of -inf becomes NaN.
template <typename T, int COUNT>
__device__ __forceinline__ SoftmaxTotal<T> reduce_parts(const SoftmaxTotal<T> (&parts)[COUNT]) {
  float max = parts[0].max, sum = 0.0f;
#pragma unroll
  for (int p = 1; p < COUNT; ++p) max = fmaxf(max, parts[p].max);
  max = shuffle_max<KBENCH_WARP_SIZE>(max);
#pragma unroll
  for (int p = 0; p < COUNT; ++p) sum += parts[p].sum * exponential<T>(parts[p].max - max);
  return {max, shuffle_sum<KBENCH_WARP_SIZE>(sum)};
}

// The same for totals in shared memory, see exchange.cuh. They are read twice: to keep them in registers, some kernels would
// spill others.
template <typename T>
__device__ __forceinline__ SoftmaxTotal<T> reduce_all(const SoftmaxTotal<T>* totals, int count) {
  constexpr int each = 4;  // at once; there are seldom more
  const SoftmaxTotal<T>* mine = totals + threadIdx.x % KBENCH_WARP_SIZE;
  const int left = count - int(threadIdx.x % KBENCH_WARP_SIZE);
  float max = -INFINITY, sum = 0.0f;
#pragma unroll
  for (int i = 0; i < each; ++i) {
    if (i * KBENCH_WARP_SIZE < left) max = fmaxf(max, mine[i * KBENCH_WARP_SIZE].max);
  }
#pragma unroll 1
  for (int i = each * KBENCH_WARP_SIZE; i < left; i += KBENCH_WARP_SIZE) max = fmaxf(max, mine[i].max);
  max = shuffle_max<KBENCH_WARP_SIZE>(max);
  const auto add = [&](const SoftmaxTotal<T>& part) { sum += part.sum * exponential<T>(part.max - max); };
#pragma unroll
  for (int i = 0; i < each; ++i) {
    if (i * KBENCH_WARP_SIZE < left) add(mine[i * KBENCH_WARP_SIZE]);
  }
#pragma unroll 1
  for (int i = each * KBENCH_WARP_SIZE; i < left; i += KBENCH_WARP_SIZE) add(mine[i]);
  return {max, shuffle_sum<KBENCH_WARP_SIZE>(sum)};
}

#ifndef __HIP_PLATFORM_AMD__
// The sum over a warp of numbers from 0 to LARGEST, by the single instruction for integers, in steps of 2^-31 of the
// largest possible sum; NaN if one is NaN. A thread has the exponentials of up to 161 elements, and the largest of the
// warp is 1. They lose less than 4e-5 of their sum, which is a tenth of the rounding error of fp16.
template <int LARGEST>
__device__ __forceinline__ float warp_sum(float value) {
  constexpr float scale = float(0x80000000u / (KBENCH_WARP_SIZE * LARGEST));
  const float sum = float(__reduce_add_sync(0xffffffffu, __float2uint_rn(value * scale))) * (1.0f / scale);
  return __any_sync(0xffffffffu, value != value) ? NAN : sum;
}
#endif

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

#ifndef __HIP_PLATFORM_AMD__
__device__ __forceinline__ __half2 max2(__half2 a, __half2 b) { return __hmax2(a, b); }
__device__ __forceinline__ __nv_bfloat162 max2(__nv_bfloat162 a, __nv_bfloat162 b) { return __hmax2(a, b); }
__device__ __forceinline__ float2 to_float2(__half2 a) { return __half22float2(a); }
__device__ __forceinline__ float2 to_float2(__nv_bfloat162 a) { return __bfloat1622float2(a); }

template <typename T, typename T2, int VECTOR>
struct PairMax {
  T2 value = {from_float<T>(-INFINITY), from_float<T>(-INFINITY)};

  __device__ __forceinline__ void add(const Pack<T, VECTOR>& pack) {
    T2 pairs[VECTOR / 2];
    memcpy(pairs, pack.values, sizeof pairs);
#pragma unroll
    for (int v = 0; v < VECTOR / 2; ++v) value = max2(value, pairs[v]);
  }
  __device__ __forceinline__ float get() const {
    const float2 both = to_float2(value);
    return fmaxf(both.x, both.y);
  }
};

template <>
struct PackMax<__half, 8> : PairMax<__half, __half2, 8> {};
template <>
struct PackMax<__nv_bfloat16, 8> : PairMax<__nv_bfloat16, __nv_bfloat162, 8> {};
#endif

}  // namespace kbench

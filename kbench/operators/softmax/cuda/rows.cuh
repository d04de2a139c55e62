// Shared by the tuned softmax kernels: the maximum and the sum of a part of a row, and how the parts of threads, of warps,
// and of the blocks of a cluster are combined for the whole row.
#pragma once

#include "cluster.cuh"

namespace kbench {

constexpr float kLog2E = 1.442695041f;

// The value to subtract from x before exp. With a maximum of -inf, exp(-inf - -inf) would be NaN, although the term must
// become zero if a finite element follows.
__device__ __forceinline__ float shift(float max) { return max == -INFINITY ? 0.0f : max; }

// exp2 of the rounded x * log2(e) has an error of up to |x| units in the last place of fp32. That is lost in the rounding
// to 16 bits, but too much in fp32.
template <typename T>
__device__ __forceinline__ float exponential(float x) {
  if constexpr (sizeof(T) == 4) {
    return expf(x);
  } else {
    return exp2_flush(x * kLog2E);
  }
}

// The maximum, and the sum of exp(x - maximum), over some elements. fmaxf ignores NaN, which is correct here: x - maximum
// is NaN again, and so are the sum and the whole row.
struct Total {
  float max = -INFINITY;
  float sum = 0.0f;

  template <typename T>
  __device__ __forceinline__ void add(Total other) {
    const float both = fmaxf(max, other.max);
    sum = sum * exponential<T>(max - shift(both)) + other.sum * exponential<T>(other.max - shift(both));
    max = both;
  }
};

#ifndef __HIP_PLATFORM_AMD__
// The maximum over a warp, by the single instruction for it, which takes integers. Read as integers, floats keep their
// order if the bits below the sign of negative ones are inverted.
__device__ __forceinline__ float warp_max(float value) {
  const auto ordered = [](int bits) { return bits ^ (bits >> 31 & 0x7fffffff); };
  return __int_as_float(ordered(__reduce_max_sync(0xffffffffu, ordered(__float_as_int(value)))));
}

// The same for the sum of numbers from 0 to LARGEST, in steps of 2^-31 of the largest possible sum; NaN if one is NaN. A
// thread has the exponentials of up to 161 elements, and the largest of the warp is 1. They lose less than 4e-5 of their
// sum, which is a tenth of the rounding error of fp16.
template <int LARGEST>
__device__ __forceinline__ float warp_sum(float value) {
  constexpr float scale = float(0x80000000u / (KBENCH_WARP_SIZE * LARGEST));
  const float sum = float(__reduce_add_sync(0xffffffffu, __float2uint_rn(value * scale))) * (1.0f / scale);
  return __any_sync(0xffffffffu, value != value) ? NAN : sum;
}
#endif

// Combines the values of WIDTH neighbouring threads of a warp, and returns the result to all of them.
template <int WIDTH>
__device__ __forceinline__ float shuffle_max(float value) {
#ifndef __HIP_PLATFORM_AMD__
  if constexpr (WIDTH == KBENCH_WARP_SIZE) {
    return warp_max(value);
  } else
#endif
  {
#pragma unroll
    for (int mask = WIDTH / 2; mask > 0; mask /= 2) value = fmaxf(value, KBENCH_SHUFFLE_XOR(value, mask));
    return value;
  }
}

template <int WIDTH>
__device__ __forceinline__ float shuffle_sum(float value) {
#pragma unroll
  for (int mask = WIDTH / 2; mask > 0; mask /= 2) value += KBENCH_SHUFFLE_XOR(value, mask);
  return value;
}

// The elements of a pack in fp32.
template <typename T, int VECTOR>
__device__ __forceinline__ void to_floats(const Pack<T, VECTOR>& pack, float (&floats)[VECTOR]) {
#pragma unroll
  for (int v = 0; v < VECTOR; ++v) floats[v] = to_float(pack.values[v]);
}

// A bfloat16 is the upper half of a float. A word holds two: a shift gives one, a mask the other.
__device__ __forceinline__ void to_floats(const Pack<__nv_bfloat16, 8>& pack, float (&floats)[8]) {
  unsigned words[4];
  memcpy(words, pack.values, sizeof words);
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    const unsigned both[2] = {words[w] << 16, words[w] & 0xffff0000u};
    memcpy(floats + 2 * w, both, sizeof both);
  }
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

// The 16-byte accesses of a row: `head` elements before the first multiple of 16 bytes, then `packs` accesses, then the
// rest. The elements outside the accesses are fewer than two accesses hold; thread i of the row takes the i-th of them.
template <typename T, int VECTOR, bool EDGES>
struct Layout {
  int head = 0;
  int packs;
  int columns;

  __device__ __forceinline__ Layout(const T* row, int columns) : columns(columns) {
    if constexpr (EDGES) {
      const int beyond = int(reinterpret_cast<std::uintptr_t>(row) / sizeof(T)) & (VECTOR - 1);
      head = min((VECTOR - beyond) & (VECTOR - 1), columns);
    }
    packs = (columns - head) / VECTOR;
  }

  // The index of the i-th element outside the accesses; beyond the row if there are fewer.
  __device__ __forceinline__ int edge(int i) const { return i < head ? i : packs * VECTOR + i; }
};

// Combines the totals of warps into that of the row, for all threads, with one barrier. `totals` has room for the warps of
// the block, or of the whole cluster. In a cluster every warp sends its total to every block, and a block waits only for
// the totals that it receives. So a block may end while others still work.
template <typename T, bool CLUSTER, int MAX_THREADS>
__device__ __forceinline__ Total exchange(Total warp_total, float2* totals, std::uint64_t* barrier = nullptr) {
  constexpr int max_warps = MAX_THREADS / KBENCH_WARP_SIZE;
  // Threads among which the totals are divided: a power of two.
  constexpr int width = CLUSTER || max_warps > 16 ? 32 : max_warps > 8 ? 16 : 8;
  const int lane = threadIdx.x % KBENCH_WARP_SIZE;
  const int warp = threadIdx.x / KBENCH_WARP_SIZE;
  const int warps = blockDim.x / KBENCH_WARP_SIZE;
  const float2 pair = {warp_total.max, warp_total.sum};
  int count = warps;
  if constexpr (CLUSTER) {
#if KBENCH_CLUSTERS
    const int blocks = __clusterSizeInBlocks();
    const int rank = __clusterRelativeBlockRank();
    count *= blocks;
    ClusterExchange::await_all();
    if (threadIdx.x == 0) ClusterExchange::expect(barrier, count * int(sizeof pair));
    if (lane < blocks) ClusterExchange::send(pair, totals + rank * warps + warp, barrier, lane);
    ClusterExchange::await_bytes(barrier);
#endif
  } else {
    if (lane == 0) totals[warp] = pair;
    __syncthreads();
  }
  Total row;
  if constexpr (CLUSTER) {
#pragma unroll 1
    for (int i = lane; i < count; i += width) row.add<T>({totals[i].x, totals[i].y});
  } else {
    if (lane % width < count) row = {totals[lane % width].x, totals[lane % width].y};
  }
  const float max = shuffle_max<KBENCH_WARP_SIZE>(row.max);  // over more threads than `width`, but in one instruction
  return {max, shuffle_sum<width>(row.sum * exponential<T>(row.max - shift(max)))};
}

}  // namespace kbench

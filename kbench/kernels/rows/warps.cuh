// Packs from any address, their elements in fp32, and sums and maxima over neighbouring threads of a warp.
#pragma once

#include "device.cuh"

namespace kbench {

#ifndef __HIP_PLATFORM_AMD__
// The maximum over a warp, by the single instruction for it, which takes integers. Read as integers, floats keep their
// order if the bits below the sign of negative ones are inverted.
__device__ __forceinline__ float warp_max(float value) {
  const auto ordered = [](int bits) { return bits ^ (bits >> 31 & 0x7fffffff); };
  return __int_as_float(ordered(__reduce_max_sync(0xffffffffu, ordered(__float_as_int(value)))));
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

// The elements at any address, which no kernel writes, by the accesses of 16 bytes that hold them. Each contains an element,
// so they do not reach beyond the allocation.
template <typename T, int VECTOR>
__device__ __forceinline__ void load_anywhere(Pack<T, VECTOR>& pack, const T* address) {
  constexpr int quads = VECTOR * sizeof(T) / 16, count = 4 * quads;  // words of 4 bytes
  const unsigned beyond = unsigned(reinterpret_cast<std::uintptr_t>(address)) & 15;
  const uint4* from = reinterpret_cast<const uint4*>(reinterpret_cast<std::uintptr_t>(address) - beyond);
  unsigned words[count + 4];
#pragma unroll
  for (int q = 0; q <= quads; ++q) {
    const uint4 quad = load_constant(from + (q < quads || beyond ? q : q - 1));
    memcpy(words + 4 * q, &quad, sizeof quad);
  }
#pragma unroll
  for (int w = 0; w < count + 2; ++w) words[w] = beyond & 8 ? words[w + 2] : words[w];
#pragma unroll
  for (int w = 0; w < count + 1; ++w) words[w] = beyond & 4 ? words[w + 1] : words[w];
  if constexpr (sizeof(T) == 2) {
#pragma unroll
    for (int w = 0; w < count; ++w) words[w] = beyond & 2 ? words[w] >> 16 | words[w + 1] << 16 : words[w];
  }
  memcpy(pack.values, words, sizeof pack.values);
}

}  // namespace kbench

// What the warps of persistent blocks do together: copies in the background, and the sums of several values at once.
#pragma once

#include "rows/cluster.cuh"

namespace kbench {

// 16 bytes from global to shared memory, in the background; zeros if not `inside`. A thread awaits its own copies only:
// it commits groups of them, and waits until at most PENDING groups are on their way.
__device__ __forceinline__ void copy_ahead(void* shared, const void* global, bool inside) {
#ifndef __HIP_PLATFORM_AMD__
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                   static_cast<unsigned>(__cvta_generic_to_shared(shared))),
               "l"(__cvta_generic_to_global(global)), "r"(inside ? 16 : 0)
               : "memory");
#endif
}
__device__ __forceinline__ void commit_copies() {
#ifndef __HIP_PLATFORM_AMD__
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int PENDING>
__device__ __forceinline__ void await_copies() {
#ifndef __HIP_PLATFORM_AMD__
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}

// The sums of some values over a warp: lane i has that of value i % COUNT. This takes fewer shuffles than COUNT sums.
template <int COUNT>
__device__ __forceinline__ float spread_sums(float (&values)[COUNT]) {
  static_assert(COUNT == 2 || COUNT == 4, "half of the values go to the other half of the lanes, once or twice");
  if constexpr (COUNT == 4) {
    const bool upper = threadIdx.x & 2;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float kept = upper ? values[i + 2] : values[i], sent = upper ? values[i] : values[i + 2];
      values[i] = kept + KBENCH_SHUFFLE_XOR(sent, 2);
    }
  }
  const bool odd = threadIdx.x & 1;
  const float kept = odd ? values[1] : values[0], sent = odd ? values[0] : values[1];
  float sum = kept + KBENCH_SHUFFLE_XOR(sent, 1);
#pragma unroll
  for (int mask = COUNT; mask < KBENCH_WARP_SIZE; mask *= 2) sum += KBENCH_SHUFFLE_XOR(sum, mask);
  return sum;
}

template <int COUNT>
struct alignas(4 * COUNT) SumsOfWarp {
  float values[COUNT];
};

// The values of the first COUNT lanes, for all lanes.
template <int COUNT>
__device__ __forceinline__ SumsOfWarp<COUNT> gather(float value) {
  SumsOfWarp<COUNT> all;
#pragma unroll
  for (int i = 0; i < COUNT; ++i) {
#ifdef __HIP_PLATFORM_AMD__
    all.values[i] = __shfl(value, i);
#else
    all.values[i] = __shfl_sync(0xffffffffu, value, i);
#endif
  }
  return all;
}

}  // namespace kbench

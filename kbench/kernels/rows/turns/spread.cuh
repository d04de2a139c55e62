// What the warps of persistent blocks do: copies in the background, and sums over their lanes.
#pragma once

#include "rows/cluster.cuh"
#include "rows/sums.cuh"

namespace kbench {

// An address in shared memory, in 32 bits.
__device__ __forceinline__ unsigned shared_address(const void* shared) {
#ifdef __HIP_PLATFORM_AMD__
  return 0;
#else
  return static_cast<unsigned>(__cvta_generic_to_shared(shared));
#endif
}

// 16 bytes from global to shared memory, in the background; zeros if not `inside`. A thread awaits its own copies only:
// it commits groups of them, and waits until at most PENDING groups are on their way.
__device__ __forceinline__ void copy_ahead(unsigned shared, const void* global, bool inside) {
#ifndef __HIP_PLATFORM_AMD__
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(__cvta_generic_to_global(global)),
               "r"(inside ? 16 : 0)
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

// 16 bytes of shared memory, after the copies that were awaited.
__device__ __forceinline__ uint4 load_shared(unsigned shared) {
  uint4 word = {};
#ifndef __HIP_PLATFORM_AMD__
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
               : "r"(shared)
               : "memory");
#endif
  return word;
}

// 16 bytes to global memory, if `inside`: without a branch, so what is stored next is computed beside it.
__device__ __forceinline__ void store_if(bool inside, void* global, uint4 word) {
#ifndef __HIP_PLATFORM_AMD__
  asm volatile("{ .reg .pred p; setp.ne.s32 p, %5, 0; @p st.global.v4.u32 [%0], {%1, %2, %3, %4}; }" ::"l"(
                   __cvta_generic_to_global(global)),
               "r"(word.x), "r"(word.y), "r"(word.z), "r"(word.w), "r"(int(inside))
               : "memory");
#endif
}

// The sums over a warp, for all lanes. Of two, each half of the lanes adds up one: this takes fewer shuffles than two sums.
template <int COUNT>
__device__ __forceinline__ Sums<COUNT> sum_over_warp(Sums<COUNT> sums) {
  static_assert(COUNT == 1 || COUNT == 2, "each lane adds up one");
  if constexpr (COUNT == 1) {
    return sums.template reduce<KBENCH_WARP_SIZE>();
  } else {
    const bool odd = threadIdx.x & 1;
    const float kept = odd ? sums.values[1] : sums.values[0], sent = odd ? sums.values[0] : sums.values[1];
    float sum = kept + KBENCH_SHUFFLE_XOR(sent, 1);
#pragma unroll
    for (int mask = 2; mask < KBENCH_WARP_SIZE; mask *= 2) sum += KBENCH_SHUFFLE_XOR(sum, mask);
    const float other = KBENCH_SHUFFLE_XOR(sum, 1);
    return {odd ? other : sum, odd ? sum : other};
  }
}

}  // namespace kbench

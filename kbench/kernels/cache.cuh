// What kernels ask of the L2 cache: which lines leave it first, and which stay longer.
#pragma once

#include <climits>

#include <cuda_runtime.h>

#include "kernel.h"

namespace kbench {

// A policy of loads: what the L2 cache does with the lines that they read. The words are those that the instruction
// `createpolicy` makes, for sm_80 and newer. As an argument of a kernel, a policy takes no instruction and no register.
enum class LoadPolicy : std::uint64_t {
  usual = 0x16f0000000000000,  // createpolicy.fractional.L2::evict_normal
  keep = 0x14f0000000000000,   // createpolicy.fractional.L2::evict_last: they leave the cache after all other lines
};

// What a kernel asks of the L2 cache.
struct CacheHint {
  bool stream_output;  // what it writes leaves the cache first, and leaves room for what it reads
  LoadPolicy input;
};

// Loads 16 bytes that no kernel writes, if `inside`, without a branch.
__device__ __forceinline__ void load_16_if(uint4& word, bool inside, const void* address) {
#ifdef __HIP_PLATFORM_AMD__
  if (inside) word = *static_cast<const uint4*>(address);
#else
  asm("{ .reg .pred p; setp.ne.s32 p, %5, 0; @p ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4]; }"
      : "+r"(word.x), "+r"(word.y), "+r"(word.z), "+r"(word.w)
      : "l"(__cvta_generic_to_global(address)), "r"(int(inside)));
#endif
}
__device__ __forceinline__ void load_16_if(uint4& word, bool inside, const void* address, LoadPolicy policy) {
#ifdef __HIP_PLATFORM_AMD__
  load_16_if(word, inside, address);
#else
  asm("{ .reg .pred p; setp.ne.s32 p, %5, 0; @p ld.global.nc.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %6; }"
      : "+r"(word.x), "+r"(word.y), "+r"(word.z), "+r"(word.w)
      : "l"(__cvta_generic_to_global(address)), "r"(int(inside)), "l"(static_cast<std::uint64_t>(policy)));
#endif
}

// Of the current device. INT_MAX if it cannot be asked: then no matrix counts as large.
inline std::int64_t l2_bytes() {
  int device = 0, bytes = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return INT_MAX;
  return cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, device) == cudaSuccess ? bytes : INT_MAX;
}

// The most bytes of all matrices together for which the output is streamed: they leave most of the L2 cache of a large device
// free. From 20 to 32 MiB streaming stores cost half a microsecond (do_bench, H200), and beyond that about half a per cent.
constexpr std::int64_t kStreamedBytes = 16 * 1024 * 1024;

// A kernel keeps its input if a matrix is more than this many times as large as the cache. KEPT_CACHES of triton_rows.py is the
// same.
constexpr int kKeptCaches = 2;

// For a kernel that reads and writes so many matrices of this size. Keeping the input makes the kernel faster. With smaller
// matrices, it makes the next kernel slower by as much or more: see docs/kernels.md.
inline CacheHint cache_hint(std::int64_t matrix_bytes, int matrices) {
  if (matrix_bytes * matrices <= kStreamedBytes) return {true, LoadPolicy::usual};
  return {false, matrix_bytes > kKeptCaches * l2_bytes() ? LoadPolicy::keep : LoadPolicy::usual};
}

}  // namespace kbench

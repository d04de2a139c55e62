// What the CUDA kernels share: dtypes, 16-byte accesses, warp shuffles, launching. Compiles for sm_80 and newer and,
// through torch's hipify, for AMD GPUs with 64 threads in a wavefront (CDNA).
#pragma once

#include <climits>
#include <cmath>
#include <cstring>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "kernel.h"

namespace kbench {

#ifdef __HIP_PLATFORM_AMD__
#if defined(__HIP_DEVICE_COMPILE__) && !defined(__GFX9__)
#error "kbench's kernels assume wavefronts of 64 threads (CDNA, gfx9)"
#endif
#define KBENCH_WARP_SIZE 64
#define KBENCH_SHUFFLE_XOR(value, mask) __shfl_xor(value, mask)
#define KBENCH_SHUFFLE_DOWN(value, delta) __shfl_down(value, delta)
#define KBENCH_STORE_STREAMING(address, value) (*(address) = (value))
#define KBENCH_OPAQUE(word) asm volatile("" : "+v"(word))
#else
#define KBENCH_WARP_SIZE 32
#define KBENCH_SHUFFLE_XOR(value, mask) __shfl_xor_sync(0xffffffffu, value, mask)
#define KBENCH_SHUFFLE_DOWN(value, delta) __shfl_down_sync(0xffffffffu, value, delta)
#define KBENCH_STORE_STREAMING(address, value) __stcs(address, value)
#define KBENCH_OPAQUE(word) asm volatile("" : "+r"(word))
#endif

constexpr int kMaxThreads = 1024;
constexpr int kMaxWarps = kMaxThreads / KBENCH_WARP_SIZE;

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename T>
__device__ __forceinline__ T from_float(float value);
template <>
__device__ __forceinline__ float from_float<float>(float value) {
  return value;
}
template <>
__device__ __forceinline__ __half from_float<__half>(float value) {
  return __float2half(value);
}
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float value) {
  return __float2bfloat16(value);
}

// Elements that one thread loads or stores at once: 16 bytes where the row allows it, else a single element.
template <typename T>
constexpr int kVector = 16 / sizeof(T);

template <int BYTES>
struct WordOf;
template <>
struct WordOf<2> {
  using type = unsigned short;
};
template <>
struct WordOf<4> {
  using type = unsigned int;
};
template <>
struct WordOf<16> {
  using type = uint4;
};

template <typename T, int SIZE>
struct Pack {
  using Word = typename WordOf<SIZE * sizeof(T)>::type;

  T values[SIZE];

  __device__ __forceinline__ void load(const T* address) {
    const Word word = *reinterpret_cast<const Word*>(address);
    memcpy(values, &word, sizeof word);
  }

  // The output is not read again: evict it first, so that it does not displace input from the L2 cache.
  __device__ __forceinline__ void store(T* address) const {
    Word word;
    memcpy(&word, values, sizeof word);
    KBENCH_STORE_STREAMING(reinterpret_cast<Word*>(address), word);
  }

  // From here on the elements are converted to float anew. Without this the compiler would hold the floats it already
  // has, in twice the registers.
  __device__ __forceinline__ void reconvert() {
    static_assert(sizeof(Word) == 16, "made for 16-byte packs");
    Word word;
    memcpy(&word, values, sizeof word);
    KBENCH_OPAQUE(word.x);
    KBENCH_OPAQUE(word.y);
    KBENCH_OPAQUE(word.z);
    KBENCH_OPAQUE(word.w);
    memcpy(values, &word, sizeof word);
  }

  __device__ __forceinline__ void fill(float value) {
#pragma unroll
    for (int i = 0; i < SIZE; ++i) values[i] = from_float<T>(value);
  }
};

__host__ __device__ constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

inline bool aligned16(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; }

// Whether every row of x and of y begins and ends at a multiple of 16 bytes.
template <typename T>
bool rows_aligned(const Call& call) {
  return aligned16(call.x) && aligned16(call.y) && call.columns % kVector<T> == 0 &&
         (call.stride % kVector<T> == 0 || call.rows == 1);
}

template <typename... Parameters, typename... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), std::int64_t blocks, int threads, cudaStream_t stream,
                   Arguments... arguments) {
  if (blocks > INT_MAX) return cudaErrorInvalidConfiguration;
  kernel<<<dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads)), 0, stream>>>(arguments...);
  return cudaGetLastError();
}

// Calls `function(T{})` with the C++ type of a dtype.
template <typename Function>
cudaError_t with_type(Dtype dtype, Function function) {
  switch (dtype) {
    case Dtype::float32:
      return function(float{});
    case Dtype::float16:
      return function(__half{});
    case Dtype::bfloat16:
      return function(__nv_bfloat16{});
  }
  return cudaErrorInvalidValue;
}

}  // namespace kbench

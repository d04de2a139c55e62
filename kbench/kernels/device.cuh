// Shared by the CUDA kernels: dtypes, 16-byte accesses, warp shuffles, launches. Compiles for sm_80 and newer, and, through
// torch's hipify, for AMD GPUs with wavefronts of 64 threads (CDNA).
#pragma once

#include <atomic>
#include <climits>
#include <cmath>
#include <cstring>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "cache.cuh"

namespace kbench {

#ifdef __HIP_PLATFORM_AMD__
#if defined(__HIP_DEVICE_COMPILE__) && !defined(__GFX9__)
#error "kbench's kernels assume wavefronts of 64 threads (CDNA, gfx9)"
#endif
#define KBENCH_WARP_SIZE 64
#define KBENCH_SHUFFLE_XOR(value, mask) __shfl_xor(value, mask)
#define KBENCH_SHUFFLE_DOWN(value, delta) __shfl_down(value, delta)
#define KBENCH_STORE(address, value) (*(address) = (value))
#define KBENCH_STORE_STREAMING(address, value) (*(address) = (value))
#define KBENCH_OPAQUE(word) asm volatile("" : "+v"(word))
#else
#define KBENCH_WARP_SIZE 32
#define KBENCH_SHUFFLE_XOR(value, mask) __shfl_xor_sync(0xffffffffu, value, mask)
#define KBENCH_SHUFFLE_DOWN(value, delta) __shfl_down_sync(0xffffffffu, value, delta)
#define KBENCH_STORE(address, value) __stwb(address, value)  // an ordinary store that the compiler never splits
#define KBENCH_STORE_STREAMING(address, value) __stcs(address, value)
#define KBENCH_OPAQUE(word) asm volatile("" : "+r"(word))
#endif

// 2^x. Results below fp32's normal range become 0, which saves instructions for them.
__device__ __forceinline__ float exp2_flush(float x) {
#ifdef __HIP_PLATFORM_AMD__
  return exp2f(x);
#else
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#endif
}

// e^x of x <= 0 within 8 units in the last place. Results below fp32's normal range become 0,
// except on AMD GPUs, where this is expf.
//
// h is x * log2(e), rounded down, so 2^h is too small by a factor of up to 1 + 2e-5. `rest` is
// x - h * ln(2), and in fp32 e^rest is 1 + rest. It is never negative, because the product of the two constants is above 1.
// Saturation (.sat) turns the NaN of x = -inf into 0. The NaN of x = NaN remains in 2^h.
__device__ __forceinline__ float exp_flush(float x) {
#ifdef __HIP_PLATFORM_AMD__
  return expf(x);
#else
  const float h = __fmul_rd(x, 1.44269514f), power = exp2_flush(h);
  float rest;
  asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(rest) : "f"(h), "f"(-0.693147182f), "f"(x));
  return fmaf(power, rest, power);
#endif
}

// 1 / x within one unit in the last place, in one instruction. Subnormal inputs and results become 0.
__device__ __forceinline__ float reciprocal(float x) {
#ifdef __HIP_PLATFORM_AMD__
  return __builtin_amdgcn_rcpf(x);
#else
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#endif
}

// log2(x), in the same way. Subnormal inputs count as 0.
__device__ __forceinline__ float log2_flush(float x) {
#ifdef __HIP_PLATFORM_AMD__
  return __log2f(x);
#else
  float result;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#endif
}

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

// An element that no kernel writes.
template <typename T>
__device__ __forceinline__ T load_constant(const T* address) {
#ifdef __HIP_PLATFORM_AMD__
  return *address;
#else
  return __ldg(address);
#endif
}

// The elements that a thread loads or stores at once: 16 bytes if the row allows it, otherwise one element.
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
struct WordOf<8> {
  using type = uint2;
};
template <>
struct WordOf<16> {
  using type = uint4;
};
template <>
struct WordOf<32> {  // two accesses: `load_if` makes them
  struct type {
    uint4 words[2];
  };
};

// From here on, the compiler does not know how the words were computed.
__device__ __forceinline__ void hide(uint4& words) {
  KBENCH_OPAQUE(words.x);
  KBENCH_OPAQUE(words.y);
  KBENCH_OPAQUE(words.z);
  KBENCH_OPAQUE(words.w);
}

template <typename T, int SIZE>
struct Pack {
  using Word = typename WordOf<SIZE * sizeof(T)>::type;

  T values[SIZE];

  __device__ __forceinline__ void load(const T* address) {
    const Word word = *reinterpret_cast<const Word*>(address);
    memcpy(values, &word, sizeof word);
  }

  // The same for elements that no kernel writes. An access of fewer than 16 bytes has no policy.
  __device__ __forceinline__ void load(const T* address, LoadPolicy policy) {
    if constexpr (sizeof values == 16) {
      uint4 word = {};
      load_16_if(word, true, address, policy);
      memcpy(values, &word, sizeof word);
    } else {
      load(address);
    }
  }

  // The elements at the address, which no kernel writes, if `inside`; otherwise `otherwise` in every element. The choice is
  // hidden from the compiler. It would choose element by element, with a register for each, and it would not compute the
  // address before it knows `inside`. `policy`: a LoadPolicy or nothing. Single elements have none.
  template <typename... Policy>
  __device__ __forceinline__ void load_if(bool inside, const T* address, float otherwise, Policy... policy) {
    static_assert(SIZE == 1 || sizeof(Word) % 16 == 0, "a single element, or accesses of 16 bytes");
    fill(otherwise);
    if constexpr (SIZE == 1) {
      if (inside) values[0] = load_constant(address);
    } else {
#pragma unroll
      for (int first = 0; first < SIZE; first += kVector<T>) {
        uint4 word;
        memcpy(&word, values + first, sizeof word);
        load_16_if(word, inside, address + first, policy...);
#ifdef __HIP_PLATFORM_AMD__
        hide(word);
#endif
        memcpy(values + first, &word, sizeof word);
      }
    }
  }

  // `streaming`: these lines leave the L2 cache first.
  __device__ __forceinline__ void store(T* address, bool streaming) const {
    Word word;
    memcpy(&word, values, sizeof word);
    if (streaming) {
      KBENCH_STORE_STREAMING(reinterpret_cast<Word*>(address), word);
    } else {
      KBENCH_STORE(reinterpret_cast<Word*>(address), word);
    }
  }

  // The same if `inside`, without a branch for accesses of 16 bytes.
  template <bool STREAMING>
  __device__ __forceinline__ void store_if(bool inside, T* address) const {
#ifndef __HIP_PLATFORM_AMD__
    if constexpr (sizeof values == 16) {
      uint4 word;
      memcpy(&word, values, sizeof word);
#define KBENCH_STORE_IF(KIND)                                                                                    \
  asm volatile("{ .reg .pred p; setp.ne.s32 p, %5, 0; @p st.global." KIND ".v4.b32 [%4], {%0, %1, %2, %3}; }" :: \
                   "r"(word.x),                                                                                  \
               "r"(word.y), "r"(word.z), "r"(word.w), "l"(__cvta_generic_to_global(address)), "r"(int(inside))   \
               : "memory")
      if constexpr (STREAMING) {
        KBENCH_STORE_IF("cs");
      } else {
        KBENCH_STORE_IF("wb");
      }
#undef KBENCH_STORE_IF
      return;
    }
#endif
    if (inside) store(address, STREAMING);
  }

  // The elements with some bits of each word flipped; a single element is unchanged.
  __device__ __forceinline__ Pack flipped(unsigned bits) const {
    Pack result = *this;
    if constexpr (SIZE > 1) {
      Word word;
      memcpy(&word, values, sizeof word);
      word = {word.x ^ bits, word.y ^ bits, word.z ^ bits, word.w ^ bits};
      hide(word);
      memcpy(result.values, &word, sizeof word);
    }
    return result;
  }

  __device__ __forceinline__ void fill(float value) {
#pragma unroll
    for (int i = 0; i < SIZE; ++i) values[i] = from_float<T>(value);
  }
};

__host__ __device__ constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

template <typename... Parameters, typename... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), std::int64_t blocks, int threads, cudaStream_t stream,
                   Arguments... arguments) {
  if (blocks > INT_MAX) return cudaErrorInvalidConfiguration;
  kernel<<<dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads)), 0, stream>>>(arguments...);
  return cudaGetLastError();
}

#ifndef __HIP_PLATFORM_AMD__
template <typename... Parameters, typename... Arguments>
cudaError_t launch_with(cudaLaunchAttribute attribute, void (*kernel)(Parameters...), dim3 blocks, int threads,
                        cudaStream_t stream, Arguments... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = blocks;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  if (cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...) == cudaSuccess) return cudaSuccess;
  return cudaGetLastError();
}
#endif

// Launches a cluster of `blocks` blocks for each of `rows`. Not every device with clusters has more than 8 blocks in one, so
// a kernel needs an attribute for more.
template <typename... Parameters, typename... Arguments>
cudaError_t launch_clusters(void (*kernel)(Parameters...), std::int64_t rows, int blocks, int threads,
                            cudaStream_t stream, Arguments... arguments) {
#ifdef __HIP_PLATFORM_AMD__
  return cudaErrorInvalidConfiguration;
#else
  if (rows * blocks > INT_MAX) return cudaErrorInvalidConfiguration;
  if (blocks > 8 && cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1) != cudaSuccess) {
    return cudaGetLastError();
  }
  cudaLaunchAttribute cluster;
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = blocks;
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  return launch_with(cluster, kernel, dim3(static_cast<unsigned>(rows * blocks)), threads, stream, arguments...);
#endif
}

inline int multiprocessors() {
  int device = 0, count = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  return cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) == cudaSuccess ? count : 0;
}

constexpr int kMostDevices = 64;

// The bandwidth of the current device's memory; 0 if the driver does not say. Each device is asked once, because the answer
// takes half a millisecond.
inline double memory_gbps() {
  static std::atomic<double> known[kMostDevices];  // negative: the driver does not say
  int device = 0, kilohertz = 0, bits = 0;
  if (cudaGetDevice(&device) != cudaSuccess || device >= kMostDevices) return 0;
  double gbps = known[device];
  if (gbps == 0) {
    const bool said = cudaDeviceGetAttribute(&kilohertz, cudaDevAttrMemoryClockRate, device) == cudaSuccess &&
                      cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, device) == cudaSuccess && kilohertz > 0;
    gbps = said ? 2e-6 * kilohertz * (bits / 8) : -1;  // two transfers in each cycle
    known[device] = gbps;
  }
  return gbps < 0 ? 0 : gbps;
}

// A launch is small if the device holds this many of its kind at once.
constexpr int kSmallLaunches = 8;

// Launches blocks that wait for each other, `blocks` in each of `rows` rows of the grid. Returns cudaErrorInvalidConfiguration
// if there can be no room for all. It checks this before the launch, because a failed launch breaks the capture of a graph.
//
// None starts before there is room for all: the launch is cooperative. A small launch is not, because that takes 0.2 us with
// 64 blocks. It would wait forever only beside so many others on other streams that each of them lacks a block.
template <typename... Parameters, typename... Arguments>
cudaError_t launch_together(void (*kernel)(Parameters...), int rows, int blocks, int threads, cudaStream_t stream,
                            Arguments... arguments) {
#ifdef __HIP_PLATFORM_AMD__
  return cudaErrorInvalidConfiguration;
#else
  int each = 0;
  const cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, threads, 0);
  if (error != cudaSuccess) return error;
  if (rows * blocks > each * multiprocessors()) return cudaErrorInvalidConfiguration;
  cudaLaunchAttribute cooperative;
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = kSmallLaunches * rows * blocks > each * multiprocessors();
  return launch_with(cooperative, kernel, dim3(blocks, rows), threads, stream, arguments...);
#endif
}

// The most blocks of a cluster on the current device; 1 if it has no clusters.
inline int largest_cluster() {
#ifdef __HIP_PLATFORM_AMD__
  return 1;
#else
  int device = 0, major = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 1;
  if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess) return 1;
  return major < 9 ? 1 : major < 11 ? 16 : 8;  // GeForce and RTX cards have at most 8
#endif
}

// Calls `function(T{})` with the C++ type of a dtype, and throws Unsupported for all others.
template <typename Function>
cudaError_t with_type(Dtype dtype, Function function) {
  switch (dtype) {
    case Dtype::float32:
      return function(float{});
    case Dtype::float16:
      return function(__half{});
    case Dtype::bfloat16:
      return function(__nv_bfloat16{});
    default:
      throw Unsupported(std::string("has no kernel for ") + name_of(dtype));
  }
}

}  // namespace kbench

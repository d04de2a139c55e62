// Shared by the CUDA kernels, for NVIDIA GPUs from sm_80 on: numbers in fp32, accesses of 16 bytes, what to ask of the L2 cache,
// warp shuffles, launches, and facts of the device.
#pragma once

#include <climits>
#include <cmath>
#include <cstring>
#include <mutex>
#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "kernel.h"

namespace kbench {

constexpr int kWarpSize = 32;
constexpr int kMaxThreads = 1024;
constexpr int kMaxWarps = kMaxThreads / kWarpSize;

// ---------------------------------------------------------------------------------------------------------------------
// Numbers

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

// 2^x. Results below fp32's normal range become 0, which saves instructions for them.
__device__ __forceinline__ float exp2_flush(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// e^x of x <= 0 within 8 units in the last place. Results below fp32's normal range become 0.
//
// h is x * log2(e), rounded down, so 2^h is too small by a factor of up to 1 + 2e-5. `rest` is
// x - h * ln(2), and in fp32 e^rest is 1 + rest. It is never negative, because the product of the two constants is above 1.
// Saturation (.sat) turns the NaN of x = -inf into 0. The NaN of x = NaN remains in 2^h.
__device__ __forceinline__ float exp_flush(float x) {
  const float h = __fmul_rd(x, 1.44269514f), power = exp2_flush(h);
  float rest;
  asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(rest) : "f"(h), "f"(-0.693147182f), "f"(x));
  return fmaf(power, rest, power);
}

// 1 / x within one unit in the last place, in one instruction. Subnormal inputs and results become 0.
__device__ __forceinline__ float reciprocal(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// log2(x), in the same way. Subnormal inputs count as 0.
__device__ __forceinline__ float log2_flush(float x) {
  float result;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// ---------------------------------------------------------------------------------------------------------------------
// The L2 cache: which lines leave it first, and which stay longer

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

// ---------------------------------------------------------------------------------------------------------------------
// Accesses of 16 bytes

// Loads 16 bytes that no kernel writes, if `inside`, without a branch.
__device__ __forceinline__ void load_16_if(uint4& word, bool inside, const void* address) {
  asm("{ .reg .pred p; setp.ne.s32 p, %5, 0; @p ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4]; }"
      : "+r"(word.x), "+r"(word.y), "+r"(word.z), "+r"(word.w)
      : "l"(__cvta_generic_to_global(address)), "r"(int(inside)));
}
__device__ __forceinline__ void load_16_if(uint4& word, bool inside, const void* address, LoadPolicy policy) {
  asm("{ .reg .pred p; setp.ne.s32 p, %5, 0; @p ld.global.nc.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %6; }"
      : "+r"(word.x), "+r"(word.y), "+r"(word.z), "+r"(word.w)
      : "l"(__cvta_generic_to_global(address)), "r"(int(inside)), "l"(static_cast<std::uint64_t>(policy)));
}

// From here on, the compiler does not know how a word was computed.
template <typename Word>
__device__ __forceinline__ void hide(Word& word) {
  asm volatile("" : "+r"(word));
}
__device__ __forceinline__ void hide(uint4& words) {
  hide(words.x);
  hide(words.y);
  hide(words.z);
  hide(words.w);
}

// The elements that a thread loads or stores at once: 16 bytes if the row allows it, otherwise one element.
template <typename T>
constexpr int kVector = 16 / sizeof(T);

struct TwoQuads {  // two accesses: `load_if` makes them
  uint4 words[2];
};

template <int BYTES>
using WordOf = std::conditional_t<
    BYTES == 2, unsigned short,
    std::conditional_t<BYTES == 4, unsigned int,
                       std::conditional_t<BYTES == 8, uint2, std::conditional_t<BYTES == 16, uint4, TwoQuads>>>>;

template <typename T, int SIZE>
struct Pack {
  using Word = WordOf<SIZE * sizeof(T)>;

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
      if (inside) values[0] = __ldg(address);
    } else {
#pragma unroll
      for (int first = 0; first < SIZE; first += kVector<T>) {
        uint4 word;
        memcpy(&word, values + first, sizeof word);
        load_16_if(word, inside, address + first, policy...);
        memcpy(values + first, &word, sizeof word);
      }
    }
  }

  // `streaming`: these lines leave the L2 cache first.
  __device__ __forceinline__ void store(T* address, bool streaming) const {
    Word word;
    memcpy(&word, values, sizeof word);
    if (streaming) {
      __stcs(reinterpret_cast<Word*>(address), word);
    } else {
      __stwb(reinterpret_cast<Word*>(address), word);  // an ordinary store that the compiler never splits
    }
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

// ---------------------------------------------------------------------------------------------------------------------
// Warps

__device__ __forceinline__ float shuffle_xor(float value, int mask) { return __shfl_xor_sync(0xffffffffu, value, mask); }

// Combines the values of WIDTH neighbouring threads of a warp, and returns the result to all of them.
template <int WIDTH>
__device__ __forceinline__ float shuffle_max(float value) {
  if constexpr (WIDTH == kWarpSize) {
    // The single instruction for a warp takes integers. Read as integers, floats keep their order if the bits below the
    // sign of negative ones are inverted.
    const auto ordered = [](int bits) { return bits ^ (bits >> 31 & 0x7fffffff); };
    return __int_as_float(ordered(__reduce_max_sync(0xffffffffu, ordered(__float_as_int(value)))));
  } else {
#pragma unroll
    for (int mask = WIDTH / 2; mask > 0; mask /= 2) value = fmaxf(value, shuffle_xor(value, mask));
    return value;
  }
}

template <int WIDTH>
__device__ __forceinline__ float shuffle_sum(float value) {
#pragma unroll
  for (int mask = WIDTH / 2; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
  return value;
}

// ---------------------------------------------------------------------------------------------------------------------
// The device and launches

__host__ __device__ constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

constexpr int kMostDevices = 64;

struct Device {
  int multiprocessors = 0;
  int largest_cluster = 1;          // blocks; 1 if it has no clusters
  std::int64_t l2_bytes = INT_MAX;  // if the driver does not say, no matrix counts as large
  double memory_gbps = 0;           // 0 if the driver does not say
};

// The current device. Each is asked once: an answer takes up to half a millisecond.
inline const Device& device() {
  static Device devices[kMostDevices];
  static std::once_flag asked[kMostDevices];
  int number = 0;
  if (cudaGetDevice(&number) != cudaSuccess || number >= kMostDevices) number = 0;
  std::call_once(asked[number], [number] {
    const auto ask = [number](cudaDeviceAttr attribute) {
      int answer = 0;
      return cudaDeviceGetAttribute(&answer, attribute, number) == cudaSuccess ? answer : 0;
    };
    Device& device = devices[number];
    device.multiprocessors = ask(cudaDevAttrMultiProcessorCount);
    const int major = ask(cudaDevAttrComputeCapabilityMajor);
    device.largest_cluster = major < 9 ? 1 : major < 11 ? 16 : 8;  // GeForce and RTX cards have at most 8
    if (const int bytes = ask(cudaDevAttrL2CacheSize)) device.l2_bytes = bytes;
    // two transfers in each cycle
    device.memory_gbps = 2e-6 * ask(cudaDevAttrMemoryClockRate) * (ask(cudaDevAttrGlobalMemoryBusWidth) / 8);
  });
  return devices[number];
}

// The most bytes of all matrices together for which the output is streamed: they leave most of the L2 cache of a large device
// free. From 20 to 32 MiB streaming stores cost half a microsecond (do_bench, H200), and beyond that about half a per cent.
constexpr std::int64_t kStreamedBytes = 16 * 1024 * 1024;

// A kernel keeps its input if a matrix is more than this many times as large as the cache. KEPT_CACHES of triton_launch.py is
// the same.
constexpr int kKeptCaches = 2;

// For a kernel that reads and writes so many matrices of this size. Keeping the input makes the kernel faster. With smaller
// matrices, it makes the next kernel slower by as much or more: see docs/kernels.md.
inline CacheHint cache_hint(std::int64_t matrix_bytes, int matrices) {
  if (matrix_bytes * matrices <= kStreamedBytes) return {true, LoadPolicy::usual};
  return {false, matrix_bytes > kKeptCaches * device().l2_bytes ? LoadPolicy::keep : LoadPolicy::usual};
}

template <typename... Parameters, typename... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), std::int64_t blocks, int threads, cudaStream_t stream,
                   Arguments... arguments) {
  if (blocks > INT_MAX) return cudaErrorInvalidConfiguration;
  kernel<<<dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads)), 0, stream>>>(arguments...);
  return cudaGetLastError();
}

// Launches a cluster of `blocks` blocks for each of `rows`. Not every device with clusters has more than 8 blocks in one, so
// a kernel needs an attribute for more.
template <typename... Parameters, typename... Arguments>
cudaError_t launch_clusters(void (*kernel)(Parameters...), std::int64_t rows, int blocks, int threads,
                            cudaStream_t stream, Arguments... arguments) {
  if (rows * blocks > INT_MAX) return cudaErrorInvalidConfiguration;
  if (blocks > 8 && cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1) != cudaSuccess) {
    return cudaGetLastError();
  }
  cudaLaunchAttribute cluster;
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = blocks;
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(rows * blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  if (cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...) == cudaSuccess) return cudaSuccess;
  return cudaGetLastError();
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

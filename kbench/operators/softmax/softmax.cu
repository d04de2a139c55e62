// Row-wise softmax: a ladder of four steps, each kept as simple as the step is, and `best`.
//
// All accumulate in fp32 and follow torch on special values: a row of -inf, and a row with a NaN or a +inf, becomes
// NaN. fmaxf ignores NaN, which is enough: x - max is NaN again, and with it the sum and the whole row.
#include "device.cuh"

namespace kbench {

// What is subtracted from x before exp. A maximum of -inf (nothing seen but -inf) would make exp(-inf - -inf) = NaN out
// of terms that later, finite elements turn into zeros.
__device__ __forceinline__ float shift(float max) { return max == -INFINITY ? 0.0f : max; }

// ---------------------------------------------------------------------------------------------------------------------
// The ladder

// Maximum and sum of exp(x - maximum) of the elements seen so far: the online normaliser of Milakov and Gimelshein,
// "Online normalizer calculation for softmax", 2018.
struct Online {
  float max = -INFINITY;
  float sum = 0.0f;

  __device__ void add(float x) {
    if (x > max) {
      sum *= expf(max - x);
      max = x;
    }
    sum += expf(x - shift(max));
  }
};

// Step 1: a thread per row, three passes over it.
template <typename T>
__global__ void softmax_naive(const T* x, T* y, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
  const std::int64_t row = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  x += row * stride;
  y += row * columns;
  float max = -INFINITY;
  for (std::int64_t i = 0; i < columns; ++i) max = fmaxf(max, to_float(x[i]));
  float sum = 0.0f;
  for (std::int64_t i = 0; i < columns; ++i) sum += expf(to_float(x[i]) - max);
  for (std::int64_t i = 0; i < columns; ++i) y[i] = from_float<T>(expf(to_float(x[i]) - max) / sum);
}

// Step 2: a thread per row, two passes.
template <typename T>
__global__ void softmax_online(const T* x, T* y, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
  const std::int64_t row = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  x += row * stride;
  y += row * columns;
  Online seen;
  for (std::int64_t i = 0; i < columns; ++i) seen.add(to_float(x[i]));
  for (std::int64_t i = 0; i < columns; ++i) y[i] = from_float<T>(expf(to_float(x[i]) - seen.max) / seen.sum);
}

// Step 3: a block per row, neighbouring threads on neighbouring elements, reductions as trees in shared memory.
template <typename T>
__global__ void softmax_shared(const T* x, T* y, std::int64_t columns, std::int64_t stride) {
  __shared__ float tree[kMaxThreads];
  const int thread = threadIdx.x;
  x += blockIdx.x * stride;
  y += blockIdx.x * columns;

  Online seen;
  for (std::int64_t i = thread; i < columns; i += blockDim.x) seen.add(to_float(x[i]));

  tree[thread] = seen.max;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (thread < half) tree[thread] = fmaxf(tree[thread], tree[thread + half]);
    __syncthreads();
  }
  const float max = tree[0];
  __syncthreads();

  tree[thread] = seen.sum * expf(seen.max - shift(max));
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (thread < half) tree[thread] += tree[thread + half];
    __syncthreads();
  }
  const float sum = tree[0];

  for (std::int64_t i = thread; i < columns; i += blockDim.x) y[i] = from_float<T>(expf(to_float(x[i]) - max) / sum);
}

__device__ float warp_max_down(float value) {
  for (int delta = KBENCH_WARP_SIZE / 2; delta > 0; delta /= 2) {
    value = fmaxf(value, KBENCH_SHUFFLE_DOWN(value, delta));
  }
  return value;  // valid in the warp's first thread
}

__device__ float warp_sum_down(float value) {
  for (int delta = KBENCH_WARP_SIZE / 2; delta > 0; delta /= 2) value += KBENCH_SHUFFLE_DOWN(value, delta);
  return value;  // valid in the warp's first thread
}

// Step 4: as step 3, with reductions by warp shuffles and one value per warp in shared memory.
template <typename T>
__global__ void softmax_shuffle(const T* x, T* y, std::int64_t columns, std::int64_t stride) {
  __shared__ float partial[kMaxWarps];
  const int thread = threadIdx.x;
  const int lane = thread % KBENCH_WARP_SIZE;
  const int warp = thread / KBENCH_WARP_SIZE;
  const int warps = blockDim.x / KBENCH_WARP_SIZE;
  x += blockIdx.x * stride;
  y += blockIdx.x * columns;

  Online seen;
  for (std::int64_t i = thread; i < columns; i += blockDim.x) seen.add(to_float(x[i]));

  const float warp_max = warp_max_down(seen.max);
  if (lane == 0) partial[warp] = warp_max;
  __syncthreads();
  if (warp == 0) {
    const float block_max = warp_max_down(lane < warps ? partial[lane] : -INFINITY);
    if (lane == 0) partial[0] = block_max;
  }
  __syncthreads();
  const float max = partial[0];
  __syncthreads();

  const float warp_sum = warp_sum_down(seen.sum * expf(seen.max - shift(max)));
  if (lane == 0) partial[warp] = warp_sum;
  __syncthreads();
  if (warp == 0) {
    const float block_sum = warp_sum_down(lane < warps ? partial[lane] : 0.0f);
    if (lane == 0) partial[0] = block_sum;
  }
  __syncthreads();
  const float sum = partial[0];

  for (std::int64_t i = thread; i < columns; i += blockDim.x) y[i] = from_float<T>(expf(to_float(x[i]) - max) / sum);
}

// 256 threads, not 1024: with a thread per row, 1024 rows would all land on one multiprocessor.
constexpr int kThreadPerRowBlock = 256;

cudaError_t naive(const Call& call) {
  return with_type(call.dtype, [&](auto zero) {
    using T = decltype(zero);
    return launch(softmax_naive<T>, ceil_div(call.rows, kThreadPerRowBlock), kThreadPerRowBlock, call.stream,
                  static_cast<const T*>(call.x), static_cast<T*>(call.y), call.rows, call.columns, call.stride);
  });
}

cudaError_t online(const Call& call) {
  return with_type(call.dtype, [&](auto zero) {
    using T = decltype(zero);
    return launch(softmax_online<T>, ceil_div(call.rows, kThreadPerRowBlock), kThreadPerRowBlock, call.stream,
                  static_cast<const T*>(call.x), static_cast<T*>(call.y), call.rows, call.columns, call.stride);
  });
}

cudaError_t shared(const Call& call) {
  return with_type(call.dtype, [&](auto zero) {
    using T = decltype(zero);
    return launch(softmax_shared<T>, call.rows, kMaxThreads, call.stream, static_cast<const T*>(call.x),
                  static_cast<T*>(call.y), call.columns, call.stride);
  });
}

cudaError_t shuffle(const Call& call) {
  return with_type(call.dtype, [&](auto zero) {
    using T = decltype(zero);
    return launch(softmax_shuffle<T>, call.rows, kMaxThreads, call.stream, static_cast<const T*>(call.x),
                  static_cast<T*>(call.y), call.columns, call.stride);
  });
}

// ---------------------------------------------------------------------------------------------------------------------
// best

// __expf rounds x * log2(e), an error of up to |x| units in the last place of fp32: lost in 16 bits, too much in fp32.
template <typename T>
__device__ __forceinline__ float exponential(float x) {
  return sizeof(T) == 4 ? expf(x) : __expf(x);
}

struct Max {
  static constexpr float identity = -INFINITY;
  static __device__ __forceinline__ float of(float a, float b) { return fmaxf(a, b); }
};

struct Sum {
  static constexpr float identity = 0.0f;
  static __device__ __forceinline__ float of(float a, float b) { return a + b; }
};

// GROUP for a row that has a whole block to itself.
constexpr int kBlock = kMaxThreads;

// Reduces a value over the GROUP threads that share a row, to all of them: shuffles within a warp; for a block, then
// one value per warp through `partial`. Each reduction has a `partial` of its own, so that one barrier is enough.
template <typename Operation, int GROUP>
__device__ __forceinline__ float reduce(float value, float* partial) {
  constexpr int width = GROUP == kBlock ? KBENCH_WARP_SIZE : GROUP;
#pragma unroll
  for (int mask = width / 2; mask > 0; mask /= 2) {
    value = Operation::of(value, KBENCH_SHUFFLE_XOR(value, mask));
  }
  if constexpr (GROUP == kBlock) {
    const int lane = threadIdx.x % KBENCH_WARP_SIZE;
    if (lane == 0) partial[threadIdx.x / KBENCH_WARP_SIZE] = value;
    __syncthreads();
    value = lane < int(blockDim.x) / KBENCH_WARP_SIZE ? partial[lane] : Operation::identity;
#pragma unroll
    for (int mask = KBENCH_WARP_SIZE / 2; mask > 0; mask /= 2) {
      value = Operation::of(value, KBENCH_SHUFFLE_XOR(value, mask));
    }
  }
  return value;
}

// A thread keeps the exponentials of up to this many elements; with more of them (16-bit rows only) it keeps the
// elements, which take half the registers, and computes each exponential twice.
constexpr int kMaxExponentials = 32;

constexpr int kWarpKernelThreads = 128;

// A row is read once and stays in the registers of the GROUP threads that share it: PACKS accesses of VECTOR elements
// each.
template <typename T, int VECTOR, int PACKS, int GROUP>
__global__ void __launch_bounds__(GROUP == kBlock ? kMaxThreads : kWarpKernelThreads)
    softmax_registers(const T* __restrict__ x, T* __restrict__ y, std::int64_t rows, int columns, std::int64_t stride) {
  __shared__ float partial[2][GROUP == kBlock ? kMaxWarps : 1];
  const int width = GROUP == kBlock ? blockDim.x : GROUP;
  const int thread = GROUP == kBlock ? threadIdx.x : threadIdx.x % GROUP;
  const std::int64_t row =
      GROUP == kBlock ? blockIdx.x : std::int64_t(blockIdx.x) * (blockDim.x / GROUP) + threadIdx.x / GROUP;
  // Threads beyond the last row take part in the shuffles, with no elements.
  const int length = row < rows ? columns : 0;
  x += row * stride;
  y += row * columns;

  Pack<T, VECTOR> packs[PACKS];
#pragma unroll
  for (int p = 0; p < PACKS; ++p) {
    const int i = (p * width + thread) * VECTOR;
    if (i < length) {
      packs[p].load(x + i);
    } else {
      packs[p].fill(-INFINITY);
    }
  }

  float max = -INFINITY;
#pragma unroll
  for (int p = 0; p < PACKS; ++p) {
#pragma unroll
    for (int v = 0; v < VECTOR; ++v) max = fmaxf(max, to_float(packs[p].values[v]));
  }
  max = reduce<Max, GROUP>(max, partial[0]);

  constexpr bool keep = PACKS * VECTOR <= kMaxExponentials;
  float exponentials[keep ? PACKS : 1][VECTOR];
  float sum = 0.0f;
#pragma unroll
  for (int p = 0; p < PACKS; ++p) {
    if constexpr (!keep) packs[p].reconvert();
#pragma unroll
    for (int v = 0; v < VECTOR; ++v) {
      const float e = exponential<T>(to_float(packs[p].values[v]) - max);
      if constexpr (keep) exponentials[p][v] = e;
      sum += e;
    }
  }
  const float scale = 1.0f / reduce<Sum, GROUP>(sum, partial[1]);

#pragma unroll
  for (int p = 0; p < PACKS; ++p) {
    if constexpr (!keep) packs[p].reconvert();
    const int i = (p * width + thread) * VECTOR;
    if (i < length) {
      Pack<T, VECTOR> out;
#pragma unroll
      for (int v = 0; v < VECTOR; ++v) {
        float e;
        if constexpr (keep) {
          e = exponentials[p][v];
        } else {
          e = exponential<T>(to_float(packs[p].values[v]) - max);
        }
        out.values[v] = from_float<T>(e * scale);
      }
      out.store(y + i);
    }
  }
}

// A row that registers do not hold is read twice by its block: once for maximum and sum, kept online with a correction
// per PACKS accesses, not per element, and once to write. The second pass runs backwards, so that what the first read
// last is still in the L2 cache.
template <typename T, int VECTOR, int PACKS>
__global__ void __launch_bounds__(kMaxThreads)
    softmax_streamed(const T* __restrict__ x, T* __restrict__ y, std::int64_t columns, std::int64_t stride) {
  __shared__ float partial[2][kMaxWarps];
  x += blockIdx.x * stride;
  y += blockIdx.x * columns;
  const std::int64_t tile = std::int64_t(blockDim.x) * PACKS * VECTOR;
  const std::int64_t tiles = ceil_div(columns, tile);

  Pack<T, VECTOR> packs[PACKS];
  const auto load = [&](std::int64_t first) {
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
      const std::int64_t i = first + (p * blockDim.x + threadIdx.x) * VECTOR;
      if (i < columns) {
        packs[p].load(x + i);
      } else {
        packs[p].fill(-INFINITY);
      }
    }
  };

  float own_max = -INFINITY;
  float own_sum = 0.0f;
  for (std::int64_t t = 0; t < tiles; ++t) {
    load(t * tile);
    const float old_max = own_max;
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
#pragma unroll
      for (int v = 0; v < VECTOR; ++v) own_max = fmaxf(own_max, to_float(packs[p].values[v]));
    }
    own_sum *= exponential<T>(old_max - shift(own_max));
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
#pragma unroll
      for (int v = 0; v < VECTOR; ++v) own_sum += exponential<T>(to_float(packs[p].values[v]) - shift(own_max));
    }
  }
  const float max = reduce<Max, kBlock>(own_max, partial[0]);
  const float sum = reduce<Sum, kBlock>(own_sum * exponential<T>(own_max - shift(max)), partial[1]);
  const float scale = 1.0f / sum;

  for (std::int64_t t = tiles - 1; t >= 0; --t) {
    load(t * tile);
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
      const std::int64_t i = t * tile + (p * blockDim.x + threadIdx.x) * VECTOR;
      if (i < columns) {
#pragma unroll
        for (int v = 0; v < VECTOR; ++v) {
          packs[p].values[v] = from_float<T>(exponential<T>(to_float(packs[p].values[v]) - max) * scale);
        }
        packs[p].store(y + i);
      }
    }
  }
}

template <typename T, int VECTOR, int PACKS, int GROUP>
cudaError_t launch_registers(const Call& call) {
  int threads = kWarpKernelThreads;
  std::int64_t blocks = ceil_div(call.rows, kWarpKernelThreads / GROUP + (GROUP == kBlock));
  if (GROUP == kBlock) {
    constexpr int warp_elements = KBENCH_WARP_SIZE * PACKS * VECTOR;
    threads = call.threads ? call.threads : KBENCH_WARP_SIZE * int(ceil_div(call.columns, warp_elements));
    blocks = call.rows;
  }
  return launch(softmax_registers<T, VECTOR, PACKS, GROUP>, blocks, threads, call.stream, static_cast<const T*>(call.x),
                static_cast<T*>(call.y), call.rows, int(call.columns), call.stride);
}

template <typename T, int VECTOR, int PACKS>
cudaError_t launch_streamed(const Call& call) {
  return launch(softmax_streamed<T, VECTOR, PACKS>, call.rows, call.threads ? call.threads : kMaxThreads, call.stream,
                static_cast<const T*>(call.x), static_cast<T*>(call.y), call.columns, call.stride);
}

// Where a row lives, by its length in accesses. The largest N that each line takes is at the right, for fp32 and for 16
// bits. `threads` from the caller asks for a block per row, of that size.
template <typename T>
cudaError_t dispatch_vector(const Call& call) {
  constexpr int V = kVector<T>;
  const std::int64_t packs = ceil_div(call.columns, V);
  const int threads = call.threads;
  if (!threads) {
    if (packs <= 8 * 1) return launch_registers<T, V, 1, 8>(call);    //    32     64
    if (packs <= 8 * 2) return launch_registers<T, V, 2, 8>(call);    //    64    128
    if (packs <= 8 * 4) return launch_registers<T, V, 4, 8>(call);    //   128    256
    if (packs <= 16 * 4) return launch_registers<T, V, 4, 16>(call);  //   256    512
    if (packs <= 32 * 4) return launch_registers<T, V, 4, 32>(call);  //   512   1024
    if (packs <= 32 * 8) return launch_registers<T, V, 8, 32>(call);  //  1024   2048
  }
  // Up to 512 threads, a multiprocessor holds several rows and one loads while another stores.
  if (packs <= (threads ? threads : 512) * 4) return launch_registers<T, V, 4, kBlock>(call);   //  8192  16384
  if (packs <= (threads ? threads : 1024) * 8) return launch_registers<T, V, 8, kBlock>(call);  // 32768  65536
  return launch_streamed<T, V, 4>(call);
}

// The same for rows that do not begin and end at multiples of 16 bytes: one element per access. N at the right.
template <typename T>
cudaError_t dispatch_scalar(const Call& call) {
  const std::int64_t packs = call.columns;
  const int threads = call.threads;
  if (!threads) {
    if (packs <= 32 * 1) return launch_registers<T, 1, 1, 32>(call);    //    32
    if (packs <= 32 * 4) return launch_registers<T, 1, 4, 32>(call);    //   128
    if (packs <= 32 * 16) return launch_registers<T, 1, 16, 32>(call);  //   512
  }
  if (packs <= (threads ? threads : 512) * 16) return launch_registers<T, 1, 16, kBlock>(call);   //  8192
  if (packs <= (threads ? threads : 1024) * 24) return launch_registers<T, 1, 24, kBlock>(call);  // 24576
  return launch_streamed<T, 1, 16>(call);
}

cudaError_t best(const Call& call) {
  return with_type(call.dtype, [&](auto zero) {
    using T = decltype(zero);
    return rows_aligned<T>(call) ? dispatch_vector<T>(call) : dispatch_scalar<T>(call);
  });
}

const Kernel kernels[] = {
    {"naive", naive}, {"online", online}, {"shared", shared}, {"shuffle", shuffle}, {"best", best}, {nullptr, nullptr},
};

}  // namespace kbench

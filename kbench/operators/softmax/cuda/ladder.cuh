// The ladder: four steps from a thread per row to warp shuffles, each as simple as possible. All kernels accumulate in fp32
// and treat special values as torch does: a row of -inf becomes NaN, and so does a row with a NaN or a +inf.
#pragma once

#include "rows/softmax_row.cuh"

namespace kbench {

// The maximum and the sum of exp(x - maximum) of the elements so far: the online normaliser of Milakov and Gimelshein,
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

// Step 3: a block per row, neighbouring threads read neighbouring elements, tree reductions in shared memory.
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

__device__ float shuffle_down(float value, int delta) { return __shfl_down_sync(0xffffffffu, value, delta); }

__device__ float warp_max_down(float value) {
  for (int delta = kWarpSize / 2; delta > 0; delta /= 2) value = fmaxf(value, shuffle_down(value, delta));
  return value;  // valid in the first thread of the warp
}

__device__ float warp_sum_down(float value) {
  for (int delta = kWarpSize / 2; delta > 0; delta /= 2) value += shuffle_down(value, delta);
  return value;  // valid in the first thread of the warp
}

// Step 4: as step 3, but reductions by warp shuffles, with one value per warp in shared memory.
template <typename T>
__global__ void softmax_shuffle(const T* x, T* y, std::int64_t columns, std::int64_t stride) {
  __shared__ float partial[kMaxWarps];
  const int thread = threadIdx.x;
  const int lane = thread % kWarpSize;
  const int warp = thread / kWarpSize;
  const int warps = blockDim.x / kWarpSize;
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

// 256 threads, not 1024: with a thread per row, a block of 1024 would put 1024 rows on one multiprocessor.
constexpr int kThreadPerRowBlock = 256;

// Calls function(x, y, rows, columns, stride) for a matrix x and a dense y.
template <typename Function>
cudaError_t with_matrix(const Call& call, Function function) {
  const Tensor &x = call.inputs[0], &y = call.outputs[0];
  require_rows(x, {&y});
  require(y.contiguous(), "y must be contiguous");
  return with_type(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    return function(x.data<const T>(), y.data<T>(), x.sizes[0], x.sizes[1], x.strides[0]);
  });
}

cudaError_t naive(const Call& call) {
  return with_matrix(call, [&](auto x, auto* y, auto rows, auto columns, auto stride) {
    const auto kernel = softmax_naive<std::decay_t<decltype(*y)>>;
    return launch(kernel, ceil_div(rows, kThreadPerRowBlock), kThreadPerRowBlock, call.stream, x, y, rows, columns, stride);
  });
}

cudaError_t online(const Call& call) {
  return with_matrix(call, [&](auto x, auto* y, auto rows, auto columns, auto stride) {
    const auto kernel = softmax_online<std::decay_t<decltype(*y)>>;
    return launch(kernel, ceil_div(rows, kThreadPerRowBlock), kThreadPerRowBlock, call.stream, x, y, rows, columns, stride);
  });
}

cudaError_t shared(const Call& call) {
  return with_matrix(call, [&](auto x, auto* y, auto rows, auto columns, auto stride) {
    return launch(softmax_shared<std::decay_t<decltype(*y)>>, rows, kMaxThreads, call.stream, x, y, columns, stride);
  });
}

cudaError_t shuffle(const Call& call) {
  return with_matrix(call, [&](auto x, auto* y, auto rows, auto columns, auto stride) {
    return launch(softmax_shuffle<std::decay_t<decltype(*y)>>, rows, kMaxThreads, call.stream, x, y, columns, stride);
  });
}

}  // namespace kbench

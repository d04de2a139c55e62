// h = x + residual and y = h / sqrt(mean(h^2) + eps) * weight, for each row of (M, N) matrices. The arithmetic is float32.
#include "device.cuh"

namespace kbench {

// The sum of `value` over all threads of a block, in every thread.
__device__ float block_sum(float value) {
  __shared__ float of_warp[kMaxWarps];
  value = shuffle_sum<kWarpSize>(value);
  if (threadIdx.x % kWarpSize == 0) of_warp[threadIdx.x / kWarpSize] = value;
  __syncthreads();
  float sum = 0;
  for (int warp = 0; warp < blockDim.x / kWarpSize; ++warp) sum += of_warp[warp];
  return sum;
}

// A block computes a row. Each thread reads VECTOR elements at a time. It reads its elements a second time, from the cache,
// when the sum is known. Only then it writes, and only its own elements, so h may be in the memory of x or of residual.
template <typename T, int VECTOR>
__global__ void __launch_bounds__(kMaxThreads)
    add_rmsnorm_rows(const T* x, const T* residual, const T* weight, T* y, T* h, std::int64_t columns,
                     std::int64_t x_stride, std::int64_t residual_stride, std::int64_t h_stride, float eps) {
  x += blockIdx.x * x_stride;
  residual += blockIdx.x * residual_stride;
  h += blockIdx.x * h_stride;
  y += blockIdx.x * columns;

  Pack<T, VECTOR> a, b, w;
  float squares = 0;
  for (std::int64_t i = threadIdx.x * VECTOR; i < columns; i += blockDim.x * VECTOR) {
    a.load(x + i);
    b.load(residual + i);
    for (int v = 0; v < VECTOR; ++v) {
      const float sum = to_float(a.values[v]) + to_float(b.values[v]);
      squares += sum * sum;
    }
  }
  const float scale = 1 / sqrtf(block_sum(squares) / columns + eps);

  for (std::int64_t i = threadIdx.x * VECTOR; i < columns; i += blockDim.x * VECTOR) {
    a.load(x + i);
    b.load(residual + i);
    w.load(weight + i);
    for (int v = 0; v < VECTOR; ++v) {
      const float sum = to_float(a.values[v]) + to_float(b.values[v]);
      a.values[v] = from_float<T>(sum);
      b.values[v] = from_float<T>(sum * scale * to_float(w.values[v]));
    }
    a.store(h + i, false);
    b.store(y + i, false);
  }
}

cudaError_t add_rmsnorm(const Call& call) {
  const Tensor &x = call.inputs[0], &residual = call.inputs[1], &weight = call.inputs[2];
  const Tensor &y = call.outputs[0], &h = call.outputs[1];
  require(x.rank == 2, "x must be a matrix");
  const std::int64_t rows = x.sizes[0], columns = x.sizes[1];
  for (const Tensor* matrix : {&x, &residual, &y, &h}) {
    require(matrix->has_sizes({rows, columns}), "x, residual, y and h must have the same shape");
    require(matrix->dense_rows(), "the elements of a row must be neighbours in memory");
  }
  require(weight.has_sizes({columns}), "weight must have an element for each column of x");
  require(weight.contiguous() && y.contiguous(), "weight and y must be contiguous");
  for (const Tensor* other : {&residual, &weight, &y, &h}) {
    require(other->dtype == x.dtype, "all tensors must have the same dtype");
  }
  const std::int64_t threads = call.integer("threads");
  require(threads % 64 == 0 && threads >= 64 && threads <= kMaxThreads, "threads must be a multiple of 64 up to 1024");
  const float eps = static_cast<float>(call.real("eps"));

  const bool aligned = x.aligned_rows() && residual.aligned_rows() && weight.aligned_rows() && y.aligned_rows() &&
                       h.aligned_rows();
  return with_type(x.dtype, [&](auto zero) {  // once for each of float32, float16 and bfloat16
    using T = decltype(zero);
    const auto kernel = aligned ? add_rmsnorm_rows<T, kVector<T>> : add_rmsnorm_rows<T, 1>;
    return launch(kernel, rows, static_cast<int>(threads), call.stream, x.data<T>(), residual.data<T>(),
                  weight.data<T>(), y.data<T>(), h.data<T>(), columns, x.strides[0], residual.strides[0], h.strides[0],
                  eps);
  });
}

// The kernels that Python sees: name, launch function, inputs, outputs, and options. An option without a default must be
// given.
const std::vector<Kernel> kernels = {
    {"add_rmsnorm", add_rmsnorm, {"x", "residual", "weight"}, {"y", "h"}, {"eps", "threads=256"}},
};

}  // namespace kbench

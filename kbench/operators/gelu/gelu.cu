// Elementwise GELU, in the tanh form and in the exact form. Computed in fp32.
#include "device.cuh"

namespace kbench {

// 0.5 x (1 + tanh u) with u = sqrt(2/pi) (x + 0.044715 x^3) is x * sigmoid(2u) = x / (1 + exp(-2u)): one exponential,
// one reciprocal and no cancellation for negative x. As a power of two, exp(-2u) = 2^(-x (a + b x^2)).
struct Tanh {
  static __device__ __forceinline__ float of(float x) {
    constexpr float a = 2.302208198f;   // 2 sqrt(2/pi) log2(e)
    constexpr float b = 0.1029432397f;  // 0.044715 a
    return __fdividef(x, 1.0f + exp2f(-x * fmaf(b * x, x, a)));
  }
};

struct Erf {
  static __device__ __forceinline__ float of(float x) {
    constexpr float sqrt_half = 0.7071067812f;
    return 0.5f * x * (1.0f + erff(x * sqrt_half));
  }
};

constexpr int kThreads = 256;

// Accesses in flight per thread.
constexpr int kPacks = 4;

// The matrix as `rows` runs of `length` elements, cut into accesses of VECTOR elements; a dense matrix is one run. What
// is left over at the end of that run goes element by element; several runs use this VECTOR only if nothing is left.
template <typename T, int VECTOR, typename Function>
__global__ void __launch_bounds__(kMaxThreads)
    gelu_kernel(const T* __restrict__ x, T* __restrict__ y, std::int64_t rows, std::int64_t length,
                std::int64_t stride) {
  const std::int64_t row_packs = length / VECTOR;
  const std::int64_t total = rows * row_packs;
  const std::int64_t first = std::int64_t(blockIdx.x) * (blockDim.x * kPacks) + threadIdx.x;

  const auto offset = [&](std::int64_t pack) {  // of an access in x, in elements
    const std::int64_t row = rows == 1 ? 0 : pack / row_packs;
    return row * stride + (pack - row * row_packs) * VECTOR;
  };

  Pack<T, VECTOR> packs[kPacks];
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const std::int64_t i = first + p * blockDim.x;
    if (i < total) packs[p].load(x + offset(i));
  }
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const std::int64_t i = first + p * blockDim.x;
    if (i < total) {
#pragma unroll
      for (int v = 0; v < VECTOR; ++v) packs[p].values[v] = from_float<T>(Function::of(to_float(packs[p].values[v])));
      packs[p].store(y + i * VECTOR);
    }
  }

  if (VECTOR > 1 && rows == 1 && blockIdx.x == 0) {
    const std::int64_t i = total * VECTOR + threadIdx.x;
    if (i < length) y[i] = from_float<T>(Function::of(to_float(x[i])));
  }
}

template <typename Function>
cudaError_t gelu(const Call& call) {
  return with_type(call.dtype, [&](auto zero) {
    using T = decltype(zero);
    const bool dense = call.rows == 1 || call.stride == call.columns;
    const std::int64_t rows = dense ? 1 : call.rows;
    const std::int64_t length = dense ? call.rows * call.columns : call.columns;
    const bool vector = dense ? aligned16(call.x) && aligned16(call.y) : rows_aligned<T>(call);
    const int threads = call.threads ? call.threads : kThreads;
    const std::int64_t accesses = vector ? ceil_div(length, kVector<T>) : length;
    return launch(vector ? gelu_kernel<T, kVector<T>, Function> : gelu_kernel<T, 1, Function>,
                  ceil_div(rows * accesses, threads * kPacks), threads, call.stream, static_cast<const T*>(call.x),
                  static_cast<T*>(call.y), rows, length, call.stride);
  });
}

const Kernel kernels[] = {{"tanh", gelu<Tanh>}, {"none", gelu<Erf>}, {nullptr, nullptr}};

}  // namespace kbench

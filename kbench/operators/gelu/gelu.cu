// Elementwise GELU, in the tanh form and in the exact form, computed in fp32.
//
// Both forms are x Phi(x), with Phi = 1 / (1 + 2^-t(x)): one exponential, one reciprocal, no branch, and no cancellation for
// Phi near 0. If 2^-t overflows, the reciprocal is 0. x = -inf gives NaN, as in torch.
#include "device.cuh"

namespace kbench {

// Phi = (1 + tanh u) / 2 with u = sqrt(2/pi) (x + 0.044715 x^3), so t = 2 log2(e) u.
template <typename T>
struct Tanh {
  static __device__ __forceinline__ float minus_t(float x) {
    constexpr float a = 2.302208198f;   // 2 sqrt(2/pi) log2(e)
    constexpr float b = 0.1029432397f;  // 0.044715 a
    return -x * fmaf(b * x, x, a);
  }
};

// Phi is the normal distribution function. t = log2(Phi(x) / Phi(-x)) is an odd function: x times a polynomial in x^2. Its
// coefficients minimise the largest error of Phi for |x| < 6, which is 3e-8 (linear programming over 2500 values of x,
// against fp64). With rounding, the output is within 1.7e-7 x. The last coefficient of t is positive, so t keeps growing
// beyond 6.
template <typename T>
struct Erf {
  static __device__ __forceinline__ float minus_t(float x) {
    const float s = x * x;
    float p = -5.096981747e-9f;
    p = fmaf(p, s, 3.827375110e-7f);
    p = fmaf(p, s, -1.145444185e-5f);
    p = fmaf(p, s, 1.596649963e-4f);
    p = fmaf(p, s, 9.382911958e-5f);
    p = fmaf(p, s, -1.048348993e-1f);
    p = fmaf(p, s, -2.302209377f);
    return p * x;
  }
};

// bfloat16 keeps 8 bits, so half of the polynomial is enough. It is fitted for the smallest error relative to Phi(-|x|): Phi
// and 1 - Phi are both within a relative 2^-10 (a quarter of a unit in the last place of the output) plus 5e-8. It saves
// about 2 % of the time for short and long inputs (H200, 4096 x 12672: 51.0 us; 52.2 us with the whole polynomial).
template <>
struct Erf<__nv_bfloat16> {
  static __device__ __forceinline__ float minus_t(float x) {
    const float s = x * x;
    float p = -8.867935321e-6f;
    p = fmaf(p, s, 1.320992829e-3f);
    p = fmaf(p, s, -1.087492406e-1f);
    p = fmaf(p, s, -2.298455000f);
    return p * x;
  }
};

template <typename Form>
__device__ __forceinline__ float gelu_of(float x) {
  return x * reciprocal(1.0f + exp2_flush(Form::minus_t(x)));
}

template <typename Form, typename T, int VECTOR>
__device__ __forceinline__ void apply(Pack<T, VECTOR>& pack) {
#pragma unroll
  for (int v = 0; v < VECTOR; ++v) pack.values[v] = from_float<T>(gelu_of<Form>(to_float(pack.values[v])));
}

// A thread makes one 16-byte access, in blocks of 128 threads. On an H200, averaged over matrices of 0.5 to 256 MiB, these
// take longer: two accesses 3 to 4 %, four accesses 7 to 9 %, blocks of 256 threads up to 1 %, blocks of 1024 threads 7 %,
// and resident blocks that loop 5 to 10 %.
constexpr int kThreads = 128;

// Matrices of up to this many bytes leave threads of the device idle. Half an access per thread, in blocks of 256, takes 1
// to 3 % less time.
constexpr std::int64_t kFewBytes = 512 * 1024;
constexpr int kFewThreads = 256;

// x and y are dense and begin at a multiple of 16 bytes: `total` elements in memory order, independent of rows. The elements
// after the last whole access go to further threads, one each.
template <typename T, int VECTOR, typename Form>
__global__ void __launch_bounds__(kMaxThreads)
    gelu_dense(const T* __restrict__ x, T* __restrict__ y, std::uint64_t total, CacheHint hint) {
  const std::uint64_t packs = total / VECTOR;
  const std::uint64_t i = std::uint64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < packs) {
    Pack<T, VECTOR> pack;
    pack.load(x + i * VECTOR, hint.input);
    apply<Form>(pack);
    pack.store(y + i * VECTOR, hint.stream_output);
  } else {
    const std::uint64_t left = i + packs * (VECTOR - 1);  // the (i - packs)-th element after the accesses
    if (left < total) y[left] = from_float<T>(gelu_of<Form>(to_float(x[left])));
  }
}

// All other inputs: rows with gaps between them, or an x that begins anywhere. y is dense. A thread computes 16 bytes of y
// from the elements of x, across the ends of rows if necessary. It loads VECTOR elements at a time: 16 bytes if every row of
// x allows it, otherwise one element.
template <typename T, int VECTOR, typename Form>
__global__ void __launch_bounds__(kMaxThreads)
    gelu_rows(const T* __restrict__ x, T* __restrict__ y, std::int64_t rows, std::int64_t columns,
              std::int64_t stride, CacheHint hint) {
  constexpr int kOut = kVector<T>;
  const std::int64_t total = rows * columns;
  const std::int64_t first = (std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * kOut;
  if (first >= total) return;

  std::int64_t row = rows == 1 ? 0 : first / columns;
  std::int64_t column = first - row * columns;
  const int count = VECTOR == kOut || total - first > kOut ? kOut : static_cast<int>(total - first);

  Pack<T, kOut> out;
  if constexpr (VECTOR == kOut) {
    out.load(x + row * stride + column, hint.input);
  } else {
#pragma unroll
    for (int v = 0; v < kOut; ++v) {
      if (v < count) out.values[v] = x[row * stride + column];
      if (++column == columns) {
        column = 0;
        ++row;
      }
    }
  }
  apply<Form>(out);
  if (count == kOut) {
    out.store(y + first, hint.stream_output);
  } else {
#pragma unroll
    for (int v = 0; v < kOut; ++v) {
      if (v < count) y[first + v] = out.values[v];
    }
  }
}

template <template <typename> typename Form>
cudaError_t gelu(const Call& call) {
  const Tensor &x = call.inputs[0], &y = call.outputs[0];
  require_rows(x, {&y});
  require(y.contiguous() && aligned16(y.address), "y must be contiguous, and begin at a multiple of 16 bytes");
  return with_type(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    constexpr int V = kVector<T>;
    const std::int64_t rows = x.sizes[0], columns = x.sizes[1], total = x.elements(), bytes = total * sizeof(T);
    const bool dense = x.contiguous(), whole = dense && aligned16(x.address), few = whole && bytes <= kFewBytes;
    const CacheHint hint = cache_hint(bytes, 2);
    const int threads = few ? kFewThreads : kThreads;
    if (whole) {
      const int vector = few ? V / 2 : V;
      return launch(few ? gelu_dense<T, V / 2, Form<T>> : gelu_dense<T, V, Form<T>>,
                    ceil_div(total / vector + total % vector, threads), threads, call.stream, x.data<const T>(),
                    y.data<T>(), std::uint64_t(total), hint);
    }
    return launch(x.aligned_rows() ? gelu_rows<T, V, Form<T>> : gelu_rows<T, 1, Form<T>>,
                  ceil_div(ceil_div(total, V), threads), threads, call.stream, x.data<const T>(), y.data<T>(),
                  dense ? 1 : rows, dense ? total : columns, x.strides[0], hint);
  });
}

const std::vector<Kernel> kernels = {
    {"tanh", gelu<Tanh>, {"x"}, {"y"}, {}},
    {"none", gelu<Erf>, {"x"}, {"y"}, {}},
};

}  // namespace kbench

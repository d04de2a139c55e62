// RMS normalisation: y = x / sqrt(mean(x^2) + eps) * weight, for each row of a matrix. The arithmetic is fp32.
#include "rows/dispatch.cuh"
#include "rows/sums.cuh"

namespace kbench {

struct Rmsnorm {
  static constexpr int inputs = 1, outputs = 1;
  static constexpr float kPadding = 0.0f;
  static constexpr bool kTuned = true;
  static constexpr int kMostKept = 4;
  struct Arguments {
    const void* weight;
    float eps;
  };

  template <typename S>
  struct Row : Bounds<S> {
    using Total = Sum;
    static constexpr int kept = 0;
    Columns<S> weight;
    float eps, rstd;

    __device__ __forceinline__ void begin(const Arguments& arguments, const Part<S>& part) {
      weight.begin(arguments.weight, part);
      eps = arguments.eps;
    }

    __device__ __forceinline__ void prepare(int p, const Part<S>& part) {
      weight.prepare(p, part);
    }

    template <typename Packs, typename Edges>
    __device__ __forceinline__ Sum reduce(const Packs& x, const Edges& edges, const Part<S>&) {
      float squares = 0.0f;
      for_each<S>(x[0], [&](float value) { squares = fmaf(value, value, squares); });
      for_each_edge<S>(edges[0], [&](float value) { squares = fmaf(value, value, squares); });
      return {shuffle_sum<S::width>(squares)};
    }

    __device__ __forceinline__ void finish(Sum squares, int columns, std::int64_t) {
      rstd = rsqrtf(squares.sum / columns + eps);
    }
    __device__ __forceinline__ unsigned zero() const { return rstd != rstd; }

    template <typename Place, int COUNT>
    __device__ __forceinline__ void write(Place at, const Part<S>& part, const float (&x)[1][COUNT],
                                          float (&y)[1][COUNT]) const {
      float w[COUNT];
      weight.get(at, part, w);
#pragma unroll
      for (int v = 0; v < COUNT; ++v) y[0][v] = x[0][v] * rstd * w[v];
    }
  };
};

cudaError_t rmsnorm(const Call& call) {
  const Tensor &x = call.inputs[0], &weight = call.inputs[1], &y = call.outputs[0];
  require_rows(x, {&y}, {&weight});
  const Rmsnorm::Arguments arguments = {weight.address, static_cast<float>(call.real("eps"))};
  return with_type(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    return launch_rows(call, rows_call<T, Rmsnorm>(call, arguments, {&x}, {&y}), {weight.address});
  });
}

const std::vector<Kernel> kernels = {{"rmsnorm", rmsnorm, {"x", "weight"}, {"y"}, KBENCH_ROW_OPTIONS}};

}  // namespace kbench

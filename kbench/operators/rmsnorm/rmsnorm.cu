// RMS normalisation: y = x / sqrt(mean(x^2) + eps) * weight, for each row of a matrix. The arithmetic is fp32.
#include "rows/columns.cuh"

namespace kbench {

template <bool MIXED>  // weights in fp32 beside rows in 16 bits
struct Rmsnorm {
  static constexpr int inputs = 1, outputs = 1;
  static constexpr float kPadding = 0.0f;
  struct Arguments {
    const void* weight;
    float eps;
  };

  static Sharing share(const Rows& rows) { return share_norm_of<MIXED>(rows); }
  template <typename T, bool EDGES>
  static constexpr auto ways() {
    return norm_ways<inputs, MIXED, EDGES>();
  }

  template <typename S>
  struct Row : Bounds<S> {
    using Total = Sum;
    static constexpr int kept = 0;
    // Weights in fp32 of rows that begin anywhere take more registers.
    static constexpr int blocks = Bounds<S>::blocks - (MIXED && S::edges ? 1 : 0);
    Columns<S, MIXED> weight;
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
  return with_types(x, weight, [&](auto zero, auto mixed) {
    using Op = Rmsnorm<mixed.value>;
    const typename Op::Arguments arguments = {weight.address, float(call.real("eps"))};
    return launch_rows(call, rows_call<decltype(zero), Op>(call, arguments, {&x}, {&y}), {weight.address});
  });
}

const std::vector<Kernel> kernels = {
    {"rmsnorm", rmsnorm, {"x", "weight"}, {"y"}, {"eps", KBENCH_ROW_OPTIONS}}};

}  // namespace kbench

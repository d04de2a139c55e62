// RMS normalisation: y = x / sqrt(mean(x^2) + eps) * weight, for each row of a matrix. The arithmetic is fp32.
#include "rows/norms.cuh"

namespace kbench {

template <bool MIXED>
struct Rmsnorm : Norm<1, MIXED> {
  using Arguments = RmsArguments;

  template <typename S>
  struct Row : RmsRow<S, MIXED> {
    static constexpr int kept = 0;
    // Weights in fp32 of rows that begin anywhere take more registers.
    static constexpr int blocks = Bounds<S>::blocks - (MIXED && S::edges ? 1 : 0);

    template <typename Packs, typename Edges>
    __device__ __forceinline__ Sum reduce(const Packs& x, const Edges& edges, const Part<S>&) {
      float squares = 0.0f;
      for_each<S>(x[0], [&](float value) { squares = fmaf(value, value, squares); });
      for_each_edge<S>(edges[0], [&](float value) { squares = fmaf(value, value, squares); });
      return {shuffle_sum<S::width>(squares)};
    }

    __device__ __forceinline__ unsigned zero() const { return this->rstd != this->rstd; }

    template <typename Place, int COUNT>
    __device__ __forceinline__ void write(Place at, const Part<S>& part, const float (&x)[1][COUNT],
                                          float (&y)[1][COUNT]) const {
      float w[COUNT];
      this->weight.get(at, part, w);
#pragma unroll
      for (int v = 0; v < COUNT; ++v) y[0][v] = x[0][v] * this->rstd * w[v];
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

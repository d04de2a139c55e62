// The gradients of RMS normalisation: dx for each row, and the sum over rows for the weight. With r = 1 /
// sqrt(mean(x^2) + eps), which the forward pass saved, z = x * r and g = dy * weight, dx = r * (g - z * mean(g * z)) and
// dweight = sum(dy * z). The arithmetic is fp32.
#include "rows/gradients/backward.cuh"

namespace kbench {

template <bool MIXED>  // weights in fp32 beside rows in 16 bits
struct RmsnormBackward {
  static constexpr int inputs = 2, outputs = 1;  // dy and x; dx
  static constexpr float kPadding = 0.0f;
  static constexpr bool kMixed = MIXED;
  static constexpr Kernels kKernels = Kernels::few;
  using Arguments = BackwardArguments;

  template <typename S>
  struct Row : BackwardRow<S, MIXED, Row<S>, 1, 1> {
    float rstd, share;  // share: of x in dx

    template <typename Place, int COUNT>
    __device__ __forceinline__ void measure(Place at, const Part<S>& part, const float (&in)[2][COUNT],
                                            RowStatistics statistics, float (&sums)[1]) const {
      float w[COUNT];
      this->weight.get(at, part, w);
#pragma unroll
      for (int v = 0; v < COUNT; ++v) sums[0] = fmaf(in[0][v] * w[v], in[1][v] * statistics.rstd, sums[0]);
    }

    __device__ __forceinline__ void conclude(Sums<1> row, RowStatistics statistics, float each) {
      rstd = statistics.rstd;
      share = -rstd * (rstd * (row.values[0] * each));
    }
    __device__ __forceinline__ unsigned zero() const { return rstd != rstd; }

    template <typename Place, int COUNT>
    __device__ __forceinline__ void write(Place at, const Part<S>& part, const float (&in)[2][COUNT],
                                          float (&dx)[1][COUNT]) const {
      float w[COUNT];
      this->weight.get(at, part, w);
#pragma unroll
      for (int v = 0; v < COUNT; ++v) dx[0][v] = fmaf(in[0][v] * rstd, w[v], in[1][v] * share);
    }

    template <int COUNT>
    __device__ __forceinline__ void add(const float (&in)[2][COUNT], RowStatistics statistics,
                                        float (&totals)[1][COUNT]) const {
#pragma unroll
      for (int v = 0; v < COUNT; ++v) totals[0][v] = fmaf(in[0][v], in[1][v] * statistics.rstd, totals[0][v]);
    }
  };
};

cudaError_t rmsnorm_backward(const Call& call) {
  const Tensor &dy = call.inputs[0], &x = call.inputs[1], &weight = call.inputs[2], &statistics = call.inputs[3];
  const Tensor &dx = call.outputs[0], &dweight = call.outputs[1];
  require_rows(x, {&dy, &dx}, {&weight, &dweight});
  return with_types(x, weight, [&](auto zero, auto mixed) {
    using Op = RmsnormBackward<mixed.value>;
    return launch_backward<decltype(zero), Op>(call, dy, x, weight, statistics, dx, {&dweight}, call.outputs[2]);
  });
}

const std::vector<Kernel> kernels = {{"rmsnorm_backward",
                                      rmsnorm_backward,
                                      {"dy", "x", "weight", "statistics"},
                                      {"dx", "dweight", "partial_sums"},
                                      KBENCH_BACKWARD_OPTIONS}};

}  // namespace kbench

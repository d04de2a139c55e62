// The gradients of layer normalisation: dx for each row, and the sums over rows for weight and bias. With mean and r = 1 /
// sqrt(var + eps), which the forward pass saved, z = (x - mean) * r and g = dy * weight, dx = r * (g - mean(g) - z *
// mean(g * z)), dweight = sum(dy * z) and dbias = sum(dy). The arithmetic is fp32.
#include "rows/gradients/backward.cuh"

namespace kbench {

template <bool MIXED>  // weights in fp32 beside rows in 16 bits
struct LayernormBackward {
  static constexpr int inputs = 2, outputs = 1;  // dy and x; dx
  static constexpr float kPadding = 0.0f;
  static constexpr bool kMixed = MIXED;
  static constexpr Kernels kKernels = Kernels::few;
  using Arguments = BackwardArguments;

  template <typename S>
  struct Row : BackwardRow<S, MIXED, Row<S>, 2, 2> {
    float mean, rstd, share, rest;  // share: of x - mean in dx

    template <typename Place, int COUNT>
    __device__ __forceinline__ void measure(Place at, const Part<S>& part, const float (&in)[2][COUNT],
                                            RowStatistics statistics, float (&sums)[2]) const {
      float w[COUNT];
      this->weight.get(at, part, w);
#pragma unroll
      for (int v = 0; v < COUNT; ++v) {
        const float g = in[0][v] * w[v];
        sums[0] += g;
        sums[1] = fmaf(g, statistics.normalised(in[1][v]), sums[1]);
      }
    }

    __device__ __forceinline__ void conclude(Sums<2> row, RowStatistics statistics, float each) {
      mean = statistics.mean;
      rstd = statistics.rstd;
      share = -rstd * (rstd * (row.values[1] * each));
      rest = -rstd * (row.values[0] * each);
    }
    __device__ __forceinline__ unsigned zero() const { return rstd != rstd; }

    template <typename Place, int COUNT>
    __device__ __forceinline__ void write(Place at, const Part<S>& part, const float (&in)[2][COUNT],
                                          float (&dx)[1][COUNT]) const {
      float w[COUNT];
      this->weight.get(at, part, w);
#pragma unroll
      for (int v = 0; v < COUNT; ++v) dx[0][v] = fmaf(in[0][v] * rstd, w[v], fmaf(in[1][v] - mean, share, rest));
    }

    template <int COUNT>
    __device__ __forceinline__ void add(const float (&in)[2][COUNT], RowStatistics statistics,
                                        float (&totals)[2][COUNT]) const {
#pragma unroll
      for (int v = 0; v < COUNT; ++v) {
        totals[0][v] = fmaf(in[0][v], statistics.normalised(in[1][v]), totals[0][v]);
        totals[1][v] += in[0][v];
      }
    }
  };
};

cudaError_t layernorm_backward(const Call& call) {
  const Tensor &dy = call.inputs[0], &x = call.inputs[1], &weight = call.inputs[2], &statistics = call.inputs[3];
  const Tensor &dx = call.outputs[0], &dweight = call.outputs[1], &dbias = call.outputs[2];
  require_rows(x, {&dy, &dx}, {&weight, &dweight, &dbias});
  return with_types(x, weight, [&](auto zero, auto mixed) {
    using Op = LayernormBackward<mixed.value>;
    return launch_backward<decltype(zero), Op>(call, dy, x, weight, statistics, dx, {&dweight, &dbias},
                                               call.outputs[3]);
  });
}

const std::vector<Kernel> kernels = {{"layernorm_backward",
                                      layernorm_backward,
                                      {"dy", "x", "weight", "statistics"},
                                      {"dx", "dweight", "dbias", "partial_sums"},
                                      KBENCH_BACKWARD_OPTIONS}};

}  // namespace kbench

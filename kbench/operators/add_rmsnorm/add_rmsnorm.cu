// Residual sum and RMS normalisation: h = x + residual and y = h / sqrt(mean(h^2) + eps) * weight, for each row of
// matrices. The arithmetic is fp32: y is computed from h before it is rounded.
#include "rows/norms.cuh"

namespace kbench {

template <bool MIXED>
struct AddRmsnorm : Norm<2, MIXED> {
  using Arguments = RmsArguments;

  // h replaces the elements of x and residual. It takes as many registers as both in 16 bits.
  template <typename S>
  struct Row : RmsRow<S, MIXED, 2 * S::packs> {
    static constexpr int kept = S::packs;
    // The edges need registers, too.
    using Limits = Bounds<S, 2 * S::packs>;
    static constexpr int threads = S::edges && S::packs == 4 ? 512 : Limits::threads;
    static constexpr int blocks = S::edges && S::packs >= 2 && !S::group ? 4 / S::packs : Limits::blocks;
    float h[S::packs][S::vector], edge_h[S::thread_edges + 1];

    template <typename Packs, typename Edges>
    __device__ __forceinline__ Sum reduce(const Packs& packs, const Edges& edges, const Part<S>&) {
      float squares = 0.0f;
#pragma unroll
      for (int p = 0; p < S::packs; ++p) {
        float x[S::vector], residual[S::vector];
        to_floats(packs[0][p], x);
        to_floats(packs[1][p], residual);
#pragma unroll
        for (int v = 0; v < S::vector; ++v) {
          h[p][v] = x[v] + residual[v];
          squares = fmaf(h[p][v], h[p][v], squares);
        }
      }
#pragma unroll
      for (int e = 0; e < S::thread_edges; ++e) {
        edge_h[e] = edges[0][e] + edges[1][e];
        squares = fmaf(edge_h[e], edge_h[e], squares);
      }
      return {shuffle_sum<S::width>(squares)};
    }

    __device__ __forceinline__ unsigned zero() const { return 0; }

    template <typename Place, int COUNT>
    __device__ __forceinline__ void write(Place at, const Part<S>& part, const float (&)[2][COUNT],
                                          float (&out)[2][COUNT]) const {
      float w[COUNT];
      this->weight.get(at, part, w);
#pragma unroll
      for (int v = 0; v < COUNT; ++v) {
        const float sum = of(at, v);
        out[0][v] = sum * this->rstd * w[v];
        out[1][v] = sum;
      }
    }

    __device__ __forceinline__ float of(InPack at, int v) const { return h[at.p][v]; }
    __device__ __forceinline__ float of(InEdge at, int) const { return edge_h[at.e]; }
  };
};

cudaError_t add_rmsnorm(const Call& call) {
  const Tensor &x = call.inputs[0], &residual = call.inputs[1], &weight = call.inputs[2];
  const Tensor &y = call.outputs[0], &h = call.outputs[1];
  require_rows(x, {&residual, &y, &h}, {&weight});
  return with_types(x, weight, [&](auto zero, auto mixed) {
    using Op = AddRmsnorm<mixed.value>;
    const typename Op::Arguments arguments = {weight.address, float(call.real("eps"))};
    return launch_rows(call, rows_call<decltype(zero), Op>(call, arguments, {&x, &residual}, {&y, &h}), {weight.address});
  });
}

const std::vector<Kernel> kernels = {
    {"add_rmsnorm", add_rmsnorm, {"x", "residual", "weight"}, {"y", "h"}, {"eps", KBENCH_ROW_OPTIONS}}};

}  // namespace kbench

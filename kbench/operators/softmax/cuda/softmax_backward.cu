// The gradient of softmax from its output: dx = y * (dy - sum(dy * y)), for each row. The arithmetic is fp32. y and dy are
// read once.
#include "rows/dispatch.cuh"
#include "rows/sums.cuh"

namespace kbench {

struct SoftmaxBackward {
  static constexpr int inputs = 2, outputs = 1;  // y, dy
  static constexpr float kPadding = 0.0f;
  static constexpr Kernels kKernels = Kernels::all;
  static constexpr int kMostKept = 0;
  struct Arguments {};

  template <typename S>
  struct Row : Bounds<S, 2 * S::packs> {
    using Total = Sum;
    static constexpr int kept = 0;
    float sum;

    __device__ __forceinline__ void begin(const Arguments&, const Part<S>&) {}

    template <typename Packs, typename Edges>
    __device__ __forceinline__ Sum reduce(const Packs& packs, const Edges& edges, const Part<S>&) {
      float products = 0.0f;
#pragma unroll
      for (int p = 0; p < S::packs; ++p) {
        float y[S::vector], dy[S::vector];
        to_floats(packs[0][p], y);
        to_floats(packs[1][p], dy);
#pragma unroll
        for (int v = 0; v < S::vector; ++v) products = fmaf(y[v], dy[v], products);
      }
#pragma unroll
      for (int e = 0; e < S::thread_edges; ++e) products = fmaf(edges[0][e], edges[1][e], products);
      return {shuffle_sum<S::width>(products)};
    }

    __device__ __forceinline__ void finish(Sum total, int, std::int64_t) { sum = total.sum; }
    __device__ __forceinline__ unsigned zero() const { return sum != sum; }

    template <typename Place, int COUNT>
    __device__ __forceinline__ void write(Place, const Part<S>&, const float (&in)[2][COUNT], float (&dx)[1][COUNT]) const {
#pragma unroll
      for (int v = 0; v < COUNT; ++v) dx[0][v] = in[0][v] * (in[1][v] - sum);
    }
  };
};

cudaError_t softmax_backward(const Call& call) {
  const Tensor &dy = call.inputs[0], &y = call.inputs[1], &dx = call.outputs[0];
  require_rows(y, {&dy, &dx}, {});
  return with_type(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    return launch_rows(call, rows_call<T, SoftmaxBackward>(call, {}, {&y, &dy}, {&dx}), {});
  });
}

const std::vector<Kernel> kernels = {
    {"softmax_backward", softmax_backward, {"dy", "y"}, {"dx"}, {KBENCH_ROW_OPTIONS}}};

}  // namespace kbench

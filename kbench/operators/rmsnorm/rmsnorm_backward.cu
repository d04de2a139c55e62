// The gradients of RMS normalisation: dx for each row, and the sum over rows for the weight. With r = 1 /
// sqrt(mean(x^2) + eps), dx = r * (dy * weight - x * r^2 * mean(dy * weight * x)) and dweight = sum(dy * x * r). The
// arithmetic is fp32. r is computed again: x is read anyway.
#include "rows/gradients/backward.cuh"

namespace kbench {

// What it needs of a row: the sums of x^2 and of dy * weight * x.
struct alignas(8) RmsProducts {
  float squares, products;

  static __device__ __forceinline__ RmsProducts none() { return {0.0f, 0.0f}; }
  __device__ __forceinline__ void add(RmsProducts other) {
    squares += other.squares;
    products += other.products;
  }
  template <int WIDTH>
  __device__ __forceinline__ RmsProducts reduce() const {
    return {shuffle_sum<WIDTH>(squares), shuffle_sum<WIDTH>(products)};
  }
};

template <bool MIXED>  // weights in fp32 beside rows in 16 bits
struct RmsnormBackward {
  static constexpr int inputs = 2, outputs = 1;  // dy and x; dx
  static constexpr float kPadding = 0.0f;
  static constexpr bool kMixed = MIXED;
  static constexpr Kernels kKernels = Kernels::few;
  struct Arguments {
    const void* weight;
    float eps;
    RowStatistics* statistics;  // for the sums over rows, or null
  };

  template <typename S>
  struct Row {
    static constexpr int threads = S::group ? 128 : 512, blocks = S::group ? 4 : 1;
    using Total = RmsProducts;
    static constexpr int kept = 0, row_sums = 2, sums = 1;
    static constexpr bool centred = false, one_by_one = false;
    Columns<S, MIXED, kNeverAhead> weight;  // `reduce` needs it, too
    RowStatistics* statistics;
    float eps, rstd, share;  // share: of x in dx

    __device__ __forceinline__ void begin(const Arguments& arguments, const Part<S>& part) {
      weight.begin(arguments.weight, part);
      eps = arguments.eps;
      statistics = part.leads() ? arguments.statistics : nullptr;
    }

    template <typename Packs, typename Edges>
    __device__ __forceinline__ RmsProducts reduce(const Packs& packs, const Edges& edges, const Part<S>& part) const {
      float sums[2] = {};
      for_each_place<S>(packs, edges, part, [&](auto at, const auto& in) {
        measure(at, part, in, 0.0f, sums);
      });
      return {shuffle_sum<S::width>(sums[0]), shuffle_sum<S::width>(sums[1])};
    }

    __device__ __forceinline__ void finish(RmsProducts row, int columns, std::int64_t number) {
      const float sums[] = {row.squares, row.products};
      conclude(sums, 0.0f, columns);
      if (statistics) statistics[number] = {0.0f, rstd};
    }

    template <typename Place, int COUNT>
    __device__ __forceinline__ void measure(Place at, const Part<S>& part, const float (&in)[2][COUNT], float,
                                            float* sums) const {
      float w[COUNT];
      weight.get(at, part, w);
#pragma unroll
      for (int v = 0; v < COUNT; ++v) {
        sums[0] = fmaf(in[1][v], in[1][v], sums[0]);
        sums[1] = fmaf(in[0][v] * w[v], in[1][v], sums[1]);
      }
    }

    __device__ __forceinline__ void conclude(const float* sums, float, int columns) {
      rstd = rsqrtf(sums[0] / columns + eps);
      share = -rstd * (rstd * (rstd * (sums[1] / columns)));
    }

    __device__ __forceinline__ unsigned zero() const { return rstd != rstd; }

    template <typename Place, int COUNT>
    __device__ __forceinline__ void write(Place at, const Part<S>& part, const float (&in)[2][COUNT],
                                          float (&dx)[1][COUNT]) const {
      float w[COUNT];
      weight.get(at, part, w);
#pragma unroll
      for (int v = 0; v < COUNT; ++v) dx[0][v] = fmaf(in[0][v] * rstd, w[v], in[1][v] * share);
    }

    template <int COUNT>
    __device__ __forceinline__ void add(const float (&in)[2][COUNT], float (&totals)[1][COUNT]) const {
#pragma unroll
      for (int v = 0; v < COUNT; ++v) totals[0][v] = fmaf(in[0][v] * rstd, in[1][v], totals[0][v]);
    }
  };
};

cudaError_t rmsnorm_backward(const Call& call) {
  const Tensor &dy = call.inputs[0], &x = call.inputs[1], &weight = call.inputs[2];
  const Tensor &dx = call.outputs[0], &dweight = call.outputs[1];
  require_rows(x, {&dy, &dx}, {&weight, &dweight});
  return with_types(x, weight, [&](auto zero, auto mixed) {
    using Op = RmsnormBackward<mixed.value>;
    const typename Op::Arguments arguments = {weight.address, float(call.real("eps"))};
    return launch_backward<decltype(zero), Op>(call, arguments, dy, x, dx, {&weight}, {&dweight}, call.outputs[2],
                                               call.outputs[3]);
  });
}

const std::vector<Kernel> kernels = {{"rmsnorm_backward",
                                      rmsnorm_backward,
                                      {"dy", "x", "weight"},
                                      {"dx", "dweight", "statistics", "partial_sums"},
                                      KBENCH_BACKWARD_OPTIONS}};

}  // namespace kbench

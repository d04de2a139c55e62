// The gradients of layer normalisation: dx for each row, and the sums over rows for weight and bias. With r = 1 /
// sqrt(var + eps), z = x - mean and g = dy * weight, dx = r * (g - mean(g) - z * r^2 * mean(g * z)), dweight = sum(dy *
// z * r) and dbias = sum(dy). The arithmetic is fp32. mean and r are computed again: x is read anyway.
#include "rows/gradients/backward.cuh"
#include "rows/sums.cuh"

namespace kbench {

// What it needs of a row: the moments of x, the sum of g = dy * weight, and the sum of g * (x - mean). If the mean
// moves by d, the latter grows by d * sum(g).
struct alignas(16) LayerProducts {
  Moments moments;
  float sum, products, unused[2];

  static __device__ __forceinline__ LayerProducts none() { return {Moments::none(), 0.0f, 0.0f, {}}; }

  __device__ __forceinline__ void add(LayerProducts other) {
    Moments both = moments;
    both.add(other.moments);
    products += (moments.mean - both.mean) * sum + other.products + (other.moments.mean - both.mean) * other.sum;
    sum += other.sum;
    moments = both;
  }

  template <int WIDTH>
  __device__ __forceinline__ LayerProducts reduce() const {
    const Moments all = moments.template reduce<WIDTH>();
    return {all, shuffle_sum<WIDTH>(sum), shuffle_sum<WIDTH>(fmaf(moments.mean - all.mean, sum, products)), {}};
  }
};

template <bool MIXED>  // weights in fp32 beside rows in 16 bits
struct LayernormBackward {
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
    using Total = LayerProducts;
    static constexpr int kept = 0, row_sums = 3, sums = 2;
    // In 16 bits, it costs more to read a row three times from shared memory than to wait for an exchange.
    static constexpr bool centred = true, one_by_one = sizeof(typename S::T) == 2;
    Columns<S, MIXED, kNeverAhead> weight;  // `reduce` needs it, too
    RowStatistics* statistics;
    float eps, mean, rstd, share, rest;  // share: of x - mean in dx

    __device__ __forceinline__ void begin(const Arguments& arguments, const Part<S>& part) {
      weight.begin(arguments.weight, part);
      eps = arguments.eps;
      statistics = part.leads() ? arguments.statistics : nullptr;
    }

    // The mean of the elements of a warp first, then the distances from it.
    template <typename Packs, typename Edges>
    __device__ __forceinline__ LayerProducts reduce(const Packs& packs, const Edges& edges, const Part<S>& part) const {
      float total = 0.0f;
      for_each<S>(packs[1], [&](float value) { total += value; });
      for_each_edge<S>(edges[1], [&](float value) { total += value; });
      const float count = part.elements();
      const float middle = shuffle_sum<S::width>(total) * reciprocal(fmaxf(count, 1.0f));
      float sums[3] = {};
      for_each_place<S>(packs, edges, part, [&](auto at, const auto& in) {
        measure(at, part, in, middle, sums);
      });
      return {{count, middle, shuffle_sum<S::width>(sums[0])}, shuffle_sum<S::width>(sums[1]),
              shuffle_sum<S::width>(sums[2]), {}};
    }

    template <typename Place, int COUNT>
    __device__ __forceinline__ void measure(Place at, const Part<S>& part, const float (&in)[2][COUNT], float middle,
                                            float* sums) const {
      float w[COUNT];
      weight.get(at, part, w);
#pragma unroll
      for (int v = 0; v < COUNT; ++v) {
        const float z = in[1][v] - middle, g = in[0][v] * w[v];
        sums[0] = fmaf(z, z, sums[0]);
        sums[1] += g;
        sums[2] = fmaf(g, z, sums[2]);
      }
    }

    __device__ __forceinline__ void conclude(const float* sums, float of_x, int columns) {
      mean = of_x;
      rstd = rsqrtf(sums[0] / columns + eps);
      share = -rstd * (rstd * (rstd * (sums[2] / columns)));
      rest = -rstd * (sums[1] / columns);
    }

    __device__ __forceinline__ void finish(LayerProducts row, int columns, std::int64_t number) {
      const float sums[] = {row.moments.squares, row.sum, row.products};
      conclude(sums, row.moments.mean, columns);
      if (statistics) statistics[number] = {mean, rstd};
    }
    __device__ __forceinline__ unsigned zero() const { return rstd != rstd; }

    template <typename Place, int COUNT>
    __device__ __forceinline__ void write(Place at, const Part<S>& part, const float (&in)[2][COUNT],
                                          float (&dx)[1][COUNT]) const {
      float w[COUNT];
      weight.get(at, part, w);
#pragma unroll
      for (int v = 0; v < COUNT; ++v) {
        dx[0][v] = fmaf(in[0][v] * rstd, w[v], fmaf(in[1][v] - mean, share, rest));
      }
    }

    template <int COUNT>
    __device__ __forceinline__ void add(const float (&in)[2][COUNT], float (&totals)[2][COUNT]) const {
#pragma unroll
      for (int v = 0; v < COUNT; ++v) {
        totals[0][v] = fmaf(in[0][v] * rstd, in[1][v] - mean, totals[0][v]);
        totals[1][v] += in[0][v];
      }
    }
  };
};

cudaError_t layernorm_backward(const Call& call) {
  const Tensor &dy = call.inputs[0], &x = call.inputs[1], &weight = call.inputs[2];
  const Tensor &dx = call.outputs[0], &dweight = call.outputs[1], &dbias = call.outputs[2];
  require_rows(x, {&dy, &dx}, {&weight, &dweight, &dbias});
  return with_types(x, weight, [&](auto zero, auto mixed) {
    using Op = LayernormBackward<mixed.value>;
    const typename Op::Arguments arguments = {weight.address, float(call.real("eps"))};
    return launch_backward<decltype(zero), Op>(call, arguments, dy, x, dx, {&weight}, {&dweight, &dbias},
                                               call.outputs[3], call.outputs[4]);
  });
}

const std::vector<Kernel> kernels = {{"layernorm_backward",
                                      layernorm_backward,
                                      {"dy", "x", "weight"},
                                      {"dx", "dweight", "dbias", "statistics", "partial_sums"},
                                      KBENCH_BACKWARD_OPTIONS}};

}  // namespace kbench

// Layer normalisation: y = (x - mean) / sqrt(var + eps) * weight + bias, for each row of a matrix. The arithmetic is
// fp32.
#include "rows/norms.cuh"

namespace kbench {

// The number of some elements, their mean, and the sum of the squares of their distances from the mean. Parts are
// combined with the formulas of Chan, Golub and LeVeque ("Updating formulae and a pairwise algorithm for computing
// sample variances", 1979). Unlike a sum of squares, they lose no digits when the mean is large.
struct alignas(16) Moments {
  float count, mean, squares;

  static __device__ __forceinline__ Moments none() { return {0.0f, 0.0f, 0.0f}; }

  __device__ __forceinline__ void add(Moments other) {
    const float both = count + other.count, distance = other.mean - mean;
    const float share = other.count * reciprocal(fmaxf(both, 1.0f));
    mean += distance * share;
    squares += other.squares + distance * distance * count * share;
    count = both;
  }

  template <int WIDTH>
  __device__ __forceinline__ Moments reduce() const {
    const float all = shuffle_sum<WIDTH>(count);
    const float middle = shuffle_sum<WIDTH>(count * mean) * reciprocal(all);
    const float distance = mean - middle;
    return {all, middle, shuffle_sum<WIDTH>(fmaf(distance * distance, count, squares))};
  }
};

template <bool MIXED>
struct Layernorm : Norm<1, MIXED> {
  struct Arguments {
    const void *weight, *bias;
    float eps;
  };

  template <typename S>
  struct Row : Bounds<S> {
    using T = typename S::T;
    using Total = Moments;
    static constexpr int kept = 0;
    // Two vectors of rows that begin anywhere take more registers. So do two in fp32, before sm_90.
    static constexpr bool wide = MIXED && !KBENCH_CLUSTERS && S::packs >= 4;
    static constexpr bool more = !S::keep && S::packs < 8 && (S::edges || wide);
    static constexpr int blocks = Bounds<S>::blocks - (!more ? 0 : S::group ? 2 : 1);
    // With fewer than 8 accesses, or in fp32, two vectors ahead would take more registers than Bounds allows.
    Columns<S, MIXED, MIXED ? kNeverAhead : 8> weight, bias;
    float eps, mean, rstd;

    __device__ __forceinline__ void begin(const Arguments& arguments, const Part<S>& part) {
      weight.begin(arguments.weight, part);
      bias.begin(arguments.bias, part);
      eps = arguments.eps;
    }

    __device__ __forceinline__ void prepare(int p, const Part<S>& part) {
      weight.prepare(p, part);
      bias.prepare(p, part);
    }

    // The moments of the elements of a warp: its mean first, then the distances from it.
    template <typename Packs, typename Edges>
    __device__ __forceinline__ Moments reduce(const Packs& x, const Edges& edges, const Part<S>& part) {
      float sum = 0.0f;
      for_each<S>(x[0], [&](float value) { sum += value; });
      for_each_edge<S>(edges[0], [&](float value) { sum += value; });
      const float count = part.elements();
      const float middle = shuffle_sum<S::width>(sum) * reciprocal(fmaxf(count, 1.0f));
      const unsigned zero = middle != middle;
      float squares = 0.0f;
#pragma unroll
      for (int p = 0; p < S::packs; ++p) {
        if (part.has(p)) {
          float elements[S::vector];
          to_floats(sizeof(T) == 4 ? x[0][p] : x[0][p].flipped(zero), elements);
#pragma unroll
          for (int v = 0; v < S::vector; ++v) squares = fmaf(elements[v] - middle, elements[v] - middle, squares);
        }
      }
#pragma unroll
      for (int e = 0; e < S::thread_edges; ++e) {
        const float distance = part.has_edge(e) ? edges[0][e] - middle : 0.0f;
        squares = fmaf(distance, distance, squares);
      }
      return {count, middle, shuffle_sum<S::width>(squares)};
    }

    __device__ __forceinline__ void finish(Moments all, int columns, std::int64_t) {
      mean = all.mean;
      rstd = rsqrtf(all.squares / columns + eps);
    }
    __device__ __forceinline__ unsigned zero() const { return rstd != rstd; }

    template <typename Place, int COUNT>
    __device__ __forceinline__ void write(Place at, const Part<S>& part, const float (&x)[1][COUNT],
                                          float (&y)[1][COUNT]) const {
      float w[COUNT], b[COUNT];
      weight.get(at, part, w);
      bias.get(at, part, b);
#pragma unroll
      for (int v = 0; v < COUNT; ++v) y[0][v] = fmaf((x[0][v] - mean) * rstd, w[v], b[v]);
    }
  };
};

cudaError_t layernorm(const Call& call) {
  const Tensor &x = call.inputs[0], &weight = call.inputs[1], &bias = call.inputs[2], &y = call.outputs[0];
  require_rows(x, {&y}, {&weight, &bias});
  return with_types(x, weight, [&](auto zero, auto mixed) {
    using Op = Layernorm<mixed.value>;
    const typename Op::Arguments arguments = {weight.address, bias.address, float(call.real("eps"))};
    return launch_rows(call, rows_call<decltype(zero), Op>(call, arguments, {&x}, {&y}), {weight.address, bias.address});
  });
}

const std::vector<Kernel> kernels = {
    {"layernorm", layernorm, {"x", "weight", "bias"}, {"y"}, {"eps", KBENCH_ROW_OPTIONS}}};

}  // namespace kbench

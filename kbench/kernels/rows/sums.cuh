// Totals that are sums, and the mean and the variance.
#pragma once

#include "device.cuh"

namespace kbench {

struct Sum {
  float sum;

  static __device__ __forceinline__ Sum none() { return {0.0f}; }
  __device__ __forceinline__ void add(Sum other) { sum += other.sum; }
  template <int WIDTH>
  __device__ __forceinline__ Sum reduce() const {
    return {shuffle_sum<WIDTH>(sum)};
  }
};

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

}  // namespace kbench

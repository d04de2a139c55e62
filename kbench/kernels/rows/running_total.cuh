// The maximum and the sum of exponentials of what a thread has read so far, for rows that do not stay in registers.
#pragma once

#include "softmax_total.cuh"

namespace kbench {

// `add` looks for a new maximum once for all the accesses that it is given, and rescales the sum then: not for each element.
template <typename T>
struct RunningTotal {
  float max = -INFINITY, sum = 0.0f;

  template <int VECTOR, int PACKS>
  __device__ __forceinline__ void add(const Pack<T, VECTOR> (&packs)[PACKS]) {
    PackMax<T, VECTOR> of_packs;
#pragma unroll
    for (int p = 0; p < PACKS; ++p) of_packs.add(packs[p]);
    raise(of_packs.get());
    const float less = shift(max);
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
#pragma unroll
      for (int v = 0; v < VECTOR; ++v) sum += exponential<T>(to_float(packs[p].values[v]) - less);
    }
  }

  __device__ __forceinline__ void add(float element) {
    raise(element);
    sum += exponential<T>(element - shift(max));
  }

  // The total of WIDTH neighbouring threads of a warp, for all of them.
  template <int WIDTH>
  __device__ __forceinline__ SoftmaxTotal<T> of_threads() const {
    const float both = shuffle_max<WIDTH>(max);
    return {both, shuffle_sum<WIDTH>(sum * exponential<T>(max - shift(both)))};
  }

 private:
  __device__ __forceinline__ void raise(float other) {
    const float before = max;
    max = fmaxf(max, other);
    sum *= exponential<T>(before - shift(max));
  }
};

}  // namespace kbench

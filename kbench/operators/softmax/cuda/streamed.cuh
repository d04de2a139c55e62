// Rows that do not fit on the chip: they are read twice.
#pragma once

#include "rows/exchange.cuh"
#include "rowwise.h"
#include "rows/running_total.cuh"

namespace kbench {

// A block reads its row twice: once for the maximum and the sum, and once to write the output. The first pass corrects the
// sum once per PACKS accesses, not per element. The second pass runs backwards, because the elements that the first pass
// read last are still in the L2 cache.
template <typename T, int VECTOR, int PACKS>
__global__ void __launch_bounds__(kMaxThreads)
    softmax_streamed(const T* __restrict__ x, T* __restrict__ y, std::int64_t columns, std::int64_t stride) {
  using Total = SoftmaxTotal<T>;
  __shared__ Total totals[kMaxWarps];
  x += blockIdx.x * stride;
  y += blockIdx.x * columns;
  const std::int64_t tile = std::int64_t(blockDim.x) * PACKS * VECTOR;
  const std::int64_t tiles = ceil_div(columns, tile);

  Pack<T, VECTOR> packs[PACKS];
  const auto load = [&](std::int64_t first) {
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
      const std::int64_t i = first + (p * blockDim.x + threadIdx.x) * VECTOR;
      packs[p].load_if(i < columns, x + i, -INFINITY);
    }
  };

  RunningTotal<T> own;
  for (std::int64_t t = 0; t < tiles; ++t) {
    load(t * tile);
    own.add(packs);
  }
  const Total total = exchange<false, kMaxThreads>(own.template of_threads<KBENCH_WARP_SIZE>(), totals);
  const float scale = reciprocal(total.sum);

  for (std::int64_t t = tiles - 1; t >= 0; --t) {
    load(t * tile);
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
      const std::int64_t i = t * tile + (p * blockDim.x + threadIdx.x) * VECTOR;
      if (i < columns) {
#pragma unroll
        for (int v = 0; v < VECTOR; ++v) {
          packs[p].values[v] = from_float<T>(exponential<T>(to_float(packs[p].values[v]) - total.max) * scale);
        }
        packs[p].store(y + i, true);
      }
    }
  }
}

template <typename T, int VECTOR, int PACKS>
cudaError_t launch_streamed(const Rows& call) {
  return launch(softmax_streamed<T, VECTOR, PACKS>, call.rows, kMaxThreads, call.stream,
                static_cast<const T*>(call.x), static_cast<T*>(call.y), call.columns, call.stride);
}

}  // namespace kbench

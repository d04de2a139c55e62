// The sums over the rows of persistent blocks: where they go, and how blocks add up theirs.
#pragma once

#include "column_sums.cuh"
#include "rows/part.cuh"

namespace kbench {

// Where the sums over the rows go: to partial sums (some, sums, columns), or, if one block or cluster has them all, to the
// gradients, which have the type of the vectors.
template <typename W>
struct ColumnSums {
  float* partial;
  W* gradients[2] = {};
};

// Stores the sums of all columns of a block. The threads of one row add up the sums of the rows that the block computes
// together, and of the blocks that join theirs: those of a cluster, unless they share rows. `shared`: memory for the sums of
// all threads. `number`: of the block, or of the cluster that shares a row.
template <typename S, int SUMS, typename W>
__device__ __forceinline__ void join_column_sums(const float (&column_totals)[S::packs][SUMS][S::vector],
                                                 ColumnSums<W> sums, float* shared, const Part<S>& part,
                                                 int columns, int width, std::int64_t number) {
  const int together = blockDim.x / width;
  int joined = 1, rank = 0;
#if KBENCH_CLUSTERS
  if constexpr (!S::cluster) {
    joined = __clusterSizeInBlocks();
    rank = __clusterRelativeBlockRank();
  }
#endif
  if (together == 1 && joined == 1) {
#pragma unroll
    for (int p = 0; p < S::packs; ++p) {
      if (part.has(p)) {
#pragma unroll
        for (int s = 0; s < SUMS; ++s) {
          const std::int64_t column = part.column() + part.offset(p);
          if (sums.gradients[0]) {
#pragma unroll
            for (int first = 0; first < S::vector; first += kVector<W>) {
              Pack<W, kVector<W>> gradient;
#pragma unroll
              for (int v = 0; v < kVector<W>; ++v) gradient.values[v] = from_float<W>(column_totals[p][s][first + v]);
              gradient.store(sums.gradients[s] + column + first, false);
            }
          } else {
            store_sums(sums.partial + (number * SUMS + s) * columns + column, column_totals[p][s]);
          }
        }
      }
    }
    return;
  }
  __syncthreads();
#pragma unroll
  for (int p = 0; p < S::packs; ++p) {
#pragma unroll
    for (int s = 0; s < SUMS; ++s) {
      store_sums(shared + ((p * SUMS + s) * blockDim.x + threadIdx.x) * S::vector, column_totals[p][s]);
    }
  }
  __syncthreads();
#if KBENCH_CLUSTERS
  if (joined > 1) ClusterExchange::meet();
#endif
  constexpr int quads = S::vector / 4;
  const int each = width * quads;  // of one access and one sum
  for (int i = rank * blockDim.x + threadIdx.x; i < S::packs * SUMS * each; i += joined * blockDim.x) {
    const int p = i / each / SUMS, s = i / each % SUMS, thread = i % each / quads, quad = i % quads;
    const int access = (thread / S::width * S::packs + p) * S::width + thread % S::width;
    if (access < part.end) {
      float totals_of_four[4] = {};
      for (int block = 0; block < joined; ++block) {
        for (int other = 0; other < together; ++other) {
          const float* from = shared + ((p * SUMS + s) * blockDim.x + other * width + thread) * S::vector + quad * 4;
          float4 found;
#if KBENCH_CLUSTERS
          found = joined > 1 ? ClusterExchange::read(from, block) : *reinterpret_cast<const float4*>(from);
#else
          found = *reinterpret_cast<const float4*>(from);
#endif
          totals_of_four[0] += found.x;
          totals_of_four[1] += found.y;
          totals_of_four[2] += found.z;
          totals_of_four[3] += found.w;
        }
      }
      const std::int64_t column = std::int64_t(access) * S::vector + quad * 4;
      if (sums.gradients[0]) {
        W* gradient = (s == 0 ? sums.gradients[0] : sums.gradients[1]) + column;
#pragma unroll
        for (int v = 0; v < 4; ++v) gradient[v] = from_float<W>(totals_of_four[v]);
      } else {
        store_sums(sums.partial + (number / joined * SUMS + s) * columns + column, totals_of_four);
      }
    }
  }
#if KBENCH_CLUSTERS
  if (joined > 1) ClusterExchange::meet();  // the others may still read
#endif
}

}  // namespace kbench

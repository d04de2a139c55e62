// Persistent blocks that finish a row before they look at the next one: it needs fewer instructions than rows_in_turn.cuh, and
// waits for each exchange.
#pragma once

#include "rows_in_turn.cuh"

namespace kbench {

// The rows that are on their way or in shared memory at a time.
constexpr int kStages = 3;

// The operator is that of rows_in_turn.cuh. A row is read once from shared memory, and reduced as in registers.cuh. `width`:
// the threads of the block.
template <typename T, int VECTOR, int PACKS, int GROUP, typename Op>
__global__ void __launch_bounds__(kTurnThreads<T, PACKS>, 1)
    rows_one_by_one(Matrices<T, Op::inputs, Op::outputs> matrices, typename Op::Arguments arguments,
                    ColumnSums<VectorOf<T, Op::kMixed>> sums, std::int64_t rows, int columns, int slice, int width) {
  constexpr int max_threads = kTurnThreads<T, PACKS>;
  using S = Shape<T, VECTOR, PACKS, GROUP, false, true>;
  using Row = typename Op::template Row<S>;
  using Total = typename Row::Total;
  extern __shared__ uint4 ring[];  // [stage][input][access][thread]
  __shared__ Total totals[2][max_threads / KBENCH_WARP_SIZE * (S::cluster ? kMaxCluster : 1)];
  __shared__ std::uint64_t barriers[2];
#if KBENCH_CLUSTERS
  if constexpr (S::cluster) ClusterExchange::announce(barriers, 2);
#else
  if constexpr (S::cluster) return;
#endif
  const std::int64_t start = block_row<S::cluster>();
  std::int64_t step = gridDim.x;
#if KBENCH_CLUSTERS
  if constexpr (S::cluster) step /= __clusterSizeInBlocks();
#endif
  const Part<S> part(nullptr, columns, block_rank<S::cluster>(), slice);
  const auto slot = [&](int stage, int i, int p) {
    return ring + ((stage * Op::inputs + i) * PACKS + p) * blockDim.x + threadIdx.x;
  };
  const auto fetch = [&](int stage, std::int64_t number) {
#pragma unroll
    for (int i = 0; i < Op::inputs; ++i) {
      const T* first = matrices.in[i] + number * matrices.in_stride[i] + part.column();
#pragma unroll
      for (int p = 0; p < PACKS; ++p) {
        const bool inside = number < rows && part.has(p);
        copy_ahead(slot(stage, i, p), inside ? first + part.offset(p) : matrices.in[i], inside);
      }
    }
    commit_copies();
  };
#pragma unroll
  for (int stage = 0; stage < kStages; ++stage) fetch(stage, start + stage * step);
  // The next launch may start when all blocks have come here, so it keeps none of them from the device.
  let_next_kernel_start();

  Row row;
  row.begin(arguments, part);
  float column_totals[PACKS][Row::sums][VECTOR] = {};
  const float no_edges[Op::inputs][1] = {};
#if KBENCH_CLUSTERS
  if constexpr (S::cluster) ClusterExchange::await_all();
#endif
  int stage = 0;
  unsigned turn = 0;
  for (std::int64_t number = start; number < rows; number += step) {
    await_copies<kStages - 1>();
    Pack<T, VECTOR> packs[Op::inputs][PACKS];
#pragma unroll
    for (int i = 0; i < Op::inputs; ++i) {
#pragma unroll
      for (int p = 0; p < PACKS; ++p) {
        const uint4 word = *slot(stage, i, p);
        memcpy(packs[i][p].values, &word, sizeof word);
      }
    }
    fetch(stage, number + kStages * step);
    stage = stage + 1 == kStages ? 0 : stage + 1;

    Total total = row.reduce(packs, no_edges, part);
    total = exchange<S::cluster, max_threads, true>(total, totals[turn & 1], barriers + (turn & 1), turn >> 1 & 1);
    ++turn;
    row.finish(total, columns, number);
    const unsigned zero = row.zero();
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
      if (part.has(p)) {
        float read[Op::inputs][VECTOR], written[Op::outputs][VECTOR];
#pragma unroll
        for (int i = 0; i < Op::inputs; ++i) {
          to_floats(sizeof(T) == 4 ? packs[i][p] : packs[i][p].flipped(zero), read[i]);
        }
        row.write(InPack{p}, part, read, written);
        row.add(read, column_totals[p]);
#pragma unroll
        for (int o = 0; o < Op::outputs; ++o) {
          Pack<T, VECTOR> result;
#pragma unroll
          for (int v = 0; v < VECTOR; ++v) result.values[v] = from_float<T>(written[o][v]);
          result.store(matrices.out[o] + number * matrices.out_stride[o] + part.column() + part.offset(p), false);
        }
      }
    }
  }
  await_copies<0>();
  join_column_sums<S, Row::sums>(column_totals, sums, reinterpret_cast<float*>(ring), part, columns, width, start);
}

}  // namespace kbench

// Persistent blocks: each computes many rows in turn, and adds up sums over them on the way. The statistics of the rows are
// known. While a row is written, the sums of the next one are exchanged, and rows after that are copied to shared memory.
#pragma once

#include "rows/columns.cuh"
#include "rows/gradients/join.cuh"
#include "spread.cuh"

namespace kbench {

// The rows that are on their way to shared memory at a time, and with them those that are measured or written. For more than
// one long row, there is no room.
template <int PACKS>
constexpr int kFlying = PACKS == 4 ? 1 : 2;
template <int PACKS>
constexpr int kSlots = kFlying<PACKS> + 2;

constexpr int kTurnThreads = 512;  // of a block, at most: a thread has 128 registers

// Whether only sm_90 and newer have enough shared memory for 4 accesses of as many threads.
template <typename T, int PACKS>
constexpr bool kLargeOnly = PACKS == 4 && sizeof(T) == 2;

// The operator is that of registers.cuh. Its kMixed says whether the vectors and their gradients are in fp32 beside rows in
// 16 bits, and its Arguments have the statistics of all rows. Its Row has more members:
//   row_sums                                     how many sums of a row it needs
//   measure(place, part, in, statistics, sums)   adds what an access contributes to them
//   conclude(sums, statistics, each)             with the sums and the statistics of the row that is written; each: 1 / columns
//   sums                                         the number of sums per column
//   add(in, statistics, totals)                  adds what an access of a row contributes to them
// Each thread has the same columns in all rows; their sums and the operator's vectors stay in its registers. Accesses beyond
// the end of a row, and rows beyond the last one, are zeros: they contribute nothing.
//
// A block or cluster takes every n-th row, or several rows at a time with `width` threads for each. In turn t its warps give
// the sums of row t + 1, and then take those of row t, which all gave in the turn before, and write this row. So the exchange
// takes place while a row is written and the next one is measured. A block has one barrier in each turn. In a cluster, a warp
// waits for the sums only. It may send those of row t + 1 before another warp has taken those of row t - 2, so there is memory
// for four rows.
template <typename T, int VECTOR, int PACKS, int GROUP, typename Op>
__global__ void __launch_bounds__(kTurnThreads, 1)
    rows_in_turn(Matrices<T, Op::inputs, Op::outputs> matrices, typename Op::Arguments arguments,
                 ColumnSums<VectorOf<T, Op::kMixed>> sums, unsigned rows, int columns, int slice, int width) {
  using S = Shape<T, VECTOR, PACKS, GROUP, false, true>;
  using Row = typename Op::template Row<S>;
  using Total = Sums<Row::row_sums>;
  constexpr int exchanges = S::cluster ? 4 : 2;
  constexpr int most_warps = kTurnThreads / KBENCH_WARP_SIZE * (S::cluster ? kMaxCluster : 1);
  constexpr int access_bytes = KBENCH_WARP_SIZE * 16, warp_bytes = Op::inputs * PACKS * access_bytes;
  extern __shared__ uint4 ring[];  // [slot][warp][input][access][lane]
  __shared__ Total totals[exchanges][most_warps];
  __shared__ std::uint64_t barriers[exchanges];
  int blocks = 1;
#if KBENCH_CLUSTERS
  if constexpr (S::cluster) {
    ClusterExchange::announce(barriers, exchanges);
    blocks = __clusterSizeInBlocks();
  }
#else
  if constexpr (S::cluster || kLargeOnly<T, PACKS>) return;  // the host does not launch it here
#endif
  const int lane = threadIdx.x % KBENCH_WARP_SIZE, warp = threadIdx.x / KBENCH_WARP_SIZE;
  const int warps = width / KBENCH_WARP_SIZE;  // of a row in this block
  const unsigned together = blockDim.x / width, which = threadIdx.x / width;
  const unsigned start = unsigned(block_row<S::cluster>()), step = gridDim.x / blocks;
  const int turns = int(ceil_div(ceil_div(rows, together) - start, step));
  Part<S> part(nullptr, columns, block_rank<S::cluster>(), slice);
  part.first -= which * (width * PACKS);  // the threads of each of several rows begin at column 0

  const unsigned first_row = start * together + which, rows_apart = step * together;
  const unsigned first_slot = shared_address(ring) + warp * warp_bytes + lane * 16;
  const unsigned slot_bytes = blockDim.x / KBENCH_WARP_SIZE * warp_bytes;
  const T* from[Op::inputs];
  T* to[Op::outputs];
#pragma unroll
  for (int i = 0; i < Op::inputs; ++i) from[i] = matrices.in[i] + first_row * matrices.in_stride[i] + part.column();
#pragma unroll
  for (int o = 0; o < Op::outputs; ++o) to[o] = matrices.out[o] + first_row * matrices.out_stride[o] + part.column();

  const auto fetch = [&](unsigned slot, unsigned number) {  // each thread copies what it will read
#pragma unroll
    for (int i = 0; i < Op::inputs; ++i) {
#pragma unroll
      for (int p = 0; p < PACKS; ++p) {
        copy_ahead(slot + (i * PACKS + p) * access_bytes, from[i] + part.offset(p), number < rows && part.has(p));
      }
      from[i] += rows_apart * matrices.in_stride[i];
    }
    commit_copies();
  };
  const auto arrived = [&](unsigned slot, int p, float (&read)[Op::inputs][VECTOR]) {
#pragma unroll
    for (int i = 0; i < Op::inputs; ++i) {
      Pack<T, VECTOR> pack;
      const uint4 word = load_shared(slot + (i * PACKS + p) * access_bytes);
      memcpy(pack.values, &word, sizeof word);
      to_floats(pack, read[i]);
    }
  };
#pragma unroll
  for (int i = 0; i < kSlots<PACKS>; ++i) fetch(first_slot + i * slot_bytes, first_row + i * rows_apart);
  // The next launch may start when all blocks have come here, so it keeps none of them from the device.
  let_next_kernel_start();

  Row row;
  row.begin(arguments, part);
  const auto look_up = [&](unsigned number) { return load_statistics(arguments.statistics, number, number < rows); };
  float column_totals[PACKS][Row::sums][VECTOR] = {};
  RowStatistics of_measured = {}, ahead = look_up(first_row);
#if KBENCH_CLUSTERS
  if constexpr (S::cluster) ClusterExchange::await_all();
#endif
  const unsigned last_slot = first_slot + (kSlots<PACKS> - 1) * slot_bytes;
  unsigned before = last_slot, slot = first_slot;  // of rows t and t + 1
  unsigned number = first_row - rows_apart;        // of row t
  for (int t = -1; t < turns; ++t, number += rows_apart) {
    if (!S::cluster && t >= 0) __syncthreads();
    const RowStatistics of_written = of_measured;
    of_measured = ahead;
    ahead = look_up(number + 2 * rows_apart);
    await_copies<kFlying<PACKS>>();
    Total next = Total::none();
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
      float read[Op::inputs][VECTOR];
      arrived(slot, p, read);
      row.measure(InPack{p}, part, read, of_measured, next.values);
      row.add(read, of_measured, column_totals[p]);
    }
    const Total of_warp = sum_over_warp(next);
    Total* given = totals[unsigned(t + 1) % exchanges];
    if constexpr (S::cluster) {
#if KBENCH_CLUSTERS
      std::uint64_t* barrier = barriers + unsigned(t + 1) % exchanges;
      if (t + 1 < turns) {
        if (threadIdx.x == 0) ClusterExchange::expect(barrier, warps * blocks * int(sizeof of_warp));
        if (lane < blocks) {
          ClusterExchange::send(of_warp, given + __clusterRelativeBlockRank() * warps + warp, barrier, lane);
        }
      }
#endif
    } else {
      if (lane == 0) given[warp] = of_warp;
    }
    const unsigned written_slot = before;
    before = slot;
    slot = slot == last_slot ? first_slot : slot + slot_bytes;
    if (t < 0) continue;

#if KBENCH_CLUSTERS
    if constexpr (S::cluster) ClusterExchange::await_bytes(barriers + unsigned(t) % exchanges, unsigned(t) / exchanges & 1);
#endif
    const Total* taken = totals[unsigned(t) % exchanges] + which * warps;
    Total mine = Total::none();
    if constexpr (S::cluster) {
#pragma unroll 1
      for (int i = lane; i < warps * blocks; i += KBENCH_WARP_SIZE) mine.add(taken[i]);
    } else {
      if (lane < warps) mine = taken[lane];
    }
    row.conclude(sum_over_warp(mine), of_written, reciprocal(columns));
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
      float read[Op::inputs][VECTOR], written[Op::outputs][VECTOR];
      arrived(written_slot, p, read);
      row.write(InPack{p}, part, read, written);
#pragma unroll
      for (int o = 0; o < Op::outputs; ++o) {
        Pack<T, VECTOR> result;
#pragma unroll
        for (int v = 0; v < VECTOR; ++v) result.values[v] = from_float<T>(written[o][v]);
        uint4 word;
        memcpy(&word, result.values, sizeof word);
        store_if(number < rows && part.has(p), to[o] + part.offset(p), word);
      }
    }
#pragma unroll
    for (int o = 0; o < Op::outputs; ++o) to[o] += rows_apart * matrices.out_stride[o];
    fetch(written_slot, number + kSlots<PACKS> * rows_apart);
  }
  await_copies<0>();
  join_column_sums<S, Row::sums>(column_totals, sums, reinterpret_cast<float*>(ring), part, columns, width, start);
}

}  // namespace kbench

// Persistent blocks: each computes many rows in turn, and adds up sums over them on the way. While it writes a row, the sums
// of the next ones are exchanged, and rows after these are copied to shared memory.
#pragma once

#include "rows/columns.cuh"
#include "rows/gradients/join.cuh"
#include "spread.cuh"

namespace kbench {

// How many rows ahead of the one that is written a row is first read: for its sums, or before that for its mean.
template <bool CENTRED>
constexpr int kLead = CENTRED ? 2 : 1;
// The rows that are on their way at a time, and with them the rows in shared memory.
constexpr int kFlying = 2;
template <bool CENTRED>
constexpr int kSlots = kLead<CENTRED> + 1 + kFlying;

// The most threads of a block. They limit the registers of a thread.
template <typename T, int PACKS>
constexpr int kTurnThreads = PACKS == 1 ? 1024 : PACKS == 4 && sizeof(T) == 2 ? 256 : 512;

// The operator is that of registers.cuh. Its kMixed says whether the vectors and their gradients are in fp32 beside rows in
// 16 bits. Its Row has more members:
//   one_by_one          whether one_by_one.cuh computes its rows instead
//   centred             whether the sums of a row need its mean
//   row_sums            how many sums of a row it needs
//   measure(place, part, in, mean, sums)    adds what an access contributes to them
//   conclude(sums, mean, columns)           with the sums of the row
//   sums                the number of sums per column
//   add(in, totals)     adds what an access of this row contributes to them
// Each thread has the same columns in all rows; their sums and the operator's vectors stay in its registers.
//
// A block or cluster takes every n-th row, or several rows at a time with `width` threads for each. In each turn it takes
// the sums of row t and the mean of row t + 1, which all warps gave in the turn before; gives the sums of row t + 1 and the
// mean of row t + 2; and writes row t. So a turn has one barrier, and the exchange takes place while a row is written.
template <typename T, int VECTOR, int PACKS, int GROUP, typename Op>
__global__ void __launch_bounds__(kTurnThreads<T, PACKS>, 1)
    rows_in_turn(Matrices<T, Op::inputs, Op::outputs> matrices, typename Op::Arguments arguments,
                 ColumnSums<VectorOf<T, Op::kMixed>> sums, std::int64_t rows, int columns, int slice, int width) {
  using S = Shape<T, VECTOR, PACKS, GROUP, false, true>;
  using Row = typename Op::template Row<S>;
  constexpr int lead = kLead<Row::centred>, slots = kSlots<Row::centred>;
  constexpr int given = Row::row_sums + (Row::centred ? 1 : 0);
  constexpr int most_warps = kTurnThreads<T, PACKS> / KBENCH_WARP_SIZE * (S::cluster ? kMaxCluster : 1);
  extern __shared__ uint4 ring[];  // [slot][input][access][thread]
  __shared__ SumsOfWarp<given> totals[2][most_warps];
  __shared__ std::uint64_t barriers[2];
  int blocks = 1;
#if KBENCH_CLUSTERS
  if constexpr (S::cluster) {
    ClusterExchange::announce(barriers, 2);
    blocks = __clusterSizeInBlocks();
  }
#else
  if constexpr (S::cluster) return;
#endif
  const int lane = threadIdx.x % KBENCH_WARP_SIZE, warp = threadIdx.x / KBENCH_WARP_SIZE;
  const int warps = width / KBENCH_WARP_SIZE;  // of a row in this block
  const int together = blockDim.x / width, which = threadIdx.x / width;
  const std::int64_t start = block_row<S::cluster>(), step = gridDim.x / blocks;
  const std::int64_t turns = ceil_div(ceil_div(rows, together) - start, step);
  Part<S> part(nullptr, columns, block_rank<S::cluster>(), slice);
  part.first -= which * (width * PACKS);  // the threads of each of several rows begin at column 0
  const auto slot = [&](int number, int i, int p) {
    return ring + ((number * Op::inputs + i) * PACKS + p) * blockDim.x + threadIdx.x;
  };
  const auto row_of = [&](std::int64_t turn) { return (start + turn * step) * together + which; };
  const auto fetch = [&](int to, std::int64_t number) {
#pragma unroll
    for (int i = 0; i < Op::inputs; ++i) {
      const T* first = matrices.in[i] + number * matrices.in_stride[i] + part.column();
#pragma unroll
      for (int p = 0; p < PACKS; ++p) {
        const bool inside = number < rows && part.has(p);
        copy_ahead(slot(to, i, p), inside ? first + part.offset(p) : matrices.in[i], inside);
      }
    }
    commit_copies();
  };
  const auto arrived = [&](int at, int i, int p, float (&elements)[VECTOR]) {
    Pack<T, VECTOR> pack;
    const uint4 word = *slot(at, i, p);
    memcpy(pack.values, &word, sizeof word);
    to_floats(pack, elements);
  };
#pragma unroll
  for (int number = 0; number < slots; ++number) fetch(number, row_of(number));
  // The next launch may start when all blocks have come here, so it keeps none of them from the device.
  let_next_kernel_start();

  Row row;
  row.begin(arguments, part);
  float column_totals[PACKS][Row::sums][VECTOR] = {};
  float mean = 0.0f, next_mean = 0.0f;
#if KBENCH_CLUSTERS
  if constexpr (S::cluster) ClusterExchange::await_all();
#endif
  int last = 0;  // the slot of row t + lead
  unsigned turn = 0;
  for (std::int64_t t = -lead; t < turns; ++t, ++turn) {
    const auto before = [&](int distance) { return last >= distance ? last - distance : last - distance + slots; };
    if (t > 0) fetch(before(lead + 1), row_of(t - 1 + slots));
    await_copies<kFlying>();

    if (t > -lead) {
      const unsigned taken = turn - 1;
      if constexpr (S::cluster) {
#if KBENCH_CLUSTERS
        ClusterExchange::await_bytes(barriers + (taken & 1), taken >> 1 & 1);
#endif
      } else {
        __syncthreads();
      }
      const auto* from = reinterpret_cast<const float*>(totals[taken & 1] + which * warps);
      float sum = 0.0f;
#pragma unroll 1
      for (int i = lane; i < warps * blocks * given; i += KBENCH_WARP_SIZE) sum += from[i];
#pragma unroll
      for (int mask = given; mask < KBENCH_WARP_SIZE; mask *= 2) sum += KBENCH_SHUFFLE_XOR(sum, mask);
      const SumsOfWarp<given> all = gather<given>(sum);
      mean = next_mean;
      if constexpr (Row::centred) next_mean = all.values[Row::row_sums] / columns;
      row.conclude(all.values, mean, columns);
    }

    if (t + 1 < turns) {
      float next[given] = {};
#pragma unroll
      for (int p = 0; p < PACKS; ++p) {
        if constexpr (Row::centred) {
          float elements[VECTOR];
          arrived(last, Op::inputs - 1, p, elements);
#pragma unroll
          for (int v = 0; v < VECTOR; ++v) next[Row::row_sums] += elements[v];
        }
        if (part.has(p) && t > -2) {
          float read[Op::inputs][VECTOR];
#pragma unroll
          for (int i = 0; i < Op::inputs; ++i) arrived(before(lead - 1), i, p, read[i]);
          row.measure(InPack{p}, part, read, next_mean, next);
        }
      }
      const float sum = spread_sums(next);
      if constexpr (S::cluster) {
#if KBENCH_CLUSTERS
        const SumsOfWarp<given> all = gather<given>(sum);
        std::uint64_t* barrier = barriers + (turn & 1);
        if (threadIdx.x == 0) ClusterExchange::expect(barrier, warps * blocks * int(sizeof all));
        if (lane < blocks) {
          ClusterExchange::send(all, totals[turn & 1] + __clusterRelativeBlockRank() * warps + warp, barrier, lane);
        }
#endif
      } else {
        if (lane < given) totals[turn & 1][warp].values[lane] = sum;
      }
    }

    if (t >= 0) {
      const std::int64_t number = row_of(t);
#pragma unroll
      for (int p = 0; p < PACKS; ++p) {
        if (number < rows && part.has(p)) {
          float read[Op::inputs][VECTOR], written[Op::outputs][VECTOR];
#pragma unroll
          for (int i = 0; i < Op::inputs; ++i) arrived(before(lead), i, p, read[i]);
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
    last = last + 1 == slots ? 0 : last + 1;
  }
  await_copies<0>();
  join_column_sums<S, Row::sums>(column_totals, sums, reinterpret_cast<float*>(ring), part, columns, width, start);
}

}  // namespace kbench

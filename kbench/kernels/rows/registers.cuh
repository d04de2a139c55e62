// The kernel of row operators: rows that are read once and stay in the registers of a part of a warp, of a block, or of
// several blocks. It loads the elements, lets the operator reduce them, shares the totals, and stores what the operator
// computes with the total of the row.
//
// An operator is a struct Op:
//   inputs, outputs    how many matrices it reads and writes
//   kPadding           what an element beyond the end of a row counts as
//   Arguments          what else it needs, in the memory of the host
//   Row<Shape>         what a thread computes of a row, in this order:
//     Total            see exchange.cuh; for teams also `word` and `of_word`, see team.cuh
//     threads, blocks  limits of registers, see Bounds
//     kept             the first accesses whose values `reduce` keeps in the Row: `write` needs no elements for them
//     begin(arguments, part)               before the elements arrive
//     prepare(p, part)                     if it exists: before the access p - 1 is written; for 0, before the totals are
//                                          exchanged
//     Total reduce(packs, edges, part)     the total of the elements that a warp or a group of threads holds
//     finish(total, columns, number)       with the total of the row, and the row's number
//     write(place, in, out)                COUNT elements of each input in, and of each output, in fp32. `place` is
//                                          InPack{p} or InEdge{e}: the accesses and the elements outside them
//     at_once          if it exists: whether all values are computed before the first is stored, with no branches between the
//                      stores. For fp32. Faster if a row has a warp and little else runs; slower in blocks and clusters
//     zero()                               0, in a way that the compiler cannot know; any number if the row is NaN
#pragma once

#include "exchange.cuh"
#include "part.cuh"
#include "team.cuh"

#include <type_traits>

namespace kbench {

// What an operator reads and writes. Strides count elements.
template <typename T, int INPUTS, int OUTPUTS>
struct Matrices {
  const T* in[INPUTS];
  T* out[OUTPUTS];
  std::int64_t in_stride[INPUTS], out_stride[OUTPUTS];
};

struct InPack {
  int p;
};
struct InEdge {
  int e;
};

template <typename T, int VECTOR, int PACKS, int GROUP, bool EDGES, bool KEEP, typename Op>
using RowOf = typename Op::template Row<Shape<T, VECTOR, PACKS, GROUP, EDGES, KEEP>>;

template <typename Row, typename Part>
__device__ __forceinline__ auto prepare(Row& row, int p, const Part& part, int) -> decltype(row.prepare(p, part)) {
  row.prepare(p, part);
}
template <typename Row, typename Part>
__device__ __forceinline__ void prepare(Row&, int, const Part&, long) {}

template <typename Row>
__host__ __device__ constexpr auto at_once(int) -> decltype(Row::at_once) {
  return Row::at_once;
}
template <typename Row>
__host__ __device__ constexpr bool at_once(long) {
  return false;
}

template <typename T, int VECTOR, int PACKS, int GROUP, bool EDGES, bool KEEP, typename Op>
__global__ void __launch_bounds__(RowOf<T, VECTOR, PACKS, GROUP, EDGES, KEEP, Op>::threads,
                                  RowOf<T, VECTOR, PACKS, GROUP, EDGES, KEEP, Op>::blocks)
    rows_in_registers(Matrices<T, Op::inputs, Op::outputs> matrices, typename Op::Arguments arguments,
                      std::int64_t rows, int columns, int slice, CacheHint hint, Team together) {
  using S = Shape<T, VECTOR, PACKS, GROUP, EDGES, KEEP>;
  using Row = RowOf<T, VECTOR, PACKS, GROUP, EDGES, KEEP, Op>;
  using Total = typename Row::Total;
  constexpr int max_threads = Row::threads;
  __shared__ std::uint64_t barrier;  // of the block, for its cluster
#if KBENCH_CLUSTERS
  if constexpr (S::cluster && kExchanged<Total>) ClusterExchange::announce(&barrier);
#else
  if constexpr (S::cluster) return;  // the host does not launch it here
#endif
#ifdef __HIP_PLATFORM_AMD__
  if constexpr (S::team) return;  // nor this
#endif
  const std::int64_t number = S::group  ? std::int64_t(blockIdx.x) * (max_threads / GROUP) + threadIdx.x / GROUP
                              : S::team ? blockIdx.y
                                        : block_row<S::cluster>();
  const int rank = S::team ? blockIdx.x : block_rank<S::cluster>();
  const T* in[Op::inputs];
#pragma unroll
  for (int i = 0; i < Op::inputs; ++i) in[i] = matrices.in[i] + number * matrices.in_stride[i];
  Part<S> part(in[0], !S::group || number < rows ? columns : 0, rank, slice);

  Pack<T, VECTOR> packs[Op::inputs][PACKS];
  float edges[Op::inputs][S::thread_edges + 1];
#pragma unroll
  for (int i = 0; i < Op::inputs; ++i) {
    const T* first = in[i] + part.column();
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
      packs[i][p].load_if(part.has(p), first + part.offset(p), Op::kPadding, hint.input);
    }
  }
#pragma unroll
  for (int i = 0; i < Op::inputs; ++i) {
#pragma unroll
    for (int e = 0; e < S::thread_edges; ++e) {
      edges[i][e] = part.has_edge(e) ? to_float(load_constant(in[i] + part.edge[e])) : Op::kPadding;
    }
  }

  unsigned mark = 0;  // of the block's own word before this launch
#ifndef __HIP_PLATFORM_AMD__
  if constexpr (S::team) {
    const TeamWord before = TeamWord::load_if(threadIdx.x < KBENCH_WARP_SIZE, together.own_word(), {0});
    mark = before.mark();
    // If the elements did not need it, the assembler would load this word after they have arrived. That takes as long again.
    // One warp loads it: many blocks have their words in the same cache line, which serves one warp after another.
    packs[0][0] = packs[0][0].flipped(before.zero());
  }
#endif

  Row row;
  row.begin(arguments, part);
  Total total = row.reduce(packs, edges, part);
  prepare(row, 0, part, 0);
  if constexpr (!S::group && kExchanged<Total>) {
    __shared__ Total totals[max_threads / KBENCH_WARP_SIZE * (S::cluster ? kMaxCluster : 1)];
    if constexpr (S::team) {
#ifndef __HIP_PLATFORM_AMD__
      total = exchange_team<max_threads>(total, totals, together, mark);
#endif
    } else {
      total = exchange<S::cluster, max_threads>(total, totals, &barrier);
    }
  }
  if constexpr (S::wide && S::cluster) part.repeat(columns, block_rank<true>(), slice);
  row.finish(total, columns, number);

  // A zero that the compiler does not know to be one. Otherwise the compiler would see that elements are converted to
  // fp32 a second time, and keep the first results, in twice the registers.
  const unsigned zero = row.zero();
  const bool streaming = EDGES ? sizeof(T) == 2 : PACKS <= 8 && hint.stream_output;
  KBENCH_OPAQUE(part.first);  // otherwise the addresses of the loads would stay in registers for the stores
  T *out[Op::outputs], *first_out[Op::outputs];
#pragma unroll
  for (int o = 0; o < Op::outputs; ++o) {
    out[o] = matrices.out[o] + number * matrices.out_stride[o];
    first_out[o] = out[o] + part.column();
  }
  if constexpr (at_once<Row>(0)) {
    static_assert(sizeof(T) == 4, "16-bit elements would be kept in fp32, in twice the registers");
    Pack<T, VECTOR> results[PACKS][Op::outputs];
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
      if (p + 1 < PACKS) prepare(row, p + 1, part, 0);
      float read[Op::inputs][VECTOR], written[Op::outputs][VECTOR];
#pragma unroll
      for (int i = 0; i < Op::inputs; ++i) to_floats(packs[i][p], read[i]);
      row.write(InPack{p}, part, read, written);
#pragma unroll
      for (int o = 0; o < Op::outputs; ++o) {
#pragma unroll
        for (int v = 0; v < VECTOR; ++v) results[p][o].values[v] = from_float<T>(written[o][v]);
      }
    }
    const auto store = [&](auto stream) {
#pragma unroll
      for (int p = 0; p < PACKS; ++p) {
#pragma unroll
        for (int o = 0; o < Op::outputs; ++o) {
          results[p][o].template store_if<decltype(stream)::value>(part.has(p), first_out[o] + part.offset(p));
        }
      }
    };
    if (streaming) {
      store(std::true_type());
    } else {
      store(std::false_type());
    }
  }
#pragma unroll
  for (int p = 0; p < (at_once<Row>(0) ? 0 : PACKS); ++p) {
    if (p + 1 < PACKS) prepare(row, p + 1, part, 0);
    if (part.has(p)) {
      float read[Op::inputs][VECTOR], written[Op::outputs][VECTOR];
#pragma unroll
      for (int i = 0; i < Op::inputs; ++i) {
        to_floats(p < Row::kept || sizeof(T) == 4 ? packs[i][p] : packs[i][p].flipped(zero), read[i]);
      }
      row.write(InPack{p}, part, read, written);
#pragma unroll
      for (int o = 0; o < Op::outputs; ++o) {
        Pack<T, VECTOR> result;
#pragma unroll
        for (int v = 0; v < VECTOR; ++v) result.values[v] = from_float<T>(written[o][v]);
        result.store(first_out[o] + part.offset(p), streaming);
      }
    }
  }
#pragma unroll
  for (int e = 0; e < S::thread_edges; ++e) {
    if (part.has_edge(e)) {
      float read[Op::inputs][1], written[Op::outputs][1];
#pragma unroll
      for (int i = 0; i < Op::inputs; ++i) read[i][0] = edges[i][e];
      row.write(InEdge{e}, part, read, written);
#pragma unroll
      for (int o = 0; o < Op::outputs; ++o) out[o][part.edge[e]] = from_float<T>(written[o][0]);
    }
  }
}

// A call of an operator with elements of type T, as its launches need it.
template <typename T, typename Op>
struct RowsCall {
  Matrices<T, Op::inputs, Op::outputs> matrices;
  typename Op::Arguments arguments;
  std::int64_t rows, columns;
  CacheHint hint;
  cudaStream_t stream;
};

// Launches with GROUP threads of a warp per row. cudaErrorInvalidConfiguration if a row does not fit.
template <int VECTOR, int PACKS, int GROUP, bool EDGES, bool KEEP, typename T, typename Op>
cudaError_t launch_groups(const RowsCall<T, Op>& call) {
  constexpr int threads = RowOf<T, VECTOR, PACKS, GROUP, EDGES, KEEP, Op>::threads;
  if (call.columns > GROUP * PACKS * VECTOR) return cudaErrorInvalidConfiguration;
  return launch(rows_in_registers<T, VECTOR, PACKS, GROUP, EDGES, KEEP, Op>, ceil_div(call.rows, threads / GROUP),
                threads, call.stream, call.matrices, call.arguments, call.rows, int(call.columns), 0, call.hint,
                Team{});
}

// Launches with `blocks` blocks per row, as large as their slices need. cudaErrorInvalidConfiguration if a row does not
// fit. CLUSTERS: whether the kernel for more than one block is compiled.
template <int VECTOR, int PACKS, bool EDGES, bool KEEP, bool CLUSTERS = true, typename T, typename Op>
cudaError_t launch_blocks(const RowsCall<T, Op>& call, int blocks) {
  const std::int64_t packs = ceil_div(call.columns, VECTOR);
  const std::int64_t slice = blocks == 1 ? packs : ceil_div(packs, 8 * blocks) * 8;  // in steps of 128 bytes
  const std::int64_t threads = KBENCH_WARP_SIZE * ceil_div(slice, KBENCH_WARP_SIZE * PACKS);
  if (threads > RowOf<T, VECTOR, PACKS, kBlockRow, EDGES, KEEP, Op>::threads || blocks > largest_cluster()) {
    return cudaErrorInvalidConfiguration;
  }
  if (blocks == 1) {
    return launch(rows_in_registers<T, VECTOR, PACKS, kBlockRow, EDGES, KEEP, Op>, call.rows, int(threads), call.stream,
                  call.matrices, call.arguments, call.rows, int(call.columns), 0, call.hint, Team{});
  }
  if constexpr (CLUSTERS) {
    return launch_clusters(rows_in_registers<T, VECTOR, PACKS, kClusterRow, EDGES, KEEP, Op>, call.rows, blocks,
                           int(threads), call.stream, call.matrices, call.arguments, call.rows, int(call.columns),
                           int(slice), call.hint, Team{});
  }
  return cudaErrorInvalidConfiguration;
}

// Launches with a team of `blocks` blocks per row. cudaErrorInvalidConfiguration if a row does not fit.
template <int VECTOR, int PACKS, bool EDGES, typename T, typename Op>
cudaError_t launch_team(const RowsCall<T, Op>& call, std::uint64_t* words, int blocks) {
  const std::int64_t slice = ceil_div(ceil_div(call.columns, VECTOR), 8 * blocks) * 8;  // in steps of 128 bytes
  const std::int64_t threads = KBENCH_WARP_SIZE * ceil_div(slice, KBENCH_WARP_SIZE * PACKS);
  const std::int64_t all = call.rows * blocks;
  if (threads > RowOf<T, VECTOR, PACKS, kTeamRow, EDGES, true, Op>::threads || all > kTeamBlocks) {
    return cudaErrorInvalidConfiguration;
  }
  return launch_together(rows_in_registers<T, VECTOR, PACKS, kTeamRow, EDGES, true, Op>, int(call.rows), blocks,
                         int(threads), call.stream, call.matrices, call.arguments, call.rows, int(call.columns),
                         int(slice), call.hint, Team::of(words, int(all)));
}

}  // namespace kbench

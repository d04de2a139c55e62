// The kernels of row operators. The first is for rows that are read once and stay in the registers of a part of a warp, of a
// block, or of a cluster of blocks. It loads the elements, lets the operator reduce them, shares the totals, and stores what
// the operator computes with the total of the row.
//
// An operator is a struct Op:
//   inputs, outputs    how many matrices it reads and writes
//   kPadding           what an element beyond the end of a row counts as
//   Arguments          what else it needs, in the memory of the host
//   Row<Shape>         what a thread computes of a row, in this order. Bounds has a default of those with a star
//     Total            see exchange.cuh
//     threads, blocks  limits of registers*
//     kept             the first accesses whose values `reduce` keeps in the Row: `write` needs no elements for them
//     begin(arguments, part)*              before the elements arrive
//     prepare(p, part)*                    before the access p - 1 is written; for 0, before the totals are exchanged
//     Total reduce(packs, edges, part)     the total of the elements that a warp or a group of threads holds
//     finish(total, columns, number)       with the total of the row, and the row's number
//     write(place, in, out)                COUNT elements of each input in, and of each output, in fp32. `place` is
//                                          InPack{p} or InEdge{e}: the accesses and the elements outside them
//     zero()                               0, in a way that the compiler cannot know; any number if the row is NaN
#pragma once

#include "part.cuh"

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

template <typename T, int VECTOR, int PACKS, int GROUP, bool EDGES, bool KEEP, typename Op>
__global__ void __launch_bounds__(RowOf<T, VECTOR, PACKS, GROUP, EDGES, KEEP, Op>::threads,
                                  RowOf<T, VECTOR, PACKS, GROUP, EDGES, KEEP, Op>::blocks)
    rows_in_registers(Matrices<T, Op::inputs, Op::outputs> matrices, typename Op::Arguments arguments,
                      std::int64_t rows, int columns, int slice, CacheHint hint) {
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
  const std::int64_t number = S::group ? std::int64_t(blockIdx.x) * (max_threads / GROUP) + threadIdx.x / GROUP
                                       : block_row<S::cluster>();
  const T* in[Op::inputs];
#pragma unroll
  for (int i = 0; i < Op::inputs; ++i) in[i] = matrices.in[i] + number * matrices.in_stride[i];
  Part<S> part(in[0], !S::group || number < rows ? columns : 0, block_rank<S::cluster>(), slice);

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
      edges[i][e] = part.has_edge(e) ? to_float(__ldg(in[i] + part.edge[e])) : Op::kPadding;
    }
  }

  Row row;
  row.begin(arguments, part);
  Total total = row.reduce(packs, edges, part);
  row.prepare(0, part);
  if constexpr (!S::group && kExchanged<Total>) {
    __shared__ Total totals[max_threads / kWarpSize * (S::cluster ? kMaxCluster : 1)];
    total = exchange<S::cluster, max_threads>(total, totals, &barrier);
  }
  row.finish(total, columns, number);

  // A zero that the compiler does not know to be one. Otherwise the compiler would see that elements are converted to
  // fp32 a second time, and keep the first results, in twice the registers.
  const unsigned zero = row.zero();
  const bool streaming = EDGES ? sizeof(T) == 2 : PACKS <= 8 && hint.stream_output;
  hide(part.first);  // otherwise the addresses of the loads would stay in registers for the stores
  T *out[Op::outputs], *first_out[Op::outputs];
#pragma unroll
  for (int o = 0; o < Op::outputs; ++o) {
    out[o] = matrices.out[o] + number * matrices.out_stride[o];
    first_out[o] = out[o] + part.column();
  }
#pragma unroll
  for (int p = 0; p < PACKS; ++p) {
    if (p + 1 < PACKS) row.prepare(p + 1, part);
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

// For rows that do not fit on the chip. A block per row reads it once for the total, and once to write. The second pass runs
// backwards, because the elements that the first pass read last are still in the L2 cache. The operator is that of
// registers.cuh. It reduces the row in tiles, each as large as the registers of the block.
template <typename T, int VECTOR, int PACKS, typename Op>
__global__ void __launch_bounds__(kMaxThreads)
    rows_read_twice(Matrices<T, Op::inputs, Op::outputs> matrices, typename Op::Arguments arguments, int columns) {
  using S = Shape<T, VECTOR, PACKS, kBlockRow, false, false>;
  using Row = typename Op::template Row<S>;
  using Total = typename Row::Total;
  const std::int64_t number = blockIdx.x;
  const T* in[Op::inputs];
#pragma unroll
  for (int i = 0; i < Op::inputs; ++i) in[i] = matrices.in[i] + number * matrices.in_stride[i];
  Part<S> part(in[0], columns, 0, 0);
  const int start = part.first;
  const int tile = blockDim.x * PACKS;
  const int tiles = int(ceil_div(part.end, tile));
  const float no_edges[Op::inputs][1] = {};

  Row row;
  Pack<T, VECTOR> packs[Op::inputs][PACKS];
  const auto reduce = [&](int t) {
    part.first = start + t * tile;
#pragma unroll
    for (int i = 0; i < Op::inputs; ++i) {
      const T* first = in[i] + part.column();
#pragma unroll
      for (int p = 0; p < PACKS; ++p) packs[i][p].load_if(part.has(p), first + part.offset(p), Op::kPadding);
    }
    row.begin(arguments, part);
    return row.reduce(packs, no_edges, part);
  };

  Total total;
  if constexpr (kExchanged<Total>) {
    __shared__ Total totals[kMaxWarps];
    total = Total::none();
    for (int t = 0; t < tiles; ++t) total.add(reduce(t));
    total = exchange<false, kMaxThreads>(total, totals);
  }
  for (int t = tiles - 1; t >= 0; --t) {
    reduce(t);
    row.finish(total, columns, number);
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
      row.prepare(p, part);
      if (part.has(p)) {
        float read[Op::inputs][VECTOR], written[Op::outputs][VECTOR];
#pragma unroll
        for (int i = 0; i < Op::inputs; ++i) to_floats(packs[i][p], read[i]);
        row.write(InPack{p}, part, read, written);
#pragma unroll
        for (int o = 0; o < Op::outputs; ++o) {
          Pack<T, VECTOR> result;
#pragma unroll
          for (int v = 0; v < VECTOR; ++v) result.values[v] = from_float<T>(written[o][v]);
          T* out = matrices.out[o] + number * matrices.out_stride[o];
          result.store(out + part.column() + part.offset(p), true);
        }
      }
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

}  // namespace kbench

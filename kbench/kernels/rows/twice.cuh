// Rows that do not fit on the chip: they are read twice, or once if their totals are known.
#pragma once

#include "registers.cuh"

namespace kbench {

// A block per row. It reads the row once for the total, and once to write. The second pass runs backwards, because the
// elements that the first pass read last are still in the L2 cache. The operator is that of registers.cuh. It reduces
// the row in tiles, each as large as the registers of the block.
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
      prepare(row, p, part, 0);
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

}  // namespace kbench

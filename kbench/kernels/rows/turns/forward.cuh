// The forward pass of a norm: rows by persistent blocks, or as dispatch.cuh says.
#pragma once

#include "launch.cuh"
#include "rows/dispatch.cuh"

namespace kbench {

// `turns`: 1 for persistent blocks, 0 for others.
#define KBENCH_NORM_OPTIONS {"eps", "packs=0", "blocks=0", "group=0", "keep=-1", "turns=-1"}

// How persistent blocks share a row of this many bytes; 0 blocks if others are faster.
inline Sharing share_forward_in_turn(std::int64_t bytes, std::int64_t rows) {
  (void)bytes;
  (void)rows;
  return {0, 4, 0, true};
}

template <typename T, typename Op>
cudaError_t launch_norm(const Call& request, const RowsCall<T, Op>& call, std::initializer_list<const void*> vectors) {
  const std::int64_t turns = request.integer("turns");
  const auto& m = call.matrices;
  bool aligned = call.columns % kVector<T> == 0;
  for (const void* vector : vectors) aligned &= aligned16(vector);
  aligned &= aligned16(m.in[0]) && aligned16(m.out[0]);
  for (const std::int64_t stride : {m.in_stride[0], m.out_stride[0]}) aligned &= stride % kVector<T> == 0 || call.rows == 1;
  if (turns == 0 || !aligned) return launch_rows(request, call, vectors);
  const Sharing wanted = requested(request, Op::inputs);
  if (wanted.packs && turns < 0) return launch_rows(request, call, vectors);
  const Sharing sharing = turns > 0 ? wanted : share_forward_in_turn(call.columns * sizeof(T), call.rows);
  int used = 0;
  cudaError_t error = cudaErrorInvalidConfiguration;
  if (sharing.blocks > 0) {
    error = sharing.packs == 2 ? launch_in_turn<2>(call, sharing.blocks, 1, 1, {nullptr}, INT_MAX, used)
                               : launch_in_turn<4>(call, sharing.blocks, 1, 1, {nullptr}, INT_MAX, used);
  }
  if (error != cudaErrorInvalidConfiguration) return error;
  if (turns > 0) refuse(wanted, call.columns);
  return launch_rows(request, call, vectors);
}

}  // namespace kbench

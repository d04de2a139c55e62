// The backward pass of a norm: dx for each row, and sums over the rows for the gradients of the vectors.
#pragma once

#include "rows/dispatch.cuh"
#include "rows/turns/launch.cuh"

namespace kbench {

// How persistent blocks share a row of this many bytes (of one matrix); 0 blocks if it is too long for them.
inline Sharing share_in_turn(std::int64_t bytes) {
  const int largest = largest_cluster();
  if (bytes <= 512) return {0, 1, 1, true};
  if (bytes <= 16 * kKiB) return {0, 2, 1, true};
  if (bytes <= 32 * kKiB && largest >= 2) return {0, 2, 2, true};
  const int blocks = blocks_of_at_most(8 * kKiB, bytes);
  return {0, 2, blocks > 1 && bytes <= blocks * 16 * kKiB ? blocks : 0, true};
}

// `together`: rows that a persistent block computes at a time. `joined`: blocks that add up their sums; 0: 1, or one
// cluster for few rows.
#define KBENCH_BACKWARD_OPTIONS {"eps", "packs=0", "blocks=0", "group=0", "keep=-1", "together=0", "joined=0"}

// `statistics`: (rows, 2) in fp32. `partial`: (at least 1, sums, columns) in fp32.
//
// Persistent blocks compute all gradients at once. Rows that are misaligned or too long for them are read twice: once
// for dx, and once for the sums over the rows.
template <typename T, typename Op>
cudaError_t launch_backward(const Call& call, typename Op::Arguments arguments, const Tensor& dy, const Tensor& x,
                            const Tensor& dx, std::initializer_list<const Tensor*> vectors,
                            std::initializer_list<const Tensor*> gradients, const Tensor& statistics,
                            const Tensor& partial) {
  const std::int64_t rows = x.sizes[0], columns = x.sizes[1];
  const auto sums = std::int64_t(gradients.size());
  require(statistics.dtype == Dtype::float32 && statistics.contiguous() && statistics.has_sizes({rows, 2}),
          "statistics must be (M, 2) in float32");
  require(partial.dtype == Dtype::float32 && partial.contiguous() && partial.rank == 3 && partial.sizes[0] > 0 &&
              partial.has_sizes({partial.sizes[0], sums, columns}),
          "partial_sums must be (any, gradients, N) in float32");
  const int most = int(std::min<std::int64_t>(partial.sizes[0], INT_MAX));
  float* values = partial.data<float>();
  bool aligned = x.aligned_rows() && dy.aligned_rows() && dx.aligned_rows();
  for (const Tensor* vector : vectors) aligned &= aligned16(vector->address);
  for (const Tensor* gradient : gradients) aligned &= aligned16(gradient->address);

  using W = VectorOf<T, Op::kMixed>;
  W* first = (*gradients.begin())->template data<W>();
  W* second = sums == 2 ? (*(gradients.begin() + 1))->template data<W>() : nullptr;
  if (aligned) {
    const auto matrices_call = rows_call<T, Op>(call, arguments, {&dy, &x}, {&dx});
    const Sharing wanted = requested(call, Op::inputs);
    const Sharing sharing = wanted.packs ? wanted : share_in_turn(columns * sizeof(T));
    int used = 0;
    const auto launch = [&](auto packs, int together, int joined, int some) {
      return launch_in_turn<packs.value>(matrices_call, sharing.blocks, together, joined, {values, {first, second}}, some,
                                         used);
    };
    const auto launch_with = [&](int together, int joined, int some) {
      if (sharing.packs == 1) return launch(std::integral_constant<int, 1>(), together, joined, some);
      if (sharing.packs == 2) return launch(std::integral_constant<int, 2>(), together, joined, some);
      if constexpr (!Op::kMixed) {
        if (sharing.packs == 4) return launch(std::integral_constant<int, 4>(), together, joined, some);
      }
      return cudaErrorInvalidConfiguration;
    };
    const int together = int(call.integer("together")), joined = int(call.integer("joined"));
    cudaError_t error = cudaErrorInvalidConfiguration;
    const bool few = rows > 1 && rows * columns * std::int64_t(sizeof(T)) <= kMiB && largest_cluster() >= 8;
    if (few && sharing.blocks == 1 && joined == 0) {
      error = launch_with(kMostTogether, largest_cluster(), 1);  // one cluster, and no second launch
    }
    if (sharing.blocks > 0 && error == cudaErrorInvalidConfiguration) {
      error = launch_with(together, std::max(joined, 1), most);
    }
    if (error == cudaSuccess && used == 0) return error;
    if (error == cudaSuccess) return launch_add_partial_sums<W>({values, used}, first, second, columns, call.stream);
    if (error != cudaErrorInvalidConfiguration) return error;
    if (wanted.packs) refuse(wanted, columns, Op::kMixed);
  }
  arguments.statistics = statistics.data<RowStatistics>();
  const auto matrices_call = rows_call<T, Op>(call, arguments, {&dy, &x}, {&dx});
  const cudaError_t error = launch_rows(call, matrices_call, {(*vectors.begin())->address});
  if (error != cudaSuccess) return error;
  constexpr int count = Op::template Row<Shape<T, 1, 1, kBlockRow, false, false>>::sums;
  return launch_sum_rows<count>(matrices_call.matrices, aligned, arguments.statistics, values, most, first, second, rows,
                                columns, call.stream);
}

}  // namespace kbench

// The backward pass of a norm: dx for each row, and sums over the rows for the gradients of the vectors.
#pragma once

#include "rows/dispatch.cuh"
#include "rows/turns/launch.cuh"

namespace kbench {

// How persistent blocks share a row of this many bytes (of one matrix); 0 blocks if it is too long for them.
inline Sharing share_in_turn(std::int64_t bytes, std::int64_t rows) {
  if (bytes <= 512) return {0, 1, 1, true};
  int blocks = blocks_of_at_most(16 * kKiB, bytes);
  const auto more = [&](int count) {  // there are too few rows for all multiprocessors
    return count <= largest_cluster() && rows * count <= multiprocessors() && bytes >= count * 4 * kKiB;
  };
  while (blocks > 1 && more(2 * blocks)) blocks *= 2;
  if (bytes <= blocks * 16 * kKiB) return {0, 2, blocks, true};
  return {0, 4, bytes <= blocks * 32 * kKiB ? blocks : 0, true};
}

// What the operators need beside the matrices.
struct BackwardArguments {
  const void* weight;
  const RowStatistics* statistics;
};

// What their rows have in common: a Row derives from it, and has what rows_in_turn.cuh says. Rows that persistent blocks
// cannot hold are reduced as in registers.cuh.
template <typename S, bool MIXED, typename Row, int ROW_SUMS, int SUMS>
struct BackwardRow {
  static constexpr int threads = S::group ? 128 : 512, blocks = S::group ? 4 : 1;
  using Total = Sums<ROW_SUMS>;
  static constexpr int kept = 0, row_sums = ROW_SUMS, sums = SUMS;
  Columns<S, MIXED, kNeverAhead> weight;  // `reduce` needs it, too
  const RowStatistics* all;
  RowStatistics statistics;

  __device__ __forceinline__ void begin(const BackwardArguments& arguments, const Part<S>& part) {
    weight.begin(arguments.weight, part);
    all = arguments.statistics;
  }

  __device__ __forceinline__ void look_up(std::int64_t number, const Part<S>& part) {
    statistics = load_statistics(all, number, part.layout.columns > 0);
  }

  template <typename Packs, typename Edges>
  __device__ __forceinline__ Total reduce(const Packs& packs, const Edges& edges, const Part<S>& part) const {
    Total total = Total::none();
    for_each_place<S>(packs, edges, part, [&](auto at, const auto& in) {
      static_cast<const Row*>(this)->measure(at, part, in, statistics, total.values);
    });
    return total.template reduce<S::width>();
  }

  __device__ __forceinline__ void finish(Total total, int columns, std::int64_t) {
    static_cast<Row*>(this)->conclude(total, statistics, reciprocal(columns));
  }
};

// `together`: rows that a persistent block computes at a time. `joined`: blocks that add up their sums; 0: 1, or one
// cluster for few rows.
#define KBENCH_BACKWARD_OPTIONS {"packs=0", "blocks=0", "group=0", "keep=-1", "together=0", "joined=0"}

// `statistics`: (rows, 2) in fp32, the mean and rstd of each row. `partial`: (at least 1, sums, columns) in fp32.
//
// Persistent blocks compute all gradients at once. Rows that are misaligned or too long for them are read twice: once
// for dx, and once for the sums over the rows.
template <typename T, typename Op>
cudaError_t launch_backward(const Call& call, const Tensor& dy, const Tensor& x, const Tensor& weight,
                            const Tensor& statistics, const Tensor& dx, std::initializer_list<const Tensor*> gradients,
                            const Tensor& partial) {
  const std::int64_t rows = x.sizes[0], columns = x.sizes[1];
  constexpr int count = Op::template Row<Shape<T, 1, 1, kBlockRow, false, false>>::sums;
  require(partial.dtype == Dtype::float32 && partial.contiguous() && partial.rank == 3 && partial.sizes[0] > 0 &&
              partial.has_sizes({partial.sizes[0], count, columns}),
          "partial_sums must be (any, gradients, N) in float32");
  const int most = int(std::min<std::int64_t>(partial.sizes[0], INT_MAX));
  float* values = partial.data<float>();
  const typename Op::Arguments arguments = {weight.address, statistics_of(statistics, x)};
  const auto matrices_call = rows_call<T, Op>(call, arguments, {&dy, &x}, {&dx});
  bool aligned = x.aligned_rows() && dy.aligned_rows() && dx.aligned_rows() && aligned16(weight.address);
  for (const Tensor* gradient : gradients) aligned &= aligned16(gradient->address);

  using W = VectorOf<T, Op::kMixed>;
  W* first = (*gradients.begin())->template data<W>();
  W* second = count == 2 ? (*(gradients.begin() + 1))->template data<W>() : nullptr;
  if (aligned) {
    const Sharing wanted = requested(call, Op::inputs);
    const Sharing sharing = wanted.packs ? wanted : share_in_turn(columns * sizeof(T), rows);
    int used = 0;
    const auto launch = [&](auto packs, int together, int joined, int some) {
      return launch_in_turn<packs.value>(matrices_call, sharing.blocks, together, joined, {values, {first, second}}, some,
                                         used);
    };
    const auto launch_with = [&](int together, int joined, int some) {
      if (sharing.packs == 1) return launch(std::integral_constant<int, 1>(), together, joined, some);
      if (sharing.packs == 2) return launch(std::integral_constant<int, 2>(), together, joined, some);
      if constexpr (!Op::kMixed && (sizeof(T) == 4 || count == 1)) {  // else a thread has too few registers
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
    if (wanted.packs) refuse(wanted, columns, true);
  }
  const cudaError_t error = launch_rows(call, matrices_call, {weight.address});
  if (error != cudaSuccess) return error;
  return launch_sum_rows<count>(matrices_call.matrices, aligned, arguments.statistics, values, most, first, second, rows,
                                columns, call.stream);
}

}  // namespace kbench

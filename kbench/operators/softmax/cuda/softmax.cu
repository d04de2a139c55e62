// Row-wise softmax, forward and backward: a ladder of four steps (ladder.cuh), and the best kernel for each shape.
//
// All kernels accumulate in fp32 and treat special values as torch does: a row of -inf becomes NaN, and so does a row with
// a NaN or a +inf.
#include "ladder.cuh"
#include "rows/sharing.cuh"
#include "rows/softmax_row.cuh"

namespace kbench {

// The clusters of 16 blocks that an H200 holds at once with a multiprocessor for each block. With one cluster more, blocks
// share multiprocessors.
constexpr int kClusters = 7;

// All rows together do not fill the device. The more threads and blocks fetch a row, the sooner it arrives. A cluster of 16
// blocks starts later than one of 8. It pays if every block has a multiprocessor to itself, and if slices would otherwise be
// long, except for one row more than fit at once. Exponentials are kept: registers are free, and nothing would hide the time
// to compute them again. Registers are not free if clusters of 16-bit rows share multiprocessors.
inline Sharing share_few(const Rows& rows) {
  const std::int64_t bytes = rows.bytes, all = rows.count * bytes;
  if (bytes <= 8 * kKiB && all <= 4 * kMiB) return {0, 1, 1};  // the device has a thread for every access
  if (bytes <= 16 * kKiB) return {0, 2, 1, true};
  const bool half = rows.itemsize == 2, crowded = half && all >= 6 * kMiB;
  const bool alone = rows.count <= kClusters && bytes > 96 * kKiB;
  const bool one_more = !crowded && rows.count % kClusters == 1 && bytes <= (half ? 256 : 384) * kKiB;
  const bool long_row = !one_more && bytes > (half ? (crowded ? 160 : 192) : 256) * kKiB;
  const int blocks = alone || long_row ? 16 : 8;
  const std::int64_t slice = ceil_div(bytes, blocks);
  if (slice <= 8 * kKiB) return {0, blocks == 16 ? 4 : 2, blocks, true};
  if (!half) return {0, slice <= 20 * kKiB ? 4 : 8, blocks};
  if (blocks == 8 || (slice <= 16 * kKiB && !crowded)) return {0, 4, blocks, true};
  return {0, 8, blocks};
}

// The device is full. What counts are the bytes in flight on a multiprocessor, and that its blocks seldom wait for others.
// Rows that begin with a cache line get slices of 16 KiB. Long 16-bit rows get 16 slices of any size, with 12 accesses per
// thread, or 8 if those fill the slice exactly. Long rows of float32 get 16 slices with 8.
// Other rows leave every warp with partial cache lines at its ends, so few long slices are better than many short ones: 32
// KiB, or 48 KiB in 16 bits, which need registers for both forms of an element.
inline Sharing share_many(const Rows& rows) {
  const std::int64_t bytes = rows.bytes;
  const bool lines = bytes % 128 == 0, half = rows.itemsize == 2;
  if (bytes <= 6 * kKiB || (!lines && bytes <= 16 * kKiB)) return {0, 2, 1};
  if (bytes < 16 * kKiB) return {0, 4, 1};
  if (lines && bytes == 16 * kKiB) return {0, 4, 2};
  if (lines && bytes <= 128 * kKiB) return {0, 4, blocks_of_at_most(16 * kKiB, bytes)};
  if (lines && half && bytes > 192 * kKiB && bytes <= 768 * kKiB) {
    return {0, bytes <= 256 * kKiB || (bytes > 448 * kKiB && bytes <= 512 * kKiB) ? 8 : 12, 16};
  }
  if ((!half || (lines && bytes <= 256 * kKiB)) && bytes <= 512 * kKiB) return {0, 8, int(ceil_div(bytes, 32 * kKiB))};
  if (half && bytes <= 768 * kKiB) return {0, 12, int(ceil_div(bytes, 48 * kKiB))};
  return {0, 8, 16};
}

struct Softmax {
  static constexpr int inputs = 1, outputs = 1;
  static constexpr float kPadding = -INFINITY;
  struct Arguments {};
  template <typename S>
  using Row = SoftmaxRow<S>;

  static Sharing share(const Rows& rows) {
    // A block per row overtakes a warp per row at shorter rows if the rows are few, and later if it has edges to compute.
    const bool few = rows.count <= kFewRows, fewest = rows.count <= 64;
    const std::int64_t longest = few && rows.itemsize == 2 ? 1024 : fewest || (rows.edges && !few) ? 2048 : kLongestShort;
    if (const Sharing sharing = share_short_row(rows, longest); sharing.packs) return sharing;
    Sharing wanted = rows.count * rows.bytes <= 8 * kMiB ? share_few(rows) : share_many(rows);
    const int largest = device().largest_cluster;
    if (wanted.blocks > 1 && wanted.blocks > largest) return {0, 8, largest};  // blocks of up to 1024 threads
    // The multiprocessors that can form a cluster come in groups of 16 or 18. A group that holds one cluster of 11 blocks
    // also holds one of 16.
    if (wanted.blocks > 10) wanted.blocks = largest;
    return wanted;
  }

  template <typename T, bool EDGES>
  static constexpr auto ways() {
    constexpr auto ways = row_ways<inputs>() + Ways<Group<32, 4>>();
    if constexpr (sizeof(T) == 2) {
      return ways + Ways<Block<12>, Block<2, true>, Block<4, true>>();
    } else {
      return ways;  // fp32 exponentials replace the elements anyway
    }
  }
};

cudaError_t best(const Call& call) {
  const Tensor &x = call.inputs[0], &y = call.outputs[0];
  require_rows(x, {&y});
  return with_type(x.dtype, [&](auto zero) {
    return launch_rows(call, rows_call<decltype(zero), Softmax>(call, {}, {&x}, {&y}), {});
  });
}

// The gradient of softmax from its output: dx = y * (dy - sum(dy * y)), for each row. y and dy are read once.
struct SoftmaxBackward {
  static constexpr int inputs = 2, outputs = 1;  // y, dy
  static constexpr float kPadding = 0.0f;
  struct Arguments {};

  static Sharing share(const Rows& rows) { return share_row(rows); }
  template <typename T, bool EDGES>
  static constexpr auto ways() {
    return row_ways<inputs>();
  }

  template <typename S>
  struct Row : Bounds<S, 2 * S::packs> {
    using Total = Sum;
    static constexpr int kept = 0;
    float sum;

    template <typename Packs, typename Edges>
    __device__ __forceinline__ Sum reduce(const Packs& packs, const Edges& edges, const Part<S>&) {
      float products = 0.0f;
#pragma unroll
      for (int p = 0; p < S::packs; ++p) {
        float y[S::vector], dy[S::vector];
        to_floats(packs[0][p], y);
        to_floats(packs[1][p], dy);
#pragma unroll
        for (int v = 0; v < S::vector; ++v) products = fmaf(y[v], dy[v], products);
      }
#pragma unroll
      for (int e = 0; e < S::thread_edges; ++e) products = fmaf(edges[0][e], edges[1][e], products);
      return {shuffle_sum<S::width>(products)};
    }

    __device__ __forceinline__ void finish(Sum total, int, std::int64_t) { sum = total.sum; }
    __device__ __forceinline__ unsigned zero() const { return sum != sum; }

    template <typename Place, int COUNT>
    __device__ __forceinline__ void write(Place, const Part<S>&, const float (&in)[2][COUNT], float (&dx)[1][COUNT]) const {
#pragma unroll
      for (int v = 0; v < COUNT; ++v) dx[0][v] = in[0][v] * (in[1][v] - sum);
    }
  };
};

cudaError_t softmax_backward(const Call& call) {
  const Tensor &dy = call.inputs[0], &y = call.inputs[1], &dx = call.outputs[0];
  require_rows(y, {&dy, &dx});
  return with_type(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    return launch_rows(call, rows_call<T, SoftmaxBackward>(call, {}, {&y, &dy}, {&dx}), {});
  });
}

const std::vector<Kernel> kernels = {
    {"naive", naive, {"x"}, {"y"}, {}},
    {"online", online, {"x"}, {"y"}, {}},
    {"shared", shared, {"x"}, {"y"}, {}},
    {"shuffle", shuffle, {"x"}, {"y"}, {}},
    {"best", best, {"x"}, {"y"}, {KBENCH_ROW_OPTIONS}},
    {"softmax_backward", softmax_backward, {"dy", "y"}, {"dx"}, {KBENCH_ROW_OPTIONS}},
};

}  // namespace kbench

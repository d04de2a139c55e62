// How the totals of warps become the total of a row, for all threads of a block or of a cluster.
//
// A total, other than KnownTotal, is 4, 8, 16 or 32 bytes with three functions: `none()` is the total of no elements,
// `a.add(b)` adds the elements of b to a, and `reduce<WIDTH>()` combines the totals of WIDTH neighbouring threads and
// returns the result to all of them.
#pragma once

#include "cluster.cuh"

#include <type_traits>

namespace kbench {

// The total of an operator that knows the totals of its rows beforehand. Nothing is reduced and nothing is exchanged.
struct KnownTotal {};

template <typename Total>
constexpr bool kExchanged = !std::is_same<Total, KnownTotal>::value;

// The total of `count` totals in shared memory, for all threads of a warp. SoftmaxTotal has a faster way.
template <typename Total>
__device__ __forceinline__ Total reduce_all(const Total* totals, int count) {
  Total row = Total::none();
#pragma unroll 1
  for (int i = threadIdx.x % KBENCH_WARP_SIZE; i < count; i += KBENCH_WARP_SIZE) row.add(totals[i]);
  return row.template reduce<KBENCH_WARP_SIZE>();
}

// One barrier. `totals` has room for the warps of the block, or of the whole cluster. In a cluster every warp sends its
// total to every block, and a block waits only for the totals that it receives. So a block may end while others still
// work.
//
// For several exchanges in turn, a kernel has two `totals` and two barriers, and uses them alternately. The caller
// awaits the other blocks (ClusterExchange::await_all) before the first one, and `parity` is 0, 0, 1, 1, 0, 0, ...
template <bool CLUSTER, int MAX_THREADS, bool SEVERAL = false, typename Total>
__device__ __forceinline__ Total exchange(Total warp_total, Total* totals, std::uint64_t* barrier = nullptr,
                                          unsigned parity = 0) {
  constexpr int max_warps = MAX_THREADS / KBENCH_WARP_SIZE;
  // Threads among which the totals are divided: a power of two.
  constexpr int width = max_warps > 16 ? 32 : max_warps > 8 ? 16 : 8;
  const int lane = threadIdx.x % KBENCH_WARP_SIZE;
  const int warp = threadIdx.x / KBENCH_WARP_SIZE;
  const int warps = blockDim.x / KBENCH_WARP_SIZE;
  int count = warps;
  if constexpr (CLUSTER) {
#if KBENCH_CLUSTERS
    const int blocks = __clusterSizeInBlocks();
    const int rank = __clusterRelativeBlockRank();
    count *= blocks;
    if constexpr (!SEVERAL) ClusterExchange::await_all();
    if (threadIdx.x == 0) ClusterExchange::expect(barrier, count * int(sizeof warp_total));
    if (lane < blocks) ClusterExchange::send(warp_total, totals + rank * warps + warp, barrier, lane);
    if constexpr (SEVERAL) {
      ClusterExchange::await_bytes(barrier, parity);
    } else {
      ClusterExchange::await_bytes(barrier);
    }
#endif
  } else {
    if (lane == 0) totals[warp] = warp_total;
    __syncthreads();
  }
  if constexpr (CLUSTER) {
    return reduce_all(totals, count);
  } else {
    Total row = Total::none();
    if (lane % width < count) row = totals[lane % width];
    return row.template reduce<width>();
  }
}

}  // namespace kbench

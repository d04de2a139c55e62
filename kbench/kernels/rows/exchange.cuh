// How the totals of warps become the total of a row, for all threads of a block or of a cluster of blocks.
//
// A total, other than KnownTotal, is 4, 8 or 16 bytes with three functions: `none()` is the total of no elements,
// `a.add(b)` adds the elements of b to a, and `reduce<WIDTH>()` combines the totals of WIDTH neighbouring threads and
// returns the result to all of them.
#pragma once

#include <type_traits>

#include "device.cuh"

namespace kbench {

// The total of an operator that knows the totals of its rows beforehand. Nothing is reduced and nothing is exchanged.
struct KnownTotal {};

template <typename Total>
constexpr bool kExchanged = !std::is_same<Total, KnownTotal>::value;

// The total of an operator that adds numbers up.
struct Sum {
  float sum;

  static __device__ __forceinline__ Sum none() { return {0.0f}; }
  __device__ __forceinline__ void add(Sum other) { sum += other.sum; }
  template <int WIDTH>
  __device__ __forceinline__ Sum reduce() const {
    return {shuffle_sum<WIDTH>(sum)};
  }
};

// The blocks of a cluster can access each other's shared memory: sm_90 and newer.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define KBENCH_CLUSTERS 1
#else
#define KBENCH_CLUSTERS 0
#endif

constexpr int kMaxCluster = 16;

// The number of this block's row, and the number of the block within that row.
template <bool CLUSTER>
__device__ __forceinline__ std::int64_t block_row() {
#if KBENCH_CLUSTERS
  if constexpr (CLUSTER) return __clusterIdx().x;
#endif
  return blockIdx.x;
}

template <bool CLUSTER>
__device__ __forceinline__ int block_rank() {
#if KBENCH_CLUSTERS
  if constexpr (CLUSTER) return __clusterRelativeBlockRank();
#endif
  return 0;
}

// One exchange of values between the blocks of a cluster: every block writes into the shared memory of all blocks, and
// counts the bytes that arrive at its own barrier. With a barrier of the whole cluster, every thread would first
// execute a fence for the whole device, which costs about a microsecond.
struct ClusterExchange {
#if KBENCH_CLUSTERS
  static __device__ __forceinline__ unsigned address(const void* shared) {
    return static_cast<unsigned>(__cvta_generic_to_shared(shared));
  }

  // The same address in the shared memory of another block.
  static __device__ __forceinline__ unsigned remote(const void* shared, int rank) {
    unsigned result;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(result) : "r"(address(shared)), "r"(rank));
    return result;
  }

  // Other blocks may write only after this block has started and its barrier exists. The block announces that as early
  // as possible and waits for the others as late as possible, so the loads hide the wait.
  static __device__ __forceinline__ void announce(std::uint64_t* barrier) {
    if (threadIdx.x == 0) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(barrier)) : "memory");
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __cluster_barrier_arrive_relaxed();
  }

  static __device__ __forceinline__ void await_all() { __cluster_barrier_wait(); }

  static __device__ __forceinline__ void expect(std::uint64_t* barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(barrier)), "r"(bytes)
                 : "memory");
  }

  // Sends a value of 4, 8 or 16 bytes.
  template <typename Value>
  static __device__ __forceinline__ void send(const Value& value, Value* to, std::uint64_t* barrier, int rank) {
    constexpr int count = sizeof(Value) / 4;
    static_assert(count == 1 || count == 2 || count == 4, "an asynchronous store has 4, 8 or 16 bytes");
    const unsigned target = remote(to, rank), counter = remote(barrier, rank);
    unsigned words[count];
    memcpy(words, &value, sizeof value);
    if constexpr (count == 1) {
      asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(target),
                   "r"(words[0]), "r"(counter)
                   : "memory");
    } else if constexpr (count == 2) {
      const std::uint64_t bits = std::uint64_t(words[1]) << 32 | std::uint64_t(words[0]);
      asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" ::"r"(target), "l"(bits),
                   "r"(counter)
                   : "memory");
    } else {
      asm volatile(
          "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(target),
          "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]), "r"(counter)
          : "memory");
    }
  }

  static __device__ __forceinline__ void await_bytes(std::uint64_t* barrier) {
    asm volatile(
        "{\n\t.reg .pred done;\n"
        "again:\n\t"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], 0;\n\t"
        "@done bra finished;\n\t"
        "bra again;\n"
        "finished:\n\t}" ::"r"(address(barrier))
        : "memory");
  }
#endif
};

// The total of `count` totals in shared memory, for all threads of a warp. SoftmaxTotal has a faster way.
template <typename Total>
__device__ __forceinline__ Total reduce_all(const Total* totals, int count) {
  Total row = Total::none();
#pragma unroll 1
  for (int i = threadIdx.x % kWarpSize; i < count; i += kWarpSize) row.add(totals[i]);
  return row.template reduce<kWarpSize>();
}

// One barrier. `totals` has room for the warps of the block, or of the whole cluster. In a cluster every warp sends its
// total to every block, and a block waits only for the totals that it receives. So a block may end while others still
// work.
template <bool CLUSTER, int MAX_THREADS, typename Total>
__device__ __forceinline__ Total exchange(Total warp_total, Total* totals, std::uint64_t* barrier = nullptr) {
  constexpr int max_warps = MAX_THREADS / kWarpSize;
  // Threads among which the totals are divided: a power of two.
  constexpr int width = max_warps > 16 ? 32 : max_warps > 8 ? 16 : 8;
  const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize, warps = blockDim.x / kWarpSize;
  if constexpr (CLUSTER) {
    int count = warps;
#if KBENCH_CLUSTERS
    const int blocks = __clusterSizeInBlocks();
    count *= blocks;
    ClusterExchange::await_all();
    if (threadIdx.x == 0) ClusterExchange::expect(barrier, count * int(sizeof warp_total));
    const int place = __clusterRelativeBlockRank() * warps + warp;
    if (lane < blocks) ClusterExchange::send(warp_total, totals + place, barrier, lane);
    ClusterExchange::await_bytes(barrier);
#endif
    return reduce_all(totals, count);
  } else {
    if (lane == 0) totals[warp] = warp_total;
    __syncthreads();
    Total row = Total::none();
    if (lane % width < warps) row = totals[lane % width];
    return row.template reduce<width>();
  }
}

}  // namespace kbench

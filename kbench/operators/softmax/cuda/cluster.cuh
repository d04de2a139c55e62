// Blocks that share a row: their numbers, and how they exchange values.
#pragma once

#include "device.cuh"
#include "rowwise.h"

namespace kbench {

// The blocks of a cluster can access each other's shared memory: sm_90 and newer.
#if !defined(__HIP_PLATFORM_AMD__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
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
// counts the bytes that arrive at its own barrier. With a barrier of the whole cluster, every thread would first execute a
// fence for the whole device, which costs about a microsecond.
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

  // Other blocks may write only after this block has started and its barrier exists. The block announces that as early as
  // possible and waits for the others as late as possible, so the loads hide the wait.
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

  static __device__ __forceinline__ void send(float2 value, float2* to, std::uint64_t* barrier, int rank) {
    const std::uint64_t bits =
        std::uint64_t(__float_as_uint(value.y)) << 32 | std::uint64_t(__float_as_uint(value.x));
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" ::"r"(remote(to, rank)),
                 "l"(bits), "r"(remote(barrier, rank))
                 : "memory");
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

}  // namespace kbench

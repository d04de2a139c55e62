// Blocks that share a row: their numbers, and how they exchange values.
#pragma once

#include "device.cuh"

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

  // Other blocks may write only after this block has started and its barriers exist. The block announces that as early
  // as possible and waits for the others as late as possible, so the loads hide the wait.
  static __device__ __forceinline__ void announce(std::uint64_t* barriers, int count = 1) {
    if (threadIdx.x == 0) {
      for (int i = 0; i < count; ++i) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(barriers + i)) : "memory");
      }
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __cluster_barrier_arrive_relaxed();
  }

  static __device__ __forceinline__ void await_all() { __cluster_barrier_wait(); }

  // A barrier of the whole cluster, after which blocks see what others wrote to shared memory.
  static __device__ __forceinline__ void meet() {
    __cluster_barrier_arrive();
    __cluster_barrier_wait();
  }

  // 16 bytes of another block's shared memory.
  static __device__ __forceinline__ float4 read(const float* shared, int rank) {
    float4 found;
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(found.x), "=f"(found.y), "=f"(found.z), "=f"(found.w)
                 : "r"(remote(shared, rank))
                 : "memory");
    return found;
  }

  static __device__ __forceinline__ void expect(std::uint64_t* barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(barrier)), "r"(bytes)
                 : "memory");
  }

  // Sends a value of 4, 8, 16 or 32 bytes.
  template <typename Value>
  static __device__ __forceinline__ void send(const Value& value, Value* to, std::uint64_t* barrier, int rank) {
    constexpr int count = sizeof(Value) / 4;
    static_assert(count == 1 || count == 2 || count == 4 || count == 8, "an asynchronous store has 4, 8 or 16 bytes");
    const unsigned there = remote(to, rank), counter = remote(barrier, rank);
    unsigned words[count];
    memcpy(words, &value, sizeof value);
    if constexpr (count == 1) {
      asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(there),
                   "r"(words[0]), "r"(counter)
                   : "memory");
    } else if constexpr (count == 2) {
      const std::uint64_t bits = std::uint64_t(words[1]) << 32 | std::uint64_t(words[0]);
      asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" ::"r"(there), "l"(bits),
                   "r"(counter)
                   : "memory");
    } else {
#pragma unroll
      for (int w = 0; w < count; w += 4) {
        asm volatile(
            "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(there + 4 * w),
            "r"(words[w]), "r"(words[w + 1]), "r"(words[w + 2]), "r"(words[w + 3]), "r"(counter)
            : "memory");
      }
    }
  }

  // Waits for the first bytes that a barrier counts.
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

  // The same for a barrier that is used several times: its first bytes have parity 0, the next 1, and so on. (A parity
  // in a register made kernels spill that need none.)
  static __device__ __forceinline__ void await_bytes(std::uint64_t* barrier, unsigned parity) {
    asm volatile(
        "{\n\t.reg .pred done;\n"
        "again:\n\t"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n\t"
        "@done bra finished;\n\t"
        "bra again;\n"
        "finished:\n\t}" ::"r"(address(barrier)), "r"(parity)
        : "memory");
  }
#endif
};

}  // namespace kbench

// Persistent blocks: each computes many rows in turn, and adds up sums over them on the way. While it computes a row,
// the next ones are copied to shared memory.
#pragma once

#include <map>
#include <tuple>

#include "column_sums.cuh"
#include "rows/columns.cuh"

namespace kbench {

// The rows that are on their way or in shared memory at a time.
constexpr int kStages = 3;

// 16 bytes from global to shared memory, in the background; zeros if not `inside`. A thread awaits its own copies only:
// it commits groups of them, and waits until at most PENDING groups are on their way.
__device__ __forceinline__ void copy_ahead(void* shared, const void* global, bool inside) {
#ifndef __HIP_PLATFORM_AMD__
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                   static_cast<unsigned>(__cvta_generic_to_shared(shared))),
               "l"(__cvta_generic_to_global(global)), "r"(inside ? 16 : 0)
               : "memory");
#endif
}
__device__ __forceinline__ void commit_copies() {
#ifndef __HIP_PLATFORM_AMD__
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int PENDING>
__device__ __forceinline__ void await_copies() {
#ifndef __HIP_PLATFORM_AMD__
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}

// The operator is that of registers.cuh, with two more members of its Row: `sums`, the number of sums per column, and
// `add(in, totals)`, which adds what an access of this row contributes to them. A block or cluster takes every n-th
// row. Each thread has the same columns in all rows; their sums and the operator's vectors stay in its registers.
template <typename T, int VECTOR, int PACKS, int GROUP, typename Op>
__global__ void __launch_bounds__(PACKS == 1 ? 1024 : 512, 1)
    rows_in_turn(Matrices<T, Op::inputs, Op::outputs> matrices, typename Op::Arguments arguments, float* sums,
                 std::int64_t rows, int columns, int slice) {
  constexpr int max_threads = PACKS == 1 ? 1024 : 512;
  using S = Shape<T, VECTOR, PACKS, GROUP, false, true>;
  using Row = typename Op::template Row<S>;
  using Total = typename Row::Total;
  extern __shared__ uint4 ring[];  // [stage][input][access][thread]
  __shared__ Total totals[2][max_threads / KBENCH_WARP_SIZE * (S::cluster ? kMaxCluster : 1)];
  __shared__ std::uint64_t barriers[2];
#if KBENCH_CLUSTERS
  if constexpr (S::cluster) ClusterExchange::announce(barriers, 2);
#else
  if constexpr (S::cluster) return;
#endif
  const std::int64_t start = block_row<S::cluster>();
  std::int64_t step = gridDim.x;
#if KBENCH_CLUSTERS
  if constexpr (S::cluster) step /= __clusterSizeInBlocks();
#endif
  const Part<S> part(nullptr, columns, block_rank<S::cluster>(), slice);
  const auto slot = [&](int stage, int i, int p) {
    return ring + ((stage * Op::inputs + i) * PACKS + p) * blockDim.x + threadIdx.x;
  };
  const auto fetch = [&](int stage, std::int64_t number) {
#pragma unroll
    for (int i = 0; i < Op::inputs; ++i) {
      const T* first = matrices.in[i] + number * matrices.in_stride[i] + part.column();
#pragma unroll
      for (int p = 0; p < PACKS; ++p) {
        const bool inside = number < rows && part.has(p);
        copy_ahead(slot(stage, i, p), inside ? first + part.offset(p) : matrices.in[i], inside);
      }
    }
    commit_copies();
  };
#pragma unroll
  for (int stage = 0; stage < kStages; ++stage) fetch(stage, start + stage * step);
  // The next launch may start when all blocks have come here, so it keeps none of them from the device.
  let_next_kernel_start();

  Row row;
  row.begin(arguments, part);
  float column_totals[PACKS][Row::sums][VECTOR] = {};
  const float no_edges[Op::inputs][1] = {};
#if KBENCH_CLUSTERS
  if constexpr (S::cluster) ClusterExchange::await_all();
#endif
  int stage = 0;
  unsigned turn = 0;
  for (std::int64_t number = start; number < rows; number += step) {
    await_copies<kStages - 1>();
    Pack<T, VECTOR> packs[Op::inputs][PACKS];
#pragma unroll
    for (int i = 0; i < Op::inputs; ++i) {
#pragma unroll
      for (int p = 0; p < PACKS; ++p) {
        const uint4 word = *slot(stage, i, p);
        memcpy(packs[i][p].values, &word, sizeof word);
      }
    }
    fetch(stage, number + kStages * step);
    stage = stage + 1 == kStages ? 0 : stage + 1;

    Total total = row.reduce(packs, no_edges, part);
    total = exchange<S::cluster, max_threads, true>(total, totals[turn & 1], barriers + (turn & 1), turn >> 1 & 1);
    ++turn;
    row.finish(total, columns, number);
    const unsigned zero = row.zero();
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
      if (part.has(p)) {
        float read[Op::inputs][VECTOR], written[Op::outputs][VECTOR];
#pragma unroll
        for (int i = 0; i < Op::inputs; ++i) {
          to_floats(sizeof(T) == 4 ? packs[i][p] : packs[i][p].flipped(zero), read[i]);
        }
        row.write(InPack{p}, part, read, written);
        row.add(read, column_totals[p]);
#pragma unroll
        for (int o = 0; o < Op::outputs; ++o) {
          Pack<T, VECTOR> result;
#pragma unroll
          for (int v = 0; v < VECTOR; ++v) result.values[v] = from_float<T>(written[o][v]);
          result.store(matrices.out[o] + number * matrices.out_stride[o] + part.column() + part.offset(p), false);
        }
      }
    }
  }
  await_copies<0>();

#pragma unroll
  for (int p = 0; p < PACKS; ++p) {
    if (part.has(p)) {
#pragma unroll
      for (int s = 0; s < Row::sums; ++s) {
        store_sums(sums + (start * Row::sums + s) * columns + part.column() + part.offset(p), column_totals[p][s]);
      }
    }
  }
}

// How many blocks or clusters the device holds at once; 0 if it cannot hold one.
template <typename... Parameters>
int count_resident(void (*kernel)(Parameters...), int blocks, int threads, int shared_bytes) {
#ifdef __HIP_PLATFORM_AMD__
  return 0;
#else
  int count = 0;
  if (blocks == 1) {
    if (cudaOccupancyMaxActiveBlocksPerMultiprocessor(&count, kernel, threads, shared_bytes) != cudaSuccess) return 0;
    return count * multiprocessors();
  }
  cudaLaunchAttribute cluster;
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = blocks;
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.attrs = &cluster;
  config.numAttrs = 1;
  return cudaOccupancyMaxActiveClusters(&count, kernel, &config) == cudaSuccess ? count : 0;
#endif
}

// The same. It asks the driver once for each kernel and device, because that takes some microseconds.
template <typename... Parameters>
int resident(void (*kernel)(Parameters...), int blocks, int threads, int shared_bytes) {
  static std::map<std::tuple<int, const void*, int, int>, int> known;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  const auto key = std::make_tuple(device, reinterpret_cast<const void*>(kernel), blocks, threads);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  return known[key] = count_resident(kernel, blocks, threads, shared_bytes);
}

// Launches with `blocks` blocks per row, and says in `used` how many partial sums per column it writes: at most `most`.
// cudaErrorInvalidConfiguration if a row does not fit.
template <int PACKS, typename T, typename Op>
cudaError_t launch_in_turn(const RowsCall<T, Op>& call, int blocks, float* sums, int most, int& used) {
#ifdef __HIP_PLATFORM_AMD__
  return cudaErrorInvalidConfiguration;
#else
  constexpr int V = kVector<T>;
  const std::int64_t packs = ceil_div(call.columns, V);
  const std::int64_t slice = blocks == 1 ? packs : ceil_div(packs, 8 * blocks) * 8;
  const std::int64_t threads = KBENCH_WARP_SIZE * ceil_div(slice, KBENCH_WARP_SIZE * PACKS);
  const int shared_bytes = int(threads) * kStages * Op::inputs * PACKS * 16;
  if (threads > (PACKS == 1 ? 1024 : 512) || blocks > largest_cluster()) return cudaErrorInvalidConfiguration;
  const auto kernel = blocks == 1 ? rows_in_turn<T, V, PACKS, kBlockRow, Op> : rows_in_turn<T, V, PACKS, kClusterRow, Op>;
  if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes) != cudaSuccess ||
      (blocks > 8 && cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1) != cudaSuccess)) {
    cudaGetLastError();
    return cudaErrorInvalidConfiguration;
  }
  const std::int64_t places = std::min<std::int64_t>(resident(kernel, blocks, int(threads), shared_bytes), most);
  if (places == 0) return cudaErrorInvalidConfiguration;
  used = int(ceil_div(call.rows, ceil_div(call.rows, places)));  // as many rows for each
  cudaLaunchAttribute cluster;
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = blocks;
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(used * blocks);
  config.blockDim = dim3(unsigned(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = call.stream;
  config.attrs = &cluster;
  config.numAttrs = blocks == 1 ? 0 : 1;
  if (cudaLaunchKernelEx(&config, kernel, call.matrices, call.arguments, sums, call.rows, int(call.columns),
                         int(slice)) == cudaSuccess) {
    return cudaSuccess;
  }
  return cudaGetLastError();
#endif
}

}  // namespace kbench

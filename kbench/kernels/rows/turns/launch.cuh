// Launches of persistent blocks: as many as the device holds at once.
#pragma once

#include <map>
#include <tuple>

#include "rows_in_turn.cuh"

namespace kbench {

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

// The same. It asks the driver once for each kernel and device, because that takes some microseconds. Threads call it one at a
// time: binding.cpp keeps Python's lock (the GIL).
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

// As many rows of a block at a time as it has threads for.
constexpr int kMostTogether = INT_MAX;

// How many rows a block computes at a time: several short ones with `most_threads` in all, if there are enough for two blocks
// on each multiprocessor. Fewer blocks store fewer partial sums.
inline int rows_together(std::int64_t rows, int width, int most_threads) {
  int together = 1;
  while (2 * together * width <= most_threads && rows >= std::int64_t(4) * together * multiprocessors()) together *= 2;
  return together;
}

// Launches with `blocks` blocks per row, or `together` rows per block (0: as rows_together says) and `joined` blocks that
// add up their sums before they store them. Says in `used` how many partial sums per column it writes: at most `most`; 0 if
// it writes the gradients. cudaErrorInvalidConfiguration if a row does not fit.
template <int PACKS, typename T, typename Op>
cudaError_t launch_in_turn(const RowsCall<T, Op>& call, int blocks, int together, int joined,
                           ColumnSums<VectorOf<T, Op::kMixed>> sums, int most, int& used) {
#ifdef __HIP_PLATFORM_AMD__
  return cudaErrorInvalidConfiguration;
#else
  constexpr int V = kVector<T>;
  const std::int64_t packs = ceil_div(call.columns, V);
  const std::int64_t slice = blocks == 1 ? packs : ceil_div(packs, 8 * blocks) * 8;
  const std::int64_t width = KBENCH_WARP_SIZE * ceil_div(slice, KBENCH_WARP_SIZE * PACKS);
  const int largest = largest_cluster();
  if (width > kTurnThreads || blocks > (PACKS > 1 ? largest : 1) || (kLargeOnly<T, PACKS> && largest == 1)) {
    return cudaErrorInvalidConfiguration;
  }
  // With one sum per column in 16 bits, a multiprocessor holds two blocks of 256 threads, which was faster than one of 512.
  constexpr bool two_blocks = sizeof(T) == 2 && Op::template Row<Shape<T, V, PACKS, kBlockRow, false, true>>::sums == 1;
  if (together == 0) together = rows_together(call.rows, int(width), two_blocks ? 256 : 512);
  if (together == kMostTogether) together = int(std::min<std::int64_t>(512 / width, ceil_div(call.rows, joined)));
  if (blocks > 1 || together == 0 || together * width > kTurnThreads) together = 1;
  if (blocks > 1 || joined > largest) joined = 1;
  const int threads = int(width) * together, cluster_blocks = std::max(blocks, joined);
  const int shared_bytes = threads * kSlots<PACKS> * Op::inputs * PACKS * 16;
  auto kernel = rows_in_turn<T, V, PACKS, kBlockRow, Op>;
  if constexpr (PACKS > 1) {  // one access is for short rows
    if (blocks > 1) kernel = rows_in_turn<T, V, PACKS, kClusterRow, Op>;
  }
  if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes) != cudaSuccess ||
      (cluster_blocks > 8 &&
       cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1) != cudaSuccess)) {
    cudaGetLastError();
    return cudaErrorInvalidConfiguration;
  }
  const std::int64_t places = std::min<std::int64_t>(resident(kernel, cluster_blocks, threads, shared_bytes), most);
  if (places == 0) return cudaErrorInvalidConfiguration;
  const std::int64_t turns = ceil_div(call.rows, together * joined);
  const int clusters = int(ceil_div(turns, ceil_div(turns, places)));  // as many rows for each
  used = clusters > 1 ? clusters : 0;
  if (used) sums.gradients[0] = nullptr;
  cudaLaunchAttribute cluster;
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = cluster_blocks;
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(clusters * cluster_blocks);
  config.blockDim = dim3(unsigned(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = call.stream;
  config.attrs = &cluster;
  config.numAttrs = cluster_blocks == 1 ? 0 : 1;
  if (cudaLaunchKernelEx(&config, kernel, call.matrices, call.arguments, sums, unsigned(call.rows),
                         int(call.columns), int(slice), int(width)) == cudaSuccess) {
    return cudaSuccess;
  }
  return cudaGetLastError();
#endif
}

}  // namespace kbench

// Persistent blocks: each computes many rows in turn, and adds up sums over them on the way. While it writes a row, the
// sums of the next ones are exchanged, and rows after these are copied to shared memory.
#pragma once

#include <map>
#include <tuple>

#include "column_sums.cuh"
#include "rows/columns.cuh"

namespace kbench {

// How many rows ahead of the one that is written a row is first read: for its sums, or before that for its mean.
template <bool CENTRED>
constexpr int kLead = CENTRED ? 2 : 1;
// The rows that are on their way at a time, and with them the rows in shared memory.
constexpr int kFlying = 2;
template <bool CENTRED>
constexpr int kSlots = kLead<CENTRED> + 1 + kFlying;

// The most threads of a block. They limit the registers of a thread.
template <int PACKS>
constexpr int kTurnThreads = PACKS == 1 ? 1024 : 512;

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

// The sums of some values over a warp: lane i has that of value i % COUNT. This takes fewer shuffles than COUNT sums.
template <int COUNT>
__device__ __forceinline__ float spread_sums(float (&values)[COUNT]) {
  static_assert(COUNT == 1 || COUNT == 2 || COUNT == 4, "half of the values go to the other half of the lanes");
  if constexpr (COUNT == 4) {
    const bool upper = threadIdx.x & 2;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float kept = upper ? values[i + 2] : values[i], sent = upper ? values[i] : values[i + 2];
      values[i] = kept + KBENCH_SHUFFLE_XOR(sent, 2);
    }
  }
  float sum = values[0];
  if constexpr (COUNT > 1) {
    const bool odd = threadIdx.x & 1;
    const float kept = odd ? values[1] : values[0], sent = odd ? values[0] : values[1];
    sum = kept + KBENCH_SHUFFLE_XOR(sent, 1);
  }
#pragma unroll
  for (int mask = COUNT; mask < KBENCH_WARP_SIZE; mask *= 2) sum += KBENCH_SHUFFLE_XOR(sum, mask);
  return sum;
}

template <int COUNT>
struct alignas(4 * COUNT) SumsOfWarp {
  float values[COUNT];
};

// The values of the first COUNT lanes, for all lanes.
template <int COUNT>
__device__ __forceinline__ SumsOfWarp<COUNT> gather(float value) {
  SumsOfWarp<COUNT> all;
#pragma unroll
  for (int i = 0; i < COUNT; ++i) {
#ifdef __HIP_PLATFORM_AMD__
    all.values[i] = __shfl(value, i);
#else
    all.values[i] = __shfl_sync(0xffffffffu, value, i);
#endif
  }
  return all;
}

// Where the sums over the rows go: to partial sums (some, sums, columns), or, if one block or cluster has them all, to the
// gradients.
template <typename T>
struct ColumnSums {
  float* partial;
  T* gradients[2] = {};
};

// The operator is that of registers.cuh, with more members of its Row:
//   centred             whether the sums of a row need its mean
//   row_sums            how many sums of a row it needs
//   measure(place, part, in, mean, sums)    adds what an access contributes to them
//   conclude(sums, mean, columns)           with the sums of the row
//   sums                the number of sums per column, or 0
//   add(in, totals)     adds what an access of this row contributes to them
// Each thread has the same columns in all rows; their sums and the operator's vectors stay in its registers.
//
// A block or cluster takes every n-th row, or several rows at a time with `width` threads for each. In each turn it takes
// the sums of row t and the mean of row t + 1, which all warps gave in the turn before; gives the sums of row t + 1 and the
// mean of row t + 2; and writes row t. So a turn has one barrier, and the exchange takes place while a row is written.
template <typename T, int VECTOR, int PACKS, int GROUP, typename Op>
__global__ void __launch_bounds__(kTurnThreads<PACKS>, 1)
    rows_in_turn(Matrices<T, Op::inputs, Op::outputs> matrices, typename Op::Arguments arguments, ColumnSums<T> sums,
                 std::int64_t rows, int columns, int slice, int width) {
  using S = Shape<T, VECTOR, PACKS, GROUP, false, true>;
  using Row = typename Op::template Row<S>;
  constexpr int lead = kLead<Row::centred>, slots = kSlots<Row::centred>;
  constexpr int given = Row::row_sums + (Row::centred ? 1 : 0);
  constexpr int most_warps = kTurnThreads<PACKS> / KBENCH_WARP_SIZE * (S::cluster ? kMaxCluster : 1);
  extern __shared__ uint4 ring[];  // [slot][input][access][thread]
  __shared__ SumsOfWarp<given> totals[2][most_warps];
  __shared__ std::uint64_t barriers[2];
  int blocks = 1;
#if KBENCH_CLUSTERS
  if constexpr (S::cluster) {
    ClusterExchange::announce(barriers, 2);
    blocks = __clusterSizeInBlocks();
  }
#else
  if constexpr (S::cluster) return;
#endif
  const int lane = threadIdx.x % KBENCH_WARP_SIZE, warp = threadIdx.x / KBENCH_WARP_SIZE;
  const int warps = width / KBENCH_WARP_SIZE;  // of a row in this block
  const int together = blockDim.x / width, which = threadIdx.x / width;
  const std::int64_t start = block_row<S::cluster>(), step = gridDim.x / blocks;
  const std::int64_t turns = ceil_div(ceil_div(rows, together) - start, step);
  Part<S> part(nullptr, columns, block_rank<S::cluster>(), slice);
  part.first -= which * (width * PACKS);  // the threads of each of several rows begin at column 0
  const auto slot = [&](int number, int i, int p) {
    return ring + ((number * Op::inputs + i) * PACKS + p) * blockDim.x + threadIdx.x;
  };
  const auto row_of = [&](std::int64_t turn) { return (start + turn * step) * together + which; };
  const auto fetch = [&](int to, std::int64_t number) {
#pragma unroll
    for (int i = 0; i < Op::inputs; ++i) {
      const T* first = matrices.in[i] + number * matrices.in_stride[i] + part.column();
#pragma unroll
      for (int p = 0; p < PACKS; ++p) {
        const bool inside = number < rows && part.has(p);
        copy_ahead(slot(to, i, p), inside ? first + part.offset(p) : matrices.in[i], inside);
      }
    }
    commit_copies();
  };
  const auto arrived = [&](int at, int i, int p, float (&elements)[VECTOR]) {
    Pack<T, VECTOR> pack;
    const uint4 word = *slot(at, i, p);
    memcpy(pack.values, &word, sizeof word);
    to_floats(pack, elements);
  };
#pragma unroll
  for (int number = 0; number < slots; ++number) fetch(number, row_of(number));
  // The next launch may start when all blocks have come here, so it keeps none of them from the device.
  if constexpr (Row::sums > 0) let_next_kernel_start();

  Row row;
  row.begin(arguments, part);
  float column_totals[PACKS][Row::sums + 1][VECTOR] = {};  // one more, because an array cannot be empty
  float mean = 0.0f, next_mean = 0.0f;
#if KBENCH_CLUSTERS
  if constexpr (S::cluster) ClusterExchange::await_all();
#endif
  int last = 0;  // the slot of row t + lead
  unsigned turn = 0;
  for (std::int64_t t = -lead; t < turns; ++t, ++turn) {
    const auto before = [&](int distance) { return last >= distance ? last - distance : last - distance + slots; };
    if (t > 0) fetch(before(lead + 1), row_of(t - 1 + slots));
    await_copies<kFlying>();

    if (t > -lead) {
      const unsigned taken = turn - 1;
      if constexpr (S::cluster) {
#if KBENCH_CLUSTERS
        ClusterExchange::await_bytes(barriers + (taken & 1), taken >> 1 & 1);
#endif
      } else {
        __syncthreads();
      }
      const auto* from = reinterpret_cast<const float*>(totals[taken & 1] + which * warps);
      float sum = 0.0f;
#pragma unroll 1
      for (int i = lane; i < warps * blocks * given; i += KBENCH_WARP_SIZE) sum += from[i];
#pragma unroll
      for (int mask = given; mask < KBENCH_WARP_SIZE; mask *= 2) sum += KBENCH_SHUFFLE_XOR(sum, mask);
      const SumsOfWarp<given> all = gather<given>(sum);
      mean = next_mean;
      if constexpr (Row::centred) next_mean = all.values[Row::row_sums] / columns;
      row.conclude(all.values, mean, columns);
    }

    if (t + 1 < turns) {
      float next[given] = {};
#pragma unroll
      for (int p = 0; p < PACKS; ++p) {
        if constexpr (Row::centred) {
          float elements[VECTOR];
          arrived(last, Op::inputs - 1, p, elements);
#pragma unroll
          for (int v = 0; v < VECTOR; ++v) next[Row::row_sums] += elements[v];
        }
        if (part.has(p) && t > -2) {
          float read[Op::inputs][VECTOR];
#pragma unroll
          for (int i = 0; i < Op::inputs; ++i) arrived(before(lead - 1), i, p, read[i]);
          row.measure(InPack{p}, part, read, next_mean, next);
        }
      }
      const float sum = spread_sums(next);
      if constexpr (S::cluster) {
#if KBENCH_CLUSTERS
        const SumsOfWarp<given> all = gather<given>(sum);
        std::uint64_t* barrier = barriers + (turn & 1);
        if (threadIdx.x == 0) ClusterExchange::expect(barrier, warps * blocks * int(sizeof all));
        if (lane < blocks) {
          ClusterExchange::send(all, totals[turn & 1] + __clusterRelativeBlockRank() * warps + warp, barrier, lane);
        }
#endif
      } else {
        if (lane < given) totals[turn & 1][warp].values[lane] = sum;
      }
    }

    if (t >= 0) {
      const std::int64_t number = row_of(t);
#pragma unroll
      for (int p = 0; p < PACKS; ++p) {
        if (number < rows && part.has(p)) {
          float read[Op::inputs][VECTOR], written[Op::outputs][VECTOR];
#pragma unroll
          for (int i = 0; i < Op::inputs; ++i) arrived(before(lead), i, p, read[i]);
          row.write(InPack{p}, part, read, written);
          if constexpr (Row::sums > 0) row.add(read, column_totals[p]);
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
    last = last + 1 == slots ? 0 : last + 1;
  }
  await_copies<0>();
  if constexpr (Row::sums == 0) return;

  // The threads of one row add up the sums of the others, and of the blocks that join theirs.
  float* shared = reinterpret_cast<float*>(ring);
  int joined = 1, rank = 0;
#if KBENCH_CLUSTERS
  if constexpr (!S::cluster) {
    joined = __clusterSizeInBlocks();
    rank = __clusterRelativeBlockRank();
  }
#endif
  if (together == 1 && joined == 1) {
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
      if (part.has(p)) {
#pragma unroll
        for (int s = 0; s < Row::sums; ++s) {
          const std::int64_t column = part.column() + part.offset(p);
          if (sums.gradients[0]) {
            Pack<T, VECTOR> gradient;
#pragma unroll
            for (int v = 0; v < VECTOR; ++v) gradient.values[v] = from_float<T>(column_totals[p][s][v]);
            gradient.store(sums.gradients[s] + column, false);
          } else {
            store_sums(sums.partial + (start * Row::sums + s) * columns + column, column_totals[p][s]);
          }
        }
      }
    }
    return;
  }
  __syncthreads();
#pragma unroll
  for (int p = 0; p < PACKS; ++p) {
#pragma unroll
    for (int s = 0; s < Row::sums; ++s) {
      store_sums(shared + ((p * Row::sums + s) * blockDim.x + threadIdx.x) * VECTOR, column_totals[p][s]);
    }
  }
  __syncthreads();
#if KBENCH_CLUSTERS
  if (joined > 1) ClusterExchange::meet();
#endif
  constexpr int quads = VECTOR / 4;
  const int each = width * quads;  // of one access and one sum
  for (int i = rank * blockDim.x + threadIdx.x; i < PACKS * Row::sums * each; i += joined * blockDim.x) {
    const int p = i / each / Row::sums, s = i / each % Row::sums, thread = i % each / quads, quad = i % quads;
    const int access = thread / KBENCH_WARP_SIZE * (KBENCH_WARP_SIZE * PACKS) + p * KBENCH_WARP_SIZE + thread % KBENCH_WARP_SIZE;
    if (access < part.end) {
      float totals_of_four[4] = {};
      for (int block = 0; block < joined; ++block) {
        for (int other = 0; other < together; ++other) {
          const float* from = shared + ((p * Row::sums + s) * blockDim.x + other * width + thread) * VECTOR + quad * 4;
          float4 found;
#if KBENCH_CLUSTERS
          found = joined > 1 ? ClusterExchange::read(from, block) : *reinterpret_cast<const float4*>(from);
#else
          found = *reinterpret_cast<const float4*>(from);
#endif
          totals_of_four[0] += found.x;
          totals_of_four[1] += found.y;
          totals_of_four[2] += found.z;
          totals_of_four[3] += found.w;
        }
      }
      const std::int64_t column = std::int64_t(access) * VECTOR + quad * 4;
      if (sums.gradients[0]) {
        T* gradient = (s == 0 ? sums.gradients[0] : sums.gradients[1]) + column;
#pragma unroll
        for (int v = 0; v < 4; ++v) gradient[v] = from_float<T>(totals_of_four[v]);
      } else {
        store_sums(sums.partial + (start / joined * Row::sums + s) * columns + column, totals_of_four);
      }
    }
  }
#if KBENCH_CLUSTERS
  if (joined > 1) ClusterExchange::meet();  // the others may still read
#endif
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

// As many rows of a block at a time as it has threads for.
constexpr int kMostTogether = INT_MAX;

// How many rows a block computes at a time: short rows, as long as there are enough for two blocks on each multiprocessor.
inline int rows_together(std::int64_t rows, int width) {
  int together = 1;
  while (2 * together * width <= 256 && rows >= std::int64_t(4) * together * multiprocessors()) together *= 2;
  return together;
}

// Launches with `blocks` blocks per row, or `together` rows per block (0: as rows_together says) and `joined` blocks that add
// up their sums before they store them. Says in `used` how many partial sums per column it writes: at most `most`; 0 if it
// writes the gradients. cudaErrorInvalidConfiguration if a row does not fit.
template <int PACKS, typename T, typename Op>
cudaError_t launch_in_turn(const RowsCall<T, Op>& call, int blocks, int together, int joined, ColumnSums<T> sums,
                           int most, int& used) {
#ifdef __HIP_PLATFORM_AMD__
  return cudaErrorInvalidConfiguration;
#else
  constexpr int V = kVector<T>;
  constexpr bool centred = Op::template Row<Shape<T, V, PACKS, kBlockRow, false, true>>::centred;
  const std::int64_t packs = ceil_div(call.columns, V);
  const std::int64_t slice = blocks == 1 ? packs : ceil_div(packs, 8 * blocks) * 8;
  const std::int64_t width = KBENCH_WARP_SIZE * ceil_div(slice, KBENCH_WARP_SIZE * PACKS);
  if (width > kTurnThreads<PACKS> || blocks > largest_cluster()) return cudaErrorInvalidConfiguration;
  if (together == 0) together = rows_together(call.rows, int(width));
  if (together == kMostTogether) together = int(std::min<std::int64_t>(512 / width, ceil_div(call.rows, joined)));
  if (blocks > 1 || together == 0 || together * width > kTurnThreads<PACKS>) together = 1;
  if (blocks > 1 || joined > largest_cluster()) joined = 1;
  const int threads = int(width) * together, cluster_blocks = std::max(blocks, joined);
  const int shared_bytes = threads * kSlots<centred> * Op::inputs * PACKS * 16;
  const auto kernel = blocks == 1 ? rows_in_turn<T, V, PACKS, kBlockRow, Op> : rows_in_turn<T, V, PACKS, kClusterRow, Op>;
  if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes) != cudaSuccess ||
      (cluster_blocks > 8 && cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1) != cudaSuccess)) {
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
  if (cudaLaunchKernelEx(&config, kernel, call.matrices, call.arguments, sums, call.rows, int(call.columns),
                         int(slice), int(width)) == cudaSuccess) {
    return cudaSuccess;
  }
  return cudaGetLastError();
#endif
}

}  // namespace kbench

// Rows that are read once and stay in the registers of a part of a warp, of a block, or of several blocks.
#pragma once

#include "team.cuh"

namespace kbench {

// GROUP: the number of threads of a warp that share a row, or one of these values.
constexpr int kBlockRow = 1024;
constexpr int kClusterRow = 2048;
constexpr int kTeamRow = 4096;

// The most threads of a block, and the fewest such blocks that a multiprocessor must hold. Both limit the registers of a
// thread: 32 for 2 accesses, 40 for 4, 64 for 6, for 8, and with KEEP. More rows in flight are better than more elements per
// thread. Fewer, larger slices are better only if a cluster could not hold the row otherwise.
template <typename T, int PACKS, int GROUP, bool KEEP>
struct Bounds {
  static constexpr bool group = GROUP < kBlockRow;
  static constexpr bool team = GROUP == kTeamRow;
  static constexpr int threads = group         ? 128
                                 : team        ? 1024
                                 : PACKS == 6  ? 256
                                 : PACKS <= 4  ? 512
                                 : PACKS <= 8  ? 1024
                                 : PACKS <= 12 ? 256
                                               : 224;
  static constexpr int blocks = group         ? (PACKS <= 2 ? 12 : PACKS <= 4 ? 10 : 8)
                                : team        ? 1
                                : PACKS == 6  ? 4
                                : KEEP        ? 2
                                : PACKS <= 2  ? 4
                                : PACKS <= 4  ? 3
                                : PACKS <= 8  ? 1
                                : PACKS <= 12 ? (sizeof(T) == 4 ? 2 : KBENCH_CLUSTERS ? 4 : 3)
                                              : (KBENCH_CLUSTERS ? 2 : 1);
};

// A thread holds PACKS accesses of VECTOR elements. A row belongs to a group, to a block, or, in slices of `slice` accesses,
// to a cluster or a team. EDGES: rows need not begin and end at multiples of 16 bytes.
//
// fp32 exponentials replace the elements. 16-bit rows keep the elements, in half the registers, and compute every
// exponential twice. They keep the exponentials with KEEP, and if a thread has few elements. With KEEP and 6 accesses, 64
// registers hold the exponentials of 4.
template <typename T, int VECTOR, int PACKS, int GROUP, bool EDGES, bool KEEP>
__global__ void __launch_bounds__(Bounds<T, PACKS, GROUP, KEEP>::threads, Bounds<T, PACKS, GROUP, KEEP>::blocks)
    softmax_registers(const T* __restrict__ x, T* __restrict__ y, std::int64_t rows, int columns, std::int64_t stride,
                      int slice, bool streaming, Team together) {
  constexpr int max_threads = Bounds<T, PACKS, GROUP, KEEP>::threads;
  constexpr bool group = GROUP < kBlockRow;
  constexpr bool cluster = GROUP == kClusterRow;
  constexpr bool team = GROUP == kTeamRow;
  constexpr bool keep = KEEP || sizeof(T) == 4 || VECTOR == 1 || PACKS == 1 || (group && PACKS <= 2);
  constexpr int kept = !keep ? 0 : sizeof(T) == 2 && PACKS == 6 ? 4 : PACKS;  // the accesses whose exponentials are kept
  __shared__ std::uint64_t barrier;  // of the block, for its cluster
#if KBENCH_CLUSTERS
  if constexpr (cluster) ClusterExchange::announce(&barrier);
#else
  if constexpr (cluster) return;  // the host does not launch it here
#endif
#ifdef __HIP_PLATFORM_AMD__
  if constexpr (team) return;  // nor this
#endif
  const std::int64_t row = group  ? std::int64_t(blockIdx.x) * (max_threads / GROUP) + threadIdx.x / GROUP
                           : team ? blockIdx.x / together.blocks
                                  : block_row<cluster>();
  const int rank = team ? blockIdx.x % together.blocks : block_rank<cluster>();
  x += row * stride;
  y += row * columns;
  // Threads beyond the last row have no elements, but take part in the shuffles.
  const Layout<T, VECTOR, EDGES> layout(x, !group || row < rows ? columns : 0);
  const int end = cluster || team ? min((rank + 1) * slice, layout.packs) : layout.packs;
  constexpr int edges = !EDGES ? 0 : group && GROUP < 2 * (VECTOR - 1) ? 2 : 1;  // per thread
  int edge[edges + 1];  // one more, because an array cannot be empty
#pragma unroll
  for (int e = 0; e < edges; ++e) {
    edge[e] = layout.edge(group ? threadIdx.x % GROUP + e * GROUP : rank * blockDim.x + threadIdx.x);
  }

  // `width` threads have neighbouring accesses, and the next access of each is `width` further. Each warp of a block has a
  // contiguous part, so the accesses of a thread are one address with constant offsets.
  constexpr int width = group ? GROUP : KBENCH_WARP_SIZE;
  int first = threadIdx.x % width;
  if (!group) first += rank * slice + threadIdx.x / width * (width * PACKS);
  const T* in = x + layout.head + std::int64_t(first) * VECTOR;

  Pack<T, VECTOR> packs[PACKS];
#pragma unroll
  for (int p = 0; p < PACKS; ++p) {
    packs[p].load_if(first + p * width < end, in + p * width * VECTOR, -INFINITY);
  }
  float edge_values[edges + 1];
#pragma unroll
  for (int e = 0; e < edges; ++e) edge_values[e] = edge[e] < layout.columns ? to_float(x[edge[e]]) : -INFINITY;

  __shared__ unsigned mark;  // of the block's own word before this launch
#ifndef __HIP_PLATFORM_AMD__
  if constexpr (team) {
    if (threadIdx.x == 0) mark = TeamWord::load(together.words + blockIdx.x).mark();
  }
#endif

  PackMax<T, VECTOR> packs_max;
#pragma unroll
  for (int p = 0; p < PACKS; ++p) packs_max.add(packs[p]);
  float max = packs_max.get();
#pragma unroll
  for (int e = 0; e < edges; ++e) max = fmaxf(max, edge_values[e]);
  max = shuffle_max<width>(max);

  // A group holds the whole row: if all of it is -inf, the result must be NaN.
  const float less = group ? max : shift(max);
  float exponentials[kept ? kept : 1][VECTOR];
  float sum = 0.0f;
#pragma unroll
  for (int p = 0; p < PACKS; ++p) {
    float elements[VECTOR];
    to_floats(packs[p], elements);
#pragma unroll
    for (int v = 0; v < VECTOR; ++v) {
      const float e = exponential<T>(elements[v] - less);
      if (p < kept) exponentials[p < kept ? p : 0][v] = e;
      sum += e;
    }
  }
#pragma unroll
  for (int e = 0; e < edges; ++e) sum += exponential<T>(edge_values[e] - less);

#ifndef __HIP_PLATFORM_AMD__
  if constexpr (sizeof(T) == 2 && width == KBENCH_WARP_SIZE && (group || cluster || team)) {
    sum = warp_sum<PACKS * VECTOR + edges>(sum);
  } else
#endif
  {
    sum = shuffle_sum<width>(sum);
  }
  Total total{max, sum};
  if constexpr (!group) {
    __shared__ float2 totals[max_threads / KBENCH_WARP_SIZE * (cluster ? kMaxCluster : 1)];
    if constexpr (team) {
#ifndef __HIP_PLATFORM_AMD__
      total = exchange_team<T, max_threads>(total, totals, together, mark);
#endif
    } else {
      total = exchange<T, cluster, max_threads>(total, totals, &barrier);
    }
  }
  const float scale = reciprocal(total.sum);
  const float kept_scale = group ? scale : exponential<T>(max - shift(total.max)) * scale;
  const float shrink = -log2_flush(total.sum);  // the same scale as an exponent: one operation less per element
  const auto again = [&](float element) {
    return from_float<T>(kept == PACKS ? exponential<T>(element - total.max) * scale
                                       : exp2_flush(fmaf(element - total.max, kLog2E, shrink)));
  };

  // A zero that the compiler does not know to be one (if the sum is NaN, its value does not matter). Otherwise the compiler
  // would see that elements are converted to fp32 a second time, and keep the first results, in twice the registers.
  const unsigned zero = total.sum != total.sum;
  KBENCH_OPAQUE(first);  // otherwise the addresses of the loads would stay in registers for the stores
  T* out = y + layout.head + std::int64_t(first) * VECTOR;
#pragma unroll
  for (int p = 0; p < PACKS; ++p) {
    if (first + p * width < end) {
      float elements[VECTOR];
      to_floats(p < kept ? packs[p] : packs[p].flipped(zero), elements);
      Pack<T, VECTOR> result;
#pragma unroll
      for (int v = 0; v < VECTOR; ++v) {
        const float e = exponentials[p < kept ? p : 0][v];
        result.values[v] = p < kept ? from_float<T>(e * kept_scale) : again(elements[v]);
      }
      result.store(out + p * width * VECTOR, EDGES ? sizeof(T) == 2 : PACKS <= 8 && streaming);
    }
  }
#pragma unroll
  for (int e = 0; e < edges; ++e) {
    if (edge[e] < layout.columns) y[edge[e]] = again(edge_values[e]);
  }
}

// Launches with GROUP threads of a warp per row.
template <typename T, int VECTOR, int PACKS, int GROUP, bool EDGES>
cudaError_t launch_groups(const Rows& call) {
  constexpr int threads = Bounds<T, PACKS, GROUP, false>::threads;
  return launch(softmax_registers<T, VECTOR, PACKS, GROUP, EDGES, false>, ceil_div(call.rows, threads / GROUP), threads,
                call.stream, static_cast<const T*>(call.x), static_cast<T*>(call.y), call.rows, int(call.columns),
                call.stride, 0, streams<T>(call), Team{});
}

// Launches with `blocks` blocks per row, as large as their slices need. cudaErrorInvalidConfiguration if a row does not fit.
template <typename T, int VECTOR, int PACKS, bool EDGES, bool KEEP>
cudaError_t launch_blocks(const Rows& call, int blocks) {
  const std::int64_t packs = ceil_div(call.columns, VECTOR);
  const std::int64_t slice = blocks == 1 ? packs : ceil_div(packs, 8 * blocks) * 8;  // in steps of 128 bytes
  const std::int64_t threads = KBENCH_WARP_SIZE * ceil_div(slice, KBENCH_WARP_SIZE * PACKS);
  if (threads > Bounds<T, PACKS, kBlockRow, KEEP>::threads || blocks > largest_cluster()) {
    return cudaErrorInvalidConfiguration;
  }
  const auto x = static_cast<const T*>(call.x);
  const auto y = static_cast<T*>(call.y);
  if (blocks == 1) {
    return launch(softmax_registers<T, VECTOR, PACKS, kBlockRow, EDGES, KEEP>, call.rows, int(threads), call.stream, x,
                  y, call.rows, int(call.columns), call.stride, 0, streams<T>(call), Team{});
  }
  return launch_clusters(softmax_registers<T, VECTOR, PACKS, kClusterRow, EDGES, KEEP>, call.rows, blocks, int(threads),
                         call.stream, x, y, call.rows, int(call.columns), call.stride, int(slice), streams<T>(call),
                         Team{});
}

// Launches with a team of `blocks` blocks per row. cudaErrorInvalidConfiguration if a row does not fit.
template <typename T, int VECTOR, int PACKS, bool EDGES>
cudaError_t launch_team(const Rows& call, int blocks) {
  const std::int64_t slice = ceil_div(ceil_div(call.columns, VECTOR), 8 * blocks) * 8;  // in steps of 128 bytes
  const std::int64_t threads = KBENCH_WARP_SIZE * ceil_div(slice, KBENCH_WARP_SIZE * PACKS);
  const std::int64_t all = call.rows * blocks;
  if (threads > Bounds<T, PACKS, kTeamRow, true>::threads || all > kTeamBlocks) return cudaErrorInvalidConfiguration;
  return launch_together(softmax_registers<T, VECTOR, PACKS, kTeamRow, EDGES, true>, int(all), int(threads), call.stream,
                         static_cast<const T*>(call.x), static_cast<T*>(call.y), call.rows, int(call.columns),
                         call.stride, int(slice), streams<T>(call), Team::of(call.words, int(all), blocks));
}

}  // namespace kbench

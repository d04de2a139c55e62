// How a row is divided: which of its elements a thread holds.
#pragma once

#include "exchange.cuh"

namespace kbench {

// GROUP: the number of threads of a warp that share a row, or one of these values.
constexpr int kBlockRow = 1024;
constexpr int kClusterRow = 2048;

// The numbers that are fixed when a kernel is compiled. A thread holds PACKS accesses of VECTOR elements of each
// matrix. A row belongs to a group of threads, to a block, or, in slices, to a cluster of blocks. EDGES: rows
// need not begin and end at multiples of 16 bytes. KEEP: what the operator may keep in more registers; each says what
// that is.
template <typename TYPE, int VECTOR, int PACKS, int GROUP, bool EDGES, bool KEEP>
struct Shape {
  using T = TYPE;
  static constexpr int vector = VECTOR, packs = PACKS;
  static constexpr bool edges = EDGES, keep = KEEP;
  static constexpr bool group = GROUP < kBlockRow, cluster = GROUP == kClusterRow;
  // Threads with neighbouring accesses. The next access of each is as many accesses further.
  static constexpr int width = group ? GROUP : kWarpSize;
  // The most elements outside the accesses that a thread holds.
  static constexpr int thread_edges = !EDGES ? 0 : group && GROUP < 2 * (VECTOR - 1) ? 2 : 1;
};

// The 16-byte accesses of a row: `head` elements before the first multiple of 16 bytes, then `packs` accesses, then the
// rest. The elements outside the accesses are fewer than two accesses hold; thread i of the row takes the i-th of them.
template <typename T, int VECTOR, bool EDGES>
struct Layout {
  int head = 0;
  int packs;
  int columns;

  __device__ __forceinline__ Layout(const T* row, int columns) : columns(columns) {
    if constexpr (EDGES) {
      const int beyond = int(reinterpret_cast<std::uintptr_t>(row) / sizeof(T)) & (VECTOR - 1);
      head = min((VECTOR - beyond) & (VECTOR - 1), columns);
    }
    packs = (columns - head) / VECTOR;
  }

  // The index of the i-th element outside the accesses; beyond the row if there are fewer.
  __device__ __forceinline__ int edge(int i) const { return i < head ? i : packs * VECTOR + i; }
};

// Which of a row's elements belong to this thread, and which to its warp or group.
template <typename S>
struct Part {
  Layout<typename S::T, S::vector, S::edges> layout;
  int first, end;                // of the thread's accesses, and of those of its block
  int edge[S::thread_edges + 1];  // columns; one more, because an array cannot be empty

  // `row` may be any of the operator's matrices: all are misaligned by the same distance. Threads beyond the last row
  // have no elements, but take part in the shuffles. `slice`: the accesses of a block of a cluster, the rank-th of the
  // row.
  __device__ __forceinline__ Part(const typename S::T* row, int columns, int rank, int slice) : layout(row, columns) {
    end = S::cluster ? min((rank + 1) * slice, layout.packs) : layout.packs;
#pragma unroll
    for (int e = 0; e < S::thread_edges; ++e) {
      edge[e] = layout.edge(S::group ? threadIdx.x % S::width + e * S::width : rank * blockDim.x + threadIdx.x);
    }
    // Each warp of a block has a contiguous part, so the accesses of a thread are one address with constant offsets.
    first = threadIdx.x % S::width;
    if (!S::group) first += rank * slice + threadIdx.x / S::width * (S::width * S::packs);
  }

  __device__ __forceinline__ bool has(int p) const { return first + p * S::width < end; }
  __device__ __forceinline__ bool has_edge(int e) const { return edge[e] < layout.columns; }

  // Whether it is the first thread of a row, and that row exists.
  __device__ __forceinline__ bool leads() const { return first == 0 && layout.columns > 0; }

  // The column of the thread's first element, and the distance of its p-th access from there.
  __device__ __forceinline__ std::int64_t column() const { return layout.head + std::int64_t(first) * S::vector; }
  static __device__ __forceinline__ constexpr int offset(int p) { return p * S::width * S::vector; }

  // The elements that the threads of this warp or group hold together.
  __device__ __forceinline__ int elements() const {
    if constexpr (S::group) return layout.columns;
    const int begin = first - threadIdx.x % S::width;
    const int accesses = max(0, min(end - begin, S::width * S::packs));
    return accesses * S::vector + (begin == 0 ? layout.columns - layout.packs * S::vector : 0);
  }
};

// The most threads of a block, and the fewest such blocks that a multiprocessor must hold. Both limit the registers of
// a thread. PACKS: the accesses of all matrices that are read. 32 registers for 2 accesses, 40 for 4, 64 for 8, and with
// KEEP. More rows in flight are better than more elements per thread. Fewer, larger slices are better only if a cluster
// could not hold the row otherwise. An operator's Row begins with these limits, and with nothing to do before the row arrives and
// before an access is written.
template <typename S, int PACKS = S::packs>
struct Bounds {
  static constexpr int threads = S::group ? 128 : PACKS <= 4 ? 512 : PACKS <= 8 ? 1024 : 256;
  static constexpr int blocks = S::group     ? (PACKS <= 2 ? 12 : PACKS <= 4 ? 10 : 8)
                                : S::keep    ? 2
                                : PACKS <= 2 ? 4
                                : PACKS <= 4 ? 3
                                : PACKS <= 8 ? 1
                                             : (sizeof(typename S::T) == 4 ? 2 : KBENCH_CLUSTERS ? 4 : 3);

  template <typename Arguments>
  __device__ __forceinline__ void begin(const Arguments&, const Part<S>&) {}
  __device__ __forceinline__ void prepare(int, const Part<S>&) {}
};

// Calls function(element) with each element of the accesses of a thread, in fp32; and the same for those outside them.
template <typename S, typename Packs, typename Function>
__device__ __forceinline__ void for_each(const Packs& packs, Function function) {
#pragma unroll
  for (int p = 0; p < S::packs; ++p) {
    float elements[S::vector];
    to_floats(packs[p], elements);
#pragma unroll
    for (int v = 0; v < S::vector; ++v) function(elements[v]);
  }
}
template <typename S, typename Edges, typename Function>
__device__ __forceinline__ void for_each_edge(const Edges& edges, Function function) {
#pragma unroll
  for (int e = 0; e < S::thread_edges; ++e) function(edges[e]);
}

}  // namespace kbench

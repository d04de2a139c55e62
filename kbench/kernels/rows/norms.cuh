// Norms, and their vectors with an element for each column: how a thread gets its elements, and who shares a row. The rows
// that a multiprocessor computes share the vectors, so they mostly come from its cache.
#pragma once

#include <type_traits>

#include "sharing.cuh"

namespace kbench {

// For operators that need a vector before they write, or that have no `prepare`: they fetch nothing ahead.
constexpr int kNeverAhead = 1024;

// The elements at any address, which no kernel writes, by the accesses of 16 bytes that hold them. Each contains an element,
// so they do not reach beyond the allocation.
template <typename T, int VECTOR>
__device__ __forceinline__ void load_anywhere(Pack<T, VECTOR>& pack, const T* address) {
  constexpr int quads = VECTOR * sizeof(T) / 16, count = 4 * quads;  // words of 4 bytes
  const unsigned beyond = unsigned(reinterpret_cast<std::uintptr_t>(address)) & 15;
  const uint4* from = reinterpret_cast<const uint4*>(reinterpret_cast<std::uintptr_t>(address) - beyond);
  unsigned words[count + 4];
#pragma unroll
  for (int q = 0; q <= quads; ++q) {
    const uint4 quad = __ldg(from + (q < quads || beyond ? q : q - 1));
    memcpy(words + 4 * q, &quad, sizeof quad);
  }
#pragma unroll
  for (int w = 0; w < count + 2; ++w) words[w] = beyond & 8 ? words[w + 2] : words[w];
#pragma unroll
  for (int w = 0; w < count + 1; ++w) words[w] = beyond & 4 ? words[w + 1] : words[w];
  if constexpr (sizeof(T) == 2) {
#pragma unroll
    for (int w = 0; w < count; ++w) words[w] = beyond & 2 ? words[w] >> 16 | words[w + 1] << 16 : words[w];
  }
  memcpy(pack.values, words, sizeof pack.values);
}

// The elements of one vector that belong to a thread. MIXED: rows in 16 bits, vectors in fp32. With KEEP, the thread fetches
// them before the row arrives and keeps them in registers. Otherwise it fetches them when it writes, or, if it has at least
// AHEAD accesses, one access ahead: the first one while the totals are exchanged.
template <typename S, bool MIXED, int AHEAD = 4>
struct Columns {
  using W = std::conditional_t<MIXED, float, typename S::T>;
  static constexpr bool ahead = !S::keep && !S::edges && !S::group && S::packs >= AHEAD;
  const W* values;
  Pack<W, S::vector> packs[S::keep || ahead ? S::packs : 1];
  float edges[S::keep ? S::thread_edges + 1 : 1];

  __device__ __forceinline__ void begin(const void* vector, const Part<S>& part) {
    values = static_cast<const W*>(vector);
    if constexpr (S::keep) {
#pragma unroll
      for (int p = 0; p < S::packs; ++p) packs[p] = fetch(p, part);
#pragma unroll
      for (int e = 0; e < S::thread_edges; ++e) edges[e] = fetch_edge(e, part);
    }
  }

  // Called before the access before the p-th is written.
  __device__ __forceinline__ void prepare(int p, const Part<S>& part) {
    if constexpr (ahead) packs[p] = fetch(p, part);
  }

  // In fp32.
  __device__ __forceinline__ void get(InPack at, const Part<S>& part, float (&floats)[S::vector]) const {
    to_floats(S::keep || ahead ? packs[S::keep || ahead ? at.p : 0] : fetch(at.p, part), floats);
  }
  __device__ __forceinline__ void get(InEdge at, const Part<S>& part, float (&floats)[1]) const {
    floats[0] = S::keep ? edges[S::keep ? at.e : 0] : fetch_edge(at.e, part);
  }

 private:
  __device__ __forceinline__ Pack<W, S::vector> fetch(int p, const Part<S>& part) const {
    const W* address = values + part.column() + part.offset(p);
    Pack<W, S::vector> pack;
    if constexpr (S::edges) {  // the accesses of a row begin at columns that are no multiples of 16 bytes in the vector
      pack.fill(0.0f);
      if (part.has(p)) load_anywhere(pack, address);
    } else {
      pack.load_if(part.has(p), address, 0.0f);
    }
    return pack;
  }
  __device__ __forceinline__ float fetch_edge(int e, const Part<S>& part) const {
    return part.has_edge(e) ? to_float(__ldg(values + part.edge[e])) : 0.0f;
  }
};

// ---------------------------------------------------------------------------------------------------------------------
// Who shares a row. The lines were measured on an H200.

// As many blocks as have slices of at least this many bytes.
inline int blocks_of_at_least(std::int64_t slice, std::int64_t bytes) {
  int blocks = 1;
  while (2 * blocks * slice <= bytes && blocks < device().largest_cluster) blocks *= 2;
  return blocks;
}

// Each block of a row fetches its part of the vectors while the row is on its way, or while it is written.
inline Sharing share_norm(const Rows& rows, int vectors) {
  const int inputs = rows.inputs;
  if (const Sharing sharing = share_short_row(rows, kLongestShort); sharing.packs) return sharing;
  const std::int64_t row = rows.bytes, total = rows.count * row;
  if (total <= 4 * kMiB) {  // the device is not full: the more threads fetch a row, the sooner it arrives
    if (rows.count <= 16 && row <= 16 * kKiB) return {0, 1, blocks_of_at_most(4 * kKiB, rows.all_inputs()), true};
    if (row <= 16 * kKiB) return {0, row <= 4 * kKiB ? 1 : 2, 1, true};
    if (row <= 256 * kKiB) return {0, 2, blocks_of_at_most(4 * kKiB, row), true};
  }
  if (row <= 6 * kKiB / inputs) return {0, 2 / inputs, 1};
  if (inputs == 2) {
    if (row < 8 * kKiB) return {0, 2, 1};
    if (row <= 16 * kKiB) return {0, 4, 1};
    if (row <= 256 * kKiB) return {0, 2, blocks_of_at_least(8 * kKiB, row), true};
    return {0, 4, blocks_of_at_most(16 * kKiB, row)};
  }
  if (total <= 8 * kMiB && row <= 8 * kKiB) return {0, 2, 1, vectors == 1};
  if (row <= 16 * kKiB) return {0, 4, 1};
  // The vectors of a cluster's blocks come from the L2 cache. With two of them, a block for the whole row is faster.
  if (vectors == 2 && row <= 64 * kKiB) return {0, row <= 32 * kKiB ? 4 : 8, 1};
  if (vectors == 1 && row <= 128 * kKiB) return {0, 4, blocks_of_at_most(16 * kKiB, row)};
  return {0, 8, blocks_of_at_most(32 * kKiB, row)};
}

// The same where norm_ways has fewer ways: for rows that begin anywhere, and for vectors in fp32 beside rows in 16 bits, which
// have the bytes of two vectors in 16 bits.
template <bool MIXED>
Sharing share_norm_of(const Rows& rows) {
  const Sharing sharing = share_norm(rows, MIXED ? 2 : rows.vectors);
  const std::int64_t row = rows.bytes;
  if (!MIXED && !rows.edges) return sharing;
  if (sharing.group) return rows.edges || row > 256 ? Sharing{32, 3, 1} : Sharing{16, 1, 1};
  if (MIXED && rows.edges) return {0, 4, std::max(sharing.blocks, blocks_of_at_most(16 * kKiB, row))};
  if (MIXED && rows.inputs == 1 && !sharing.keep && row > 32 * kKiB) {
    return {0, rows.vectors == 1 && row <= 128 * kKiB ? 4 : 8, blocks_of_at_most(32 * kKiB, row)};
  }
  return {0, std::max(sharing.packs, 2), sharing.blocks, sharing.keep};
}

// Those of share_row with Block<1, true> and Block<2, true>. No model has rows of a norm that begin anywhere. They come from
// views, and have few ways: each takes time to compile.
template <int INPUTS, bool MIXED, bool EDGES>
constexpr auto norm_ways() {
  if constexpr (MIXED && EDGES) {
    return Ways<Group<32, 3>, Block<4>>();
  } else if constexpr (MIXED || EDGES) {
    constexpr std::conditional_t<EDGES, Ways<Group<32, 3>, Block<2>, Block<4>>,
                                 Ways<Group<16, 1>, Group<32, 3>, Block<2, true>, Block<2, false, false>, Block<4>>>
        ways;
    if constexpr (INPUTS == 1) {
      return ways + Ways<Block<8>>();
    } else {
      return ways;
    }
  } else {
    return row_ways<INPUTS>() + Ways<Block<1, true>, Block<2, true>>();
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// What norms have in common

// A norm reads and writes so many matrices. MIXED: see Columns.
template <int MATRICES, bool MIXED>
struct Norm {
  static constexpr int inputs = MATRICES, outputs = MATRICES;
  static constexpr float kPadding = 0.0f;

  static Sharing share(const Rows& rows) { return share_norm_of<MIXED>(rows); }
  template <typename T, bool EDGES>
  static constexpr auto ways() {
    return norm_ways<MATRICES, MIXED, EDGES>();
  }
};

// What an RMS norm needs beside its matrices.
struct RmsArguments {
  const void* weight;
  float eps;
};

// The weight of an RMS norm, and the factor of a row from the sum of its squares. PACKS: see Bounds.
template <typename S, bool MIXED, int PACKS = S::packs>
struct RmsRow : Bounds<S, PACKS> {
  using Total = Sum;
  Columns<S, MIXED> weight;
  float eps, rstd;

  __device__ __forceinline__ void begin(const RmsArguments& arguments, const Part<S>& part) {
    weight.begin(arguments.weight, part);
    eps = arguments.eps;
  }
  __device__ __forceinline__ void prepare(int p, const Part<S>& part) { weight.prepare(p, part); }
  __device__ __forceinline__ void finish(Sum squares, int columns, std::int64_t) {
    rstd = rsqrtf(squares.sum / columns + eps);
  }
};

// Calls function(zero, mixed) with a zero of x's type. `mixed` is std::true_type for vectors in fp32 beside an x in 16 bits.
template <typename Function>
cudaError_t with_types(const Tensor& x, const Tensor& vector, Function function) {
  return with_type(x.dtype, [&](auto zero) {
    if constexpr (sizeof zero == 2) {
      if (vector.dtype == Dtype::float32) return function(zero, std::true_type());
    }
    return function(zero, std::false_type());
  });
}

}  // namespace kbench

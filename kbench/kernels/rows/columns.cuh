// Vectors with an element for each column, such as the weights of a norm. The rows that a multiprocessor computes share
// them, so they mostly come from its cache.
#pragma once

#include <type_traits>

#include "registers.cuh"

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

}  // namespace kbench

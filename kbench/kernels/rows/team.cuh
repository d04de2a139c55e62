// For so few rows that even clusters would leave most of the device idle: a team of blocks anywhere on the device
// shares a row. The blocks exchange their results through words in global memory.
#pragma once

#include "exchange.cuh"
#include "rowwise.h"
#include "warps.cuh"

namespace kbench {

// The blocks of a row of the grid share a row of the matrix. Every block has one of `words`; the other words are spare.
struct Team {
  std::uint64_t* words = nullptr;
  int left = 0;

  // Launches with about as many blocks use the same words: those from the smallest power of two that is at least `all`.
  // So there are fewer spare words than blocks.
  static Team of(std::uint64_t* words, int all) {
    int count = 1;
    while (count < all) count *= 2;
    return {words + count, count - all};
  }

  // The words of this row's team, of this block, and the spare word that this block may have to mark.
  __device__ __forceinline__ std::uint64_t* row_words() const { return words + blockIdx.y * gridDim.x; }
  __device__ __forceinline__ std::uint64_t* own_word() const { return row_words() + blockIdx.x; }
  __device__ __forceinline__ std::uint64_t* spare_word() const { return own_word() + gridDim.y * gridDim.x; }
  __device__ __forceinline__ bool has_spare_word() const { return int(blockIdx.y * gridDim.x + blockIdx.x) < left; }
};

#ifndef __HIP_PLATFORM_AMD__
// A word holds a total and a mark, written in one store: others see both or none. The mark is bit 31, which must be 0
// in `total.word()`; `Total::of_word` is the inverse. The upper half of `total.word()` must never be all ones: see `zero`.
// A launch inverts the marks of all its words, the spare ones included. So all marks are equal before and after a launch
// of any shape. Before it writes, a block reads the mark of its own word; a word belongs to this launch if its mark
// differs from that. Nothing must be cleared, neither between launches nor between replays of a graph.
struct TeamWord {
  std::uint64_t bits;

  // The word at an address. If it is not `needed`, this is `otherwise`, and nothing is loaded.
  static __device__ __forceinline__ TeamWord load_if(bool needed, const std::uint64_t* address, TeamWord otherwise) {
    TeamWord word = otherwise;
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; @p ld.relaxed.gpu.global.u64 %0, [%1]; }"
                 : "+l"(word.bits)
                 : "l"(address), "r"(int(needed))
                 : "memory");
    return word;
  }
  static __device__ __forceinline__ TeamWord of(std::uint64_t total, unsigned mark) {
    return {total | mark << 31};
  }
  __device__ __forceinline__ void store(std::uint64_t* address) const {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(address), "l"(bits) : "memory");
  }
  __device__ __forceinline__ unsigned mark() const { return unsigned(bits) >> 31; }
  // 0, in a way that the compiler cannot know: no total has this upper half.
  __device__ __forceinline__ unsigned zero() const { return unsigned(bits >> 32) == 0xffffffffu; }
  __device__ __forceinline__ std::uint64_t total() const { return bits & ~std::uint64_t(0x80000000u); }
};

// Combines the totals of warps into that of the row, for all threads. `mark` is the mark of the block's own word before this
// launch; only the first warp needs it.
template <int MAX_THREADS, typename Total>
__device__ __forceinline__ Total exchange_team(Total warp_total, Total* totals, Team team, unsigned mark) {
  __shared__ Total row_total;
  const Total mine = exchange<false, MAX_THREADS>(warp_total, totals);
  if (threadIdx.x < KBENCH_WARP_SIZE) {
    if (threadIdx.x == 0) {
      TeamWord::of(mine.word(), mark ^ 1).store(team.own_word());
      if (team.has_spare_word()) TeamWord::of(Total::none().word(), mark ^ 1).store(team.spare_word());
    }
    constexpr int each = 3, step = each * KBENCH_WARP_SIZE;  // words of a thread at a time; with more, registers would be spilled
    const int blocks = gridDim.x, lane = threadIdx.x;
    const TeamWord none = TeamWord::of(Total::none().word(), mark ^ 1);
    Total parts[each + 1];  // the last one is the total of all words except the first `step` of the row
    parts[each] = Total::none();
    int first = (blocks - 1) / step * step;
    const std::uint64_t* words = team.row_words() + lane + first;
    asm volatile("" : "+l"(words));  // otherwise the compiler computes every address again before every load
#pragma unroll 1
    while (true) {
      TeamWord found[each];
      bool waiting;
      do {
#pragma unroll
        for (int w = 0; w < each; ++w) {
          const int further = w * KBENCH_WARP_SIZE;
          found[w] = TeamWord::load_if(first + further + lane < blocks, words + further, none);
        }
        waiting = false;
#pragma unroll
        for (int w = 0; w < each; ++w) waiting |= found[w].mark() == mark;
      } while (__any_sync(0xffffffffu, waiting));
#pragma unroll
      for (int w = 0; w < each; ++w) parts[w] = Total::of_word(found[w].total());
      if (first == 0) break;
#pragma unroll
      for (int w = 0; w < each; ++w) parts[each].add(parts[w]);
      first -= step;
      words -= step;
    }
    const Total row = reduce_parts(parts);
    if (threadIdx.x == 0) row_total = row;
  }
  __syncthreads();
  return row_total;
}
#endif

}  // namespace kbench

// For so few rows that even clusters would leave most of the device idle: a team of blocks anywhere on the device
// shares a row. The blocks exchange their results through words in global memory.
#pragma once

#include "exchange.cuh"
#include "rowwise.h"
#include "warps.cuh"

namespace kbench {

// `blocks` blocks with consecutive numbers share a row. Every block has one of `words`; the other words are spare.
struct Team {
  std::uint64_t* words = nullptr;
  int blocks = 1, left = 0;

  // Launches with about as many blocks use the same words: those from the smallest power of two that is at least `all`.
  // So there are fewer spare words than blocks.
  static Team of(std::uint64_t* words, int all, int blocks) {
    int count = 1;
    while (count < all) count *= 2;
    return {words + count, blocks, count - all};
  }
};

#ifndef __HIP_PLATFORM_AMD__
// A word holds a total and a mark, written in one store: others see both or none. The mark is bit 31, which must be 0
// in `total.word()`; `Total::of_word` is the inverse. A launch inverts the marks of all its words, the spare ones
// included. So all marks are equal before and after a launch of any shape. Before it writes, a block reads the mark of
// its own word; a word belongs to this launch if its mark differs from that. Nothing must be cleared, neither between
// launches nor between replays of a graph.
struct TeamWord {
  std::uint64_t bits;

  static __device__ __forceinline__ TeamWord load(const std::uint64_t* address) {
    TeamWord word;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word.bits) : "l"(address) : "memory");
    return word;
  }
  static __device__ __forceinline__ TeamWord of(std::uint64_t total, unsigned mark) {
    return {total | mark << 31};
  }
  __device__ __forceinline__ void store(std::uint64_t* address) const {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(address), "l"(bits) : "memory");
  }
  __device__ __forceinline__ unsigned mark() const { return unsigned(bits) >> 31; }
  __device__ __forceinline__ std::uint64_t total() const { return bits & ~std::uint64_t(0x80000000u); }
};

// Combines the totals of warps into that of the row, for all threads. `before` is the mark of the block's own word
// before this launch; thread 0 has written it to shared memory.
template <int MAX_THREADS, typename Total>
__device__ __forceinline__ Total exchange_team(Total warp_total, Total* totals, Team team, const unsigned& before) {
  __shared__ Total row_total;
  const Total mine = exchange<false, MAX_THREADS>(warp_total, totals);
  if (threadIdx.x < KBENCH_WARP_SIZE) {
    const unsigned mark = before;
    if (threadIdx.x == 0) {
      TeamWord::of(mine.word(), mark ^ 1).store(team.words + blockIdx.x);
      if (blockIdx.x < team.left) TeamWord::of(Total::none().word(), mark ^ 1).store(team.words + gridDim.x + blockIdx.x);
    }
    const std::uint64_t* words = team.words + blockIdx.x / team.blocks * team.blocks;
    constexpr int each = 4;  // words at a time; with more, registers would be spilled
    Total row = Total::none();
#pragma unroll 1
    for (int first = threadIdx.x; first - int(threadIdx.x) < team.blocks; first += each * KBENCH_WARP_SIZE) {
      TeamWord found[each];
      bool waiting;
      do {
        waiting = false;
#pragma unroll
        for (int w = 0; w < each; ++w) {
          const int i = first + w * KBENCH_WARP_SIZE;
          if (i < team.blocks) found[w] = TeamWord::load(words + i);
        }
#pragma unroll
        for (int w = 0; w < each; ++w) {
          if (first + w * KBENCH_WARP_SIZE < team.blocks) waiting |= found[w].mark() == mark;
        }
      } while (__any_sync(0xffffffffu, waiting));
#pragma unroll
      for (int w = 0; w < each; ++w) {
        if (first + w * KBENCH_WARP_SIZE < team.blocks) row.add(Total::of_word(found[w].total()));
      }
    }
    row = row.template reduce<KBENCH_WARP_SIZE>();
    if (threadIdx.x == 0) row_total = row;
  }
  __syncthreads();
  return row_total;
}
#endif

}  // namespace kbench

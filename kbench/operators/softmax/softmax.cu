// Row-wise softmax: a ladder of four steps (ladder.cuh), and `best`, which picks a kernel for each shape.
//
// All accumulate in fp32 and follow torch on special values: a row of -inf, and a row with a NaN or a +inf, becomes NaN.
#include "ladder.cuh"
#include "registers.cuh"
#include "streamed.cuh"

namespace kbench {

// Short rows, by their length in bytes: so many threads of a warp share one, with so many accesses of 16 bytes each. No
// barrier, and several rows in flight per warp.
struct ShortRow {
  int bytes, group, packs;
};
constexpr ShortRow kShort[] = {{128, 8, 1}, {256, 16, 1}, {512, 16, 2}, {1024, 32, 2}, {2048, 32, 4}};

// Longer rows: so many accesses a thread, in `blocks` blocks of as many threads as the row needs.
struct Blocks {
  int packs, blocks;
};

constexpr std::int64_t kKiB = 1024, kMiB = 1024 * kKiB;

// Accesses of a thread, and the most that a block of such threads is given: 256 threads, or 384 where a cluster cannot
// have more blocks. 16 accesses of fp32 leave room for 2 such blocks on a multiprocessor: only where nothing else is left.
struct Size {
  int packs;
  std::int64_t bytes;
};
constexpr Size kSizes[] = {{2, 8 * kKiB}, {4, 16 * kKiB}, {8, 48 * kKiB}, {12, 48 * kKiB}, {16, 64 * kKiB}};

// Accesses a thread should have. Rows that together take up to 4 MiB do not fill the device: the more blocks fetch them,
// the sooner they are there. Beyond 8 MiB what counts is the bytes in flight on a multiprocessor, and how seldom its blocks
// wait for others: 32 KiB a block, or 48 of 16 bits, which need registers for both forms of an element.
inline int wanted_packs(std::int64_t total, int itemsize) {
  if (total <= 4 * kMiB) return 2;
  if (total <= 8 * kMiB) return 4;
  return total <= 64 * kMiB || itemsize == 4 ? 8 : 12;
}

// The blocks of a row longer than kShort's.
inline Blocks share(std::int64_t bytes, std::int64_t rows, int itemsize) {
  const std::int64_t total = rows * bytes;
  if (bytes <= 4 * kKiB) return {total <= 4 * kMiB ? 2 : 4, 1};
  if (bytes <= 8 * kKiB || (bytes <= 16 * kKiB && total > 4 * kMiB)) return {2, 1};
  const int wanted = wanted_packs(total, itemsize);
  const int largest = largest_cluster();
  std::int64_t blocks = ceil_div(bytes, wanted * 4 * kKiB);
  // The multiprocessors that form clusters come in groups of 16 or 18: where a cluster of 10 fits once, one of 16 does as
  // well. But few clusters of 16 are there at a time, so shorter rows have at most 8, unless there is hardly more than one.
  if (blocks > 8 && rows > 4 && bytes <= 256 * kKiB) blocks = 8;
  if (blocks > 10 || blocks > largest) blocks = largest;
  for (const Size& size : kSizes) {
    if (size.packs >= wanted && bytes <= blocks * size.bytes) return {size.packs, int(blocks)};
  }
  return {8, int(blocks)};  // of up to 1024 threads, where there are no clusters
}

template <typename T, bool EDGES>
cudaError_t launch_short(const Call& call, int group, int packs) {
  constexpr int V = kVector<T>;
  if constexpr (!EDGES) {  // the elements at the edges, up to 14, take a thread each
    if (group == 8) return launch_groups<T, V, 1, 8, EDGES>(call);
  }
  if (group <= 16 && packs == 1) return launch_groups<T, V, 1, 16, EDGES>(call);
  if (group == 16) return launch_groups<T, V, 2, 16, EDGES>(call);
  if (packs == 2) return launch_groups<T, V, 2, 32, EDGES>(call);
  return launch_groups<T, V, 4, 32, EDGES>(call);
}

template <typename T, bool EDGES>
cudaError_t launch_long(const Call& call, Blocks blocks) {
  constexpr int V = kVector<T>;
  switch (blocks.packs) {
    case 2:
      return launch_blocks<T, V, 2, EDGES>(call, blocks.blocks);
    case 4:
      return launch_blocks<T, V, 4, EDGES>(call, blocks.blocks);
    case 8:
      return launch_blocks<T, V, 8, EDGES>(call, blocks.blocks);
    case 12:
      return launch_blocks<T, V, 12, EDGES>(call, blocks.blocks);
    case 16:
      return launch_blocks<T, V, 16, EDGES>(call, blocks.blocks);
    default:
      return cudaErrorInvalidConfiguration;
  }
}

template <typename T, bool EDGES>
cudaError_t dispatch(const Call& call) {
  const std::int64_t bytes = call.columns * sizeof(T);
  if (!call.packs && !call.blocks) {
    for (const ShortRow& line : kShort) {
      if (bytes <= line.bytes) return launch_short<T, EDGES>(call, line.group, line.packs);
    }
  }
  Blocks blocks = share(bytes, call.rows, sizeof(T));
  if (call.packs || call.blocks) blocks = {call.packs ? call.packs : 8, call.blocks ? call.blocks : 1};
  const cudaError_t error = launch_long<T, EDGES>(call, blocks);
  if (error != cudaErrorInvalidConfiguration || call.packs || call.blocks) return error;
  // More than the registers of a block, or of a cluster, hold.
  return EDGES ? launch_streamed<T, 1, 8>(call) : launch_streamed<T, kVector<T>, 4>(call);
}

// The same for rows whose distance from a multiple of 16 bytes is not the same in x and y: an element per access.
template <typename T>
cudaError_t dispatch_scalar(const Call& call) {
  if (call.columns <= 32 * 4) return launch_groups<T, 1, 4, 32, false>(call);
  if (call.columns <= 256 * 16) return launch_blocks<T, 1, 16, false>(call, 1);
  return launch_streamed<T, 1, 8>(call);
}

// Rows of the same distance from a multiple of 16 bytes in x and y: 16-byte accesses between single elements at the ends.
template <typename T>
bool same_alignment(const Call& call) {
  const auto beyond = [](const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16; };
  return beyond(call.x) == beyond(call.y) && (call.rows == 1 || (call.stride - call.columns) % kVector<T> == 0);
}

cudaError_t best(const Call& call) {
  return with_type(call.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (rows_aligned<T>(call)) return dispatch<T, false>(call);
    return same_alignment<T>(call) ? dispatch<T, true>(call) : dispatch_scalar<T>(call);
  });
}

const Kernel kernels[] = {
    {"naive", naive}, {"online", online}, {"shared", shared}, {"shuffle", shuffle}, {"best", best}, {nullptr, nullptr},
};

}  // namespace kbench

// Row-wise softmax: a ladder of four steps (ladder.cuh), and `best`, which picks a kernel for each shape.
//
// All accumulate in fp32 and follow torch on special values: a row of -inf, and a row with a NaN or a +inf, becomes NaN.
#include "ladder.cuh"
#include "registers.cuh"
#include "streamed.cuh"

#include <algorithm>

namespace kbench {

// Short rows, by their length in bytes: so many threads of a warp share one, with so many accesses of 16 bytes each. No
// barrier, and several rows in flight per warp. Instructions bound the shortest: lanes without elements take as many as
// those that have some, so there is a line for every few lengths.
struct ShortRow {
  int bytes, group, packs;
};
constexpr ShortRow kShort[] = {{128, 8, 1},   {256, 16, 1},  {384, 8, 3},   {512, 32, 1},  {768, 16, 3},
                               {1024, 32, 2}, {1536, 32, 3}, {2048, 32, 4}, {3072, 32, 6}};

// So few rows do not fill the device, and what counts is how soon one is done: a warp or more has it to itself.
constexpr int kFewRows = 2048;

// Longer rows: so many accesses a thread, in `blocks` blocks of as many threads as the row needs.
struct Blocks {
  int packs, blocks;
};

constexpr std::int64_t kKiB = 1024, kMiB = 1024 * kKiB;

constexpr std::int64_t blocks_of(std::int64_t bytes, std::int64_t slice) {
  std::int64_t blocks = 1;
  while (blocks * slice < bytes) blocks *= 2;
  return blocks;
}

// All rows together take up to 8 MiB, which does not fill the device: the more threads and blocks fetch a row, the sooner it
// is there. A cluster of 16 blocks finds its place later than one of 8. That is worth it where up to 4 rows have the device
// to themselves, and for rows of more than 96 Ki elements; save for 5 to 8 of fp32, which can be on the device at once in
// clusters of 8 blocks, and not of 16.
inline Blocks share_few(std::int64_t bytes, std::int64_t rows, int itemsize) {
  if (bytes <= 8 * kKiB && rows * bytes <= 4 * kMiB) return {1, 1};  // the device has a thread for every access
  if (bytes <= 16 * kKiB) return {2, 1};
  const bool alone = rows <= 4 && bytes > 96 * kKiB;
  const bool long_row = bytes > 96 * 1024 * itemsize && (rows > 8 || itemsize == 2);
  const std::int64_t blocks = bytes <= 24 * kKiB ? 4 : alone || long_row ? 16 : 8;
  const std::int64_t slice = ceil_div(bytes, blocks);
  return {slice <= 8 * kKiB ? 2 : slice <= 20 * kKiB ? 4 : 8, int(blocks)};
}

// Little but these blocks fits on a multiprocessor: of 20 accesses a thread two, in steps of 10 KiB; of 8, one or two.
inline Blocks share_longest(std::int64_t bytes) { return {bytes <= 768 * kKiB ? 20 : 8, 16}; }

// The device is full: what counts is the bytes in flight on a multiprocessor, and how seldom its blocks wait for others.
// Rows that begin where cache lines do take slices of 16 KiB, and long ones of 16 bits 16 of them, whatever their size.
// Otherwise every warp has parts of lines at its ends, and few long stretches are better than many short ones: 32 KiB, or
// 48 of 16 bits, which need registers for both forms of an element.
inline Blocks share_many(std::int64_t bytes, int itemsize) {
  const bool lines = bytes % 128 == 0;
  if (bytes <= 6 * kKiB || (!lines && bytes <= 16 * kKiB)) return {2, 1};
  if (bytes < 16 * kKiB) return {4, 1};
  if (lines && bytes == 16 * kKiB) return {4, 2};
  if (lines && bytes <= 128 * kKiB) return {4, int(blocks_of(bytes, 16 * kKiB))};
  if (lines && itemsize == 2 && bytes > 192 * kKiB && bytes <= 768 * kKiB) return {bytes <= 256 * kKiB ? 8 : 12, 16};
  if (itemsize == 4 || (lines && bytes <= 256 * kKiB)) {
    return bytes <= 512 * kKiB ? Blocks{8, int(ceil_div(bytes, 32 * kKiB))} : share_longest(bytes);
  }
  if (bytes <= 768 * kKiB) return {12, int(ceil_div(bytes, 48 * kKiB))};
  return share_longest(bytes);
}

// The blocks of a row longer than kShort's.
inline Blocks share(std::int64_t bytes, std::int64_t rows, int itemsize) {
  const Blocks wanted = rows * bytes <= 8 * kMiB ? share_few(bytes, rows, itemsize) : share_many(bytes, itemsize);
  const int largest = largest_cluster();
  if (wanted.blocks > 1 && wanted.blocks > largest) return {8, largest};  // of up to 1024 threads
  // The multiprocessors that form clusters come in groups of 16 or 18: where a cluster of 11 fits once, one of 16 does as
  // well.
  return wanted.blocks > 10 ? Blocks{wanted.packs, largest} : wanted;
}

// So few rows are shared by blocks anywhere on the device, a multiprocessor for each, where clusters of 16 would leave most
// of it idle. To wait for words in global memory takes 1.1 us: rows of so many bytes gain more, and where there are no
// clusters, shorter ones.
constexpr int kTeamRows = 8;
constexpr std::int64_t kTeamBytes = 384 * kKiB, kTeamBytesAlone = 64 * kKiB;
constexpr std::int64_t kTeamElements = 24 * 1024;  // of a block at most

inline bool shared_by_team(std::int64_t bytes, std::int64_t rows) {
  return rows <= kTeamRows && bytes > (largest_cluster() > 1 ? kTeamBytes : kTeamBytesAlone);
}

// The blocks of a row. More than 64 wait longer than they save, unless the row needs them.
inline int team_blocks(std::int64_t columns, std::int64_t rows) {
  int blocks = columns <= 64 * kTeamElements ? 64 : kTeamWords;
  while (blocks > 1 && rows * blocks > std::min(kTeamWords, multiprocessors())) blocks /= 2;
  return blocks;
}

template <typename T, bool EDGES>
cudaError_t launch_short(const Call& call, int group, int packs) {
  constexpr int V = kVector<T>;
  if (group == 8) return packs == 1 ? launch_groups<T, V, 1, 8, EDGES>(call) : launch_groups<T, V, 3, 8, EDGES>(call);
  if (group == 16) return packs == 1 ? launch_groups<T, V, 1, 16, EDGES>(call) : launch_groups<T, V, 3, 16, EDGES>(call);
  switch (packs) {
    case 1:
      return launch_groups<T, V, 1, 32, EDGES>(call);
    case 2:
      return launch_groups<T, V, 2, 32, EDGES>(call);
    case 3:
      return launch_groups<T, V, 3, 32, EDGES>(call);
    case 4:
      return launch_groups<T, V, 4, 32, EDGES>(call);
    default:
      return launch_groups<T, V, 6, 32, EDGES>(call);
  }
}

template <typename T, bool EDGES>
cudaError_t launch_long(const Call& call, Blocks blocks) {
  constexpr int V = kVector<T>;
  switch (blocks.packs) {
    case 1:
      return launch_blocks<T, V, 1, EDGES>(call, blocks.blocks);
    case 2:
      return launch_blocks<T, V, 2, EDGES>(call, blocks.blocks);
    case 4:
      return launch_blocks<T, V, 4, EDGES>(call, blocks.blocks);
    case 8:
      return launch_blocks<T, V, 8, EDGES>(call, blocks.blocks);
    case 12:
      return launch_blocks<T, V, 12, EDGES>(call, blocks.blocks);
    case 20:
      return launch_blocks<T, V, 20, EDGES>(call, blocks.blocks);
    default:
      return cudaErrorInvalidConfiguration;
  }
}

// 16 elements a thread, or 32 where the blocks do not hold the row otherwise.
template <typename T, bool EDGES>
cudaError_t launch_teams(const Call& call, int blocks) {
  constexpr int V = kVector<T>;
  const cudaError_t error = launch_team<T, V, 16 / V, EDGES>(call, blocks);
  return error == cudaErrorInvalidConfiguration ? launch_team<T, V, 32 / V, EDGES>(call, blocks) : error;
}

template <typename T, bool EDGES>
cudaError_t dispatch(const Call& call) {
  const std::int64_t bytes = call.columns * sizeof(T);
  if (call.words && !call.packs && !call.blocks && shared_by_team(bytes, call.rows)) {
    const int blocks = team_blocks(call.columns, call.rows);
    const cudaError_t error = blocks > 1 ? launch_teams<T, EDGES>(call, blocks) : cudaErrorInvalidConfiguration;
    if (error != cudaErrorInvalidConfiguration) return error;
  }
  if (!call.packs && !call.blocks) {
    // A block is ahead of a warp sooner in few rows; and unless edges are left to it.
    const bool few = call.rows <= kFewRows;
    const std::int64_t longest = few && sizeof(T) == 2 ? 1024 : few || !EDGES ? 1536 : 3072;
    for (const ShortRow& line : kShort) {
      if (few && line.group < 32) continue;
      if (bytes <= line.bytes && bytes <= longest) return launch_short<T, EDGES>(call, line.group, line.packs);
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
  const cudaError_t error = launch_blocks<T, 1, 16, false>(call, 1);
  return error == cudaErrorInvalidConfiguration ? launch_streamed<T, 1, 8>(call) : error;  // more than a block holds
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

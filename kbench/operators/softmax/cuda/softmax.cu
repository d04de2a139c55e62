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

// Longer rows: so many accesses a thread, in `blocks` blocks of as many threads as the row needs. `keep`: 16-bit rows keep
// their exponentials, in twice the registers, rather than compute each twice.
struct Blocks {
  int packs, blocks;
  bool keep = false;
};

constexpr std::int64_t kKiB = 1024, kMiB = 1024 * kKiB;

constexpr std::int64_t blocks_of(std::int64_t bytes, std::int64_t slice) {
  std::int64_t blocks = 1;
  while (blocks * slice < bytes) blocks *= 2;
  return blocks;
}

// So many clusters of 16 blocks are on an H200 at once with a multiprocessor for each block. When there is one more, blocks
// share theirs.
constexpr int kClusters = 7;

// 16-bit rows that clusters of 16 blocks hold best with 6 accesses a thread, when there is not a place for every block.
constexpr std::int64_t kSixFrom = 160 * kKiB, kSixTo = 16 * 24 * kKiB;

// All rows together do not fill the device: the more threads and blocks fetch a row, the sooner it is there. A cluster of 16
// blocks finds its place later than one of 8. That is worth it where the rows have the device to themselves, and where slices
// are long otherwise, save for one row more than have their places at once. Exponentials are kept: registers are free, and
// nothing hides how long it takes to compute them again. Where they are not, since clusters of 16 bits share their places
// with others, a thread has 6 accesses and keeps most.
inline Blocks share_few(std::int64_t bytes, std::int64_t rows, int itemsize) {
  if (bytes <= 8 * kKiB && rows * bytes <= 4 * kMiB) return {1, 1};  // the device has a thread for every access
  if (bytes <= 16 * kKiB) return {2, 1, true};
  const bool crowded = itemsize == 2 && rows * bytes >= 6 * kMiB;
  const bool alone = rows <= kClusters && bytes > 96 * kKiB;
  const bool one_more = !crowded && rows % kClusters == 1 && bytes <= (itemsize == 2 ? 256 : 384) * kKiB;
  const bool long_row = !one_more && bytes > (itemsize == 4 ? 256 * kKiB : crowded ? kSixFrom : 192 * kKiB);
  const std::int64_t blocks = alone || long_row ? 16 : 8;
  const std::int64_t slice = ceil_div(bytes, blocks);
  if (slice <= 8 * kKiB) return {blocks == 16 ? 4 : 2, int(blocks), true};
  if (itemsize == 4) return {slice <= 20 * kKiB ? 4 : 8, int(blocks)};
  if (blocks == 8 || (slice <= 16 * kKiB && !crowded)) return {4, int(blocks), true};
  return bytes <= kSixTo ? Blocks{6, 16, true} : Blocks{8, 16};
}

// Little but these blocks fits on a multiprocessor: of 20 accesses a thread two, in steps of 10 KiB; of 8, one or two.
inline Blocks share_longest(std::int64_t bytes) { return {bytes <= 768 * kKiB ? 20 : 8, 16}; }

// The device is full: what counts is the bytes in flight on a multiprocessor, and how seldom its blocks wait for others.
// Rows that begin where cache lines do take slices of 16 KiB, and long ones of 16 bits 16 of them, whatever their size, with
// 12 accesses a thread, save for slices that 8 fill exactly.
// Otherwise every warp has parts of lines at its ends, and few long stretches are better than many short ones: 32 KiB, or
// 48 of 16 bits, which need registers for both forms of an element.
inline Blocks share_many(std::int64_t bytes, int itemsize) {
  const bool lines = bytes % 128 == 0;
  if (bytes <= 6 * kKiB || (!lines && bytes <= 16 * kKiB)) return {2, 1};
  if (bytes < 16 * kKiB) return {4, 1};
  if (lines && bytes == 16 * kKiB) return {4, 2};
  if (lines && bytes <= 128 * kKiB) return {4, int(blocks_of(bytes, 16 * kKiB))};
  if (lines && itemsize == 2 && bytes > 192 * kKiB && bytes <= 768 * kKiB) {
    return {bytes <= 256 * kKiB || (bytes > 448 * kKiB && bytes <= 512 * kKiB) ? 8 : 12, 16};
  }
  if (itemsize == 4 || (lines && bytes <= 256 * kKiB)) {
    return bytes <= 512 * kKiB ? Blocks{8, int(ceil_div(bytes, 32 * kKiB))} : share_longest(bytes);
  }
  if (bytes <= 768 * kKiB) return {12, int(ceil_div(bytes, 48 * kKiB))};
  return share_longest(bytes);
}

// The blocks of a row longer than kShort's.
inline Blocks share(std::int64_t bytes, std::int64_t rows, int itemsize) {
  const bool six = itemsize == 2 && bytes > kSixFrom && bytes <= kSixTo;
  const bool few = rows * bytes <= (six ? 12 : 8) * kMiB;
  const Blocks wanted = few ? share_few(bytes, rows, itemsize) : share_many(bytes, itemsize);
  const int largest = largest_cluster();
  if (wanted.blocks > 1 && wanted.blocks > largest) return {8, largest};  // of up to 1024 threads
  // The multiprocessors that form clusters come in groups of 16 or 18: where a cluster of 11 fits once, one of 16 does as
  // well.
  return wanted.blocks > 10 ? Blocks{wanted.packs, largest, wanted.keep} : wanted;
}

// The blocks of a row whose blocks are anywhere on the device: a team. They tell each other what they found through global
// memory, which takes 0.5 us longer than a cluster does, so rows have to be long. 0 where clusters are ahead.
//
// Up to 4 rows would leave most of the device idle in clusters: they have a block for every 16 KiB, which waits for few. More
// rows have two blocks on every multiprocessor, or one while they have few elements: where clusters of 16 leave a fifth of
// their places empty, or have long slices.
constexpr std::int64_t kTeamElements = 16 * 1024;   // of a block, where two share a multiprocessor
constexpr std::int64_t kAloneElements = 1'250'000;  // of a matrix whose blocks do not

inline int team_blocks(std::int64_t bytes, std::int64_t rows, int itemsize) {
  const bool clusters = largest_cluster() > 1;
  if (bytes <= (clusters ? 384 : 64) * kKiB) return 0;
  const std::int64_t places = (rows * bytes <= kAloneElements * itemsize ? 1 : 2) * multiprocessors();
  if (rows <= 4) {
    std::int64_t blocks = std::min<std::int64_t>(blocks_of(bytes, 16 * kKiB), 64);
    while (blocks * rows > places) blocks /= 2;
    if (bytes <= blocks * kTeamElements * itemsize) return int(blocks);
  }
  const bool fits = rows <= kClusters || 5 * rows > 4 * kClusters * ceil_div(rows, kClusters);
  if (clusters && fits && bytes <= (rows <= kClusters ? 768 : 512) * kKiB) return 0;
  const int blocks = int(places / rows);
  return blocks % 32 == 1 ? blocks - 1 : blocks;  // else a lane of the warp that waits has a second word to read
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
  constexpr bool K = sizeof(T) == 2;  // fp32 exponentials take the place of the elements as it is
  switch (blocks.packs) {
    case 1:
      return launch_blocks<T, V, 1, EDGES, false>(call, blocks.blocks);
    case 2:
      return blocks.keep ? launch_blocks<T, V, 2, EDGES, K>(call, blocks.blocks)
                         : launch_blocks<T, V, 2, EDGES, false>(call, blocks.blocks);
    case 4:
      return blocks.keep ? launch_blocks<T, V, 4, EDGES, K>(call, blocks.blocks)
                         : launch_blocks<T, V, 4, EDGES, false>(call, blocks.blocks);
    case 6:
      return launch_blocks<T, V, 6, EDGES, K>(call, blocks.blocks);
    case 8:
      return launch_blocks<T, V, 8, EDGES, false>(call, blocks.blocks);
    case 12:
      return launch_blocks<T, V, 12, EDGES, false>(call, blocks.blocks);
    case 20:
      return launch_blocks<T, V, 20, EDGES, false>(call, blocks.blocks);
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

// Rows that no cluster holds: as many at a time as the device does. cudaErrorInvalidConfiguration where that is none.
template <typename T, bool EDGES>
cudaError_t launch_team_after_team(const Call& call) {
  const std::int64_t places = 2 * multiprocessors();
  const std::int64_t at_once = places / ceil_div(call.columns, kTeamElements);
  if (!call.words || at_once == 0) return cudaErrorInvalidConfiguration;
  for (std::int64_t first = 0; first < call.rows; first += at_once) {
    Call part = call;
    part.x = static_cast<const T*>(call.x) + first * call.stride;
    part.y = static_cast<T*>(call.y) + first * call.columns;
    part.rows = std::min(at_once, call.rows - first);
    const cudaError_t error = launch_teams<T, EDGES>(part, int(places / part.rows));
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

template <typename T, bool EDGES>
cudaError_t dispatch(const Call& call) {
  const std::int64_t bytes = call.columns * sizeof(T);
  if (call.words && !call.packs && !call.blocks) {
    const int blocks = team_blocks(bytes, call.rows, sizeof(T));
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
  if (call.packs || call.blocks) blocks = {call.packs ? call.packs : 8, call.blocks ? call.blocks : 1, blocks.keep};
  cudaError_t error = launch_long<T, EDGES>(call, blocks);
  if (error != cudaErrorInvalidConfiguration || call.packs || call.blocks) return error;
  // More than the registers of a block, or of a cluster, hold.
  error = launch_team_after_team<T, EDGES>(call);
  if (error != cudaErrorInvalidConfiguration) return error;
  return EDGES ? launch_streamed<T, 1, 8>(call) : launch_streamed<T, kVector<T>, 4>(call);
}

// The same for rows whose distance from a multiple of 16 bytes is not the same in x and y: an element per access.
template <typename T>
cudaError_t dispatch_scalar(const Call& call) {
  if (call.columns <= 32 * 4) return launch_groups<T, 1, 4, 32, false>(call);
  const cudaError_t error = launch_blocks<T, 1, 16, false, false>(call, 1);
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

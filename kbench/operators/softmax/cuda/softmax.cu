// Row-wise softmax: a ladder of four steps (ladder.cuh), and `best`, which chooses a kernel for each shape.
//
// All kernels accumulate in fp32 and treat special values as torch does: a row of -inf becomes NaN, and so does a row with
// a NaN or a +inf.
#include "ladder.cuh"
#include "rows/softmax_row.cuh"
#include "streamed.cuh"

#include <algorithm>
#include <string>

namespace kbench {

// Short rows, by their length in bytes: the threads of a warp that share a row, and the 16-byte accesses of each. There is
// no barrier, and a warp has several rows in flight. Instructions limit the shortest rows. Lanes without elements take as
// many instructions as others, so there is a line for every few lengths.
struct ShortRow {
  int bytes, group, packs;
};
constexpr ShortRow kShort[] = {{128, 8, 1},   {256, 16, 1},  {384, 8, 3},   {512, 32, 1},  {768, 16, 3},
                               {1024, 32, 2}, {1536, 32, 3}, {2048, 32, 4}, {3072, 32, 6}};

// Up to kFewRows rows do not fill the device, and the latency of a row counts: each has a warp or more to itself. With up to
// kFewestRows, a warp is faster than a block also for fp32 rows of 2 KiB.
constexpr int kFewRows = 2048, kFewestRows = 64;

// Longer rows: 16-byte accesses per thread, in `blocks` blocks of as many threads as the row needs. `keep`: 16-bit rows keep
// their exponentials, in twice the registers, instead of computing each twice.
struct Blocks {
  int packs, blocks;
  bool keep = false;
};

constexpr std::int64_t kKiB = 1024, kMiB = 1024 * kKiB;

constexpr std::int64_t blocks_of(std::int64_t length, std::int64_t slice) {
  std::int64_t blocks = 1;
  while (blocks * slice < length) blocks *= 2;
  return blocks;
}

// The clusters of 16 blocks that an H200 holds at once with a multiprocessor for each block. With one cluster more, blocks
// share multiprocessors.
constexpr int kClusters = 7;

// Bytes of 16-bit rows for which clusters of 16 blocks are fastest with 6 accesses per thread, if blocks share
// multiprocessors.
constexpr std::int64_t kSixFrom = 160 * kKiB, kSixTo = 16 * 24 * kKiB;

// All rows together do not fill the device. The more threads and blocks fetch a row, the sooner it arrives. A cluster of 16
// blocks starts later than one of 8. It pays if every block has a multiprocessor to itself, and if slices would otherwise be
// long, except for one row more than fit at once. Exponentials are kept: registers are free, and nothing would hide the time
// to compute them again. Registers are not free if clusters of 16-bit rows share multiprocessors; a thread then has 6
// accesses and keeps most exponentials.
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

// Whether there is a kernel with 16 accesses per thread. Its registers hold elements of fp32, and little else.
template <typename T, bool EDGES>
constexpr bool kWide = sizeof(T) == 4 && !EDGES;

// A multiprocessor holds few blocks of this size: two with 20 accesses per thread, in steps of 10 KiB; three of up to 64 KiB
// with 16, if the row is `wide`; one or two with 8.
inline Blocks share_longest(std::int64_t bytes, bool wide) {
  return {bytes <= 768 * kKiB ? 20 : wide && bytes <= kMiB ? 16 : 8, 16};
}

// The device is full. What counts are the bytes in flight on a multiprocessor, and that its blocks seldom wait for others.
// Rows that begin with a cache line get slices of 16 KiB. Long 16-bit rows get 16 slices of any size, with 12 accesses per
// thread, or 8 if those fill the slice exactly.
// Other rows leave every warp with partial cache lines at its ends, so few long slices are better than many short ones: 32
// KiB, or 48 KiB in 16 bits, which need registers for both forms of an element.
inline Blocks share_many(std::int64_t bytes, int itemsize, bool wide) {
  const bool lines = bytes % 128 == 0;
  if (bytes <= 6 * kKiB || (!lines && bytes <= 16 * kKiB)) return {2, 1};
  if (bytes < 16 * kKiB) return {4, 1};
  if (lines && bytes == 16 * kKiB) return {4, 2};
  if (lines && bytes <= 128 * kKiB) return {4, int(blocks_of(bytes, 16 * kKiB))};
  if (lines && itemsize == 2 && bytes > 192 * kKiB && bytes <= 768 * kKiB) {
    return {bytes <= 256 * kKiB || (bytes > 448 * kKiB && bytes <= 512 * kKiB) ? 8 : 12, 16};
  }
  if (itemsize == 4 || (lines && bytes <= 256 * kKiB)) {
    return bytes <= 512 * kKiB ? Blocks{8, int(ceil_div(bytes, 32 * kKiB))} : share_longest(bytes, wide);
  }
  if (bytes <= 768 * kKiB) return {12, int(ceil_div(bytes, 48 * kKiB))};
  return share_longest(bytes, wide);
}

// The blocks of a row that is longer than those of kShort. `wide`: see kWide.
inline Blocks share(std::int64_t bytes, std::int64_t rows, int itemsize, bool wide) {
  const bool six = itemsize == 2 && bytes > kSixFrom && bytes <= kSixTo;
  const bool few = rows * bytes <= (six ? 12 : 8) * kMiB;
  const Blocks wanted = few ? share_few(bytes, rows, itemsize) : share_many(bytes, itemsize, wide);
  const int largest = largest_cluster();
  if (wanted.blocks > 1 && wanted.blocks > largest) return {8, largest};  // blocks of up to 1024 threads
  // The multiprocessors that can form a cluster come in groups of 16 or 18. A group that holds one cluster of 11 blocks
  // also holds one of 16.
  return wanted.blocks > 10 ? Blocks{wanted.packs, largest, wanted.keep} : wanted;
}

// The blocks of a row that is shared by a team: blocks anywhere on the device. They exchange results through global memory,
// which takes 0.5 us longer than in a cluster, so it pays for long rows only. 0 if clusters are faster.
//
// Up to 4 rows in clusters would leave most of the device idle. As teams they have up to 64 blocks: one row has a block per
// 8 KiB, more rows have one per 16 KiB, which wait for few others. More than 4 rows become teams if clusters of 16 would leave
// a fifth of the multiprocessors empty, or have long slices. They have two blocks per multiprocessor, or one if there are few
// elements.
constexpr std::int64_t kTeamElements = 16 * 1024;   // of a block, if two share a multiprocessor
constexpr std::int64_t kAloneElements = 1'250'000;  // of a matrix whose blocks do not share

inline int team_blocks(std::int64_t bytes, std::int64_t rows, int itemsize) {
  const bool clusters = largest_cluster() > 1;
  if (bytes <= (clusters ? 384 : 64) * kKiB) return 0;
  const std::int64_t places = (rows * bytes <= kAloneElements * itemsize ? 1 : 2) * multiprocessors();
  if (rows <= 4) {
    std::int64_t blocks = std::min<std::int64_t>(blocks_of(bytes, (rows == 1 ? 8 : 16) * kKiB), 64);
    while (blocks * rows > places) blocks /= 2;
    if (bytes <= blocks * kTeamElements * itemsize) return int(blocks);
  }
  const bool fits = rows <= kClusters || 5 * rows > 4 * kClusters * ceil_div(rows, kClusters);
  if (clusters && fits && bytes <= (rows <= kClusters ? 768 : 512) * kKiB) return 0;
  const int blocks = int(places / rows);
  return blocks % 32 == 1 ? blocks - 1 : blocks;  // otherwise one lane of the waiting warp has a second word to read
}

template <typename T>
RowsCall<T, Softmax> as_rows(const Rows& call) {
  return {{{static_cast<const T*>(call.x)}, {static_cast<T*>(call.y)}, {call.stride}, {call.columns}}, {},
          call.rows, call.columns, cache_hint(matrix_bytes<T>(call), 2), call.stream};
}

template <typename T, bool EDGES>
cudaError_t launch_short(const Rows& short_rows, int group, int packs) {
  constexpr int V = kVector<T>;
  const auto call = as_rows<T>(short_rows);
  if (group == 8) return packs == 1 ? launch_groups<V, 1, 8, EDGES, false>(call) : launch_groups<V, 3, 8, EDGES, false>(call);
  if (group == 16) return packs == 1 ? launch_groups<V, 1, 16, EDGES, false>(call) : launch_groups<V, 3, 16, EDGES, false>(call);
  switch (packs) {
    case 1:
      return launch_groups<V, 1, 32, EDGES, false>(call);
    case 2:
      return launch_groups<V, 2, 32, EDGES, false>(call);
    case 3:
      return launch_groups<V, 3, 32, EDGES, false>(call);
    case 4:
      return launch_groups<V, 4, 32, EDGES, false>(call);
    default:
      return launch_groups<V, 6, 32, EDGES, false>(call);
  }
}

template <typename T, bool EDGES>
cudaError_t launch_long(const Rows& long_rows, Blocks blocks) {
  constexpr int V = kVector<T>;
  const auto call = as_rows<T>(long_rows);
  constexpr bool K = sizeof(T) == 2;  // fp32 exponentials replace the elements anyway
  switch (blocks.packs) {
    case 1:
      return launch_blocks<V, 1, EDGES, false>(call, blocks.blocks);
    case 2:
      return blocks.keep ? launch_blocks<V, 2, EDGES, K>(call, blocks.blocks)
                         : launch_blocks<V, 2, EDGES, false>(call, blocks.blocks);
    case 4:
      return blocks.keep ? launch_blocks<V, 4, EDGES, K>(call, blocks.blocks)
                         : launch_blocks<V, 4, EDGES, false>(call, blocks.blocks);
    case 6:
      return launch_blocks<V, 6, EDGES, K>(call, blocks.blocks);
    case 8:
      return launch_blocks<V, 8, EDGES, false>(call, blocks.blocks);
    case 12:
      return launch_blocks<V, 12, EDGES, false>(call, blocks.blocks);
    case 16:
      if constexpr (kWide<T, EDGES>) return launch_blocks<V, 16, EDGES, false>(call, blocks.blocks);
      return cudaErrorInvalidConfiguration;
    case 20:
      return launch_blocks<V, 20, EDGES, false>(call, blocks.blocks);
    default:
      return cudaErrorInvalidConfiguration;
  }
}

// Teams of `blocks` blocks. A thread has up to 32 elements.
template <typename T, bool EDGES>
cudaError_t launch_teams(const Rows& call, int blocks, int packs) {
  constexpr int V = kVector<T>;
  const auto rows = as_rows<T>(call);
  switch (packs) {
    case 1:
      return launch_team<V, 1, EDGES>(rows, call.words, blocks);
    case 2:
      return launch_team<V, 2, EDGES>(rows, call.words, blocks);
    case 4:
      return launch_team<V, 4, EDGES>(rows, call.words, blocks);
    case 8:
      if constexpr (sizeof(T) == 4) return launch_team<V, 8, EDGES>(rows, call.words, blocks);
  }
  return cudaErrorInvalidConfiguration;
}

// The fewest accesses per thread for which a block of a team has at most 256 threads; at most 32 elements per thread.
template <typename T>
int fewest_packs(std::int64_t columns, int blocks) {
  int packs = 1;
  while (packs < 32 / kVector<T> && ceil_div(columns, kVector<T> * blocks) > 256 * packs) packs *= 2;
  return packs;
}

// 16 elements per thread, or 32 if the blocks do not hold the row otherwise. A single row has the fewest accesses.
template <typename T, bool EDGES>
cudaError_t launch_teams(const Rows& call, int blocks) {
  if (call.rows == 1) return launch_teams<T, EDGES>(call, blocks, fewest_packs<T>(call.columns, blocks));
  const cudaError_t error = launch_teams<T, EDGES>(call, blocks, 16 / kVector<T>);
  return error == cudaErrorInvalidConfiguration ? launch_teams<T, EDGES>(call, blocks, 32 / kVector<T>) : error;
}

[[noreturn]] void refuse_teams(const Rows& call, int packs, int vector) {
  const std::string team = "team=" + std::to_string(call.team), rows = "M=" + std::to_string(call.rows);
  const std::int64_t all = call.rows * call.team;
  if (all > kTeamBlocks) {
    throw Unsupported(team + " needs " + std::to_string(all) + " blocks for " + rows + "; one launch of teams has at most " +
                      std::to_string(kTeamBlocks));
  }
  throw Unsupported(team + ", packs=" + std::to_string(packs) + " cannot share rows of N=" + std::to_string(call.columns) +
                    " for " + rows + ": a block holds at most " + std::to_string(1024 * packs * vector) +
                    " elements, and this device must hold all " + std::to_string(all) + " blocks at once");
}

// The teams that the caller requests. The caller may also request the accesses per thread.
template <typename T, bool EDGES>
cudaError_t launch_requested_teams(const Rows& call) {
  require(call.words, "`team` needs a mailbox and an NVIDIA GPU");
  require(call.packs <= 32 / kVector<T>, "packs=8 with `team` is for float32");
  const int packs = call.packs ? call.packs : fewest_packs<T>(call.columns, call.team);
  const cudaError_t error = launch_teams<T, EDGES>(call, call.team, packs);
  if (error == cudaErrorInvalidConfiguration) refuse_teams(call, packs, kVector<T>);
  return error;
}

// Rows that no cluster holds: as many at a time as the device holds. cudaErrorInvalidConfiguration if it holds none.
template <typename T, bool EDGES>
cudaError_t launch_team_after_team(const Rows& call) {
  const std::int64_t places = 2 * multiprocessors();
  const std::int64_t at_once = places / ceil_div(call.columns, kTeamElements);
  if (!call.words || at_once == 0) return cudaErrorInvalidConfiguration;
  for (std::int64_t first = 0; first < call.rows; first += at_once) {
    Rows part = call;
    part.x = static_cast<const T*>(call.x) + first * call.stride;
    part.y = static_cast<T*>(call.y) + first * call.columns;
    part.rows = std::min(at_once, call.rows - first);
    const cudaError_t error = launch_teams<T, EDGES>(part, int(places / part.rows));
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

[[noreturn]] void refuse(Blocks blocks, std::int64_t columns, bool wide) {
  if (blocks.packs == 16 && !wide) {
    throw Unsupported("packs=16 is for float32 rows that begin and end at multiples of 16 bytes");
  }
  throw Unsupported("packs=" + std::to_string(blocks.packs) + ", blocks=" + std::to_string(blocks.blocks) +
                    " cannot hold a row of N=" + std::to_string(columns) + " on this device");
}

template <typename T, bool EDGES>
cudaError_t dispatch(const Rows& call) {
  const std::int64_t bytes = call.columns * sizeof(T);
  if (call.team) return launch_requested_teams<T, EDGES>(call);
  if (call.words && !call.packs && !call.blocks) {
    const int blocks = team_blocks(bytes, call.rows, sizeof(T));
    const cudaError_t error = blocks > 1 ? launch_teams<T, EDGES>(call, blocks) : cudaErrorInvalidConfiguration;
    if (error != cudaErrorInvalidConfiguration) return error;
  }
  if (!call.packs && !call.blocks) {
    // A block per row overtakes a warp per row at shorter rows if the rows are few, and later if it has edges to compute.
    const bool few = call.rows <= kFewRows;
    const bool fewest = call.rows <= kFewestRows && !EDGES;
    const std::int64_t longest = few && sizeof(T) == 2 ? 1024 : fewest ? 2048 : few || !EDGES ? 1536 : 3072;
    for (const ShortRow& line : kShort) {
      if (few && line.group < 32) continue;
      if (bytes <= line.bytes && bytes <= longest) return launch_short<T, EDGES>(call, line.group, line.packs);
    }
  }
  Blocks blocks = share(bytes, call.rows, sizeof(T), kWide<T, EDGES>);
  if (call.packs || call.blocks) blocks = {call.packs ? call.packs : 8, call.blocks ? call.blocks : 1, blocks.keep};
  cudaError_t error = launch_long<T, EDGES>(call, blocks);
  if (error != cudaErrorInvalidConfiguration) return error;
  if (call.packs || call.blocks) refuse(blocks, call.columns, kWide<T, EDGES>);
  // The row does not fit into the registers of a block or of a cluster.
  error = launch_team_after_team<T, EDGES>(call);
  if (error != cudaErrorInvalidConfiguration) return error;
  return EDGES ? launch_streamed<T, 1, 8>(call) : launch_streamed<T, kVector<T>, 4>(call);
}

// If an access is one element: clusters share the rows of a matrix of up to kScalarFew elements, with kScalarSlice or more per
// block. In larger ones, a block has a row of up to kScalarRow; longer rows are read twice; clusters were slower.
constexpr std::int64_t kScalarFew = 1024 * 1024, kScalarSlice = 2048, kScalarRow = 4096;

// The same for rows whose distance from a multiple of 16 bytes differs between x and y: one element per access.
template <typename T>
cudaError_t dispatch_scalar(const Rows& call) {
  require(!call.team, "`team` needs rows of x and y that are equally far beyond a multiple of 16 bytes");
  const auto rows = as_rows<T>(call);
  if (call.columns <= 32 * 4) return launch_groups<1, 4, 32, false, false>(rows);
  const bool few = call.rows * call.columns <= kScalarFew;
  const int blocks = few ? int(std::min<std::int64_t>(blocks_of(call.columns, kScalarSlice), largest_cluster())) : 1;
  if (!few && call.columns > kScalarRow) return launch_streamed<T, 1, 8>(call);
  const cudaError_t error = launch_blocks<1, 8, false, false>(rows, blocks);
  return error == cudaErrorInvalidConfiguration ? launch_streamed<T, 1, 8>(call) : error;  // too long
}

// Rows with the same distance from a multiple of 16 bytes in x and y: 16-byte accesses, and single elements at both ends.
template <typename T>
bool same_alignment(const Rows& call) {
  const auto beyond = [](const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16; };
  return beyond(call.x) == beyond(call.y) && (call.rows == 1 || (call.stride - call.columns) % kVector<T> == 0);
}

cudaError_t best(const Call& arguments) {
  Rows call = rows_of(arguments);
  call.packs = static_cast<int>(arguments.integer("packs"));
  call.blocks = static_cast<int>(arguments.integer("blocks"));
  call.team = static_cast<int>(arguments.integer("team"));
  return with_type(call.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (rows_aligned<T>(call)) return dispatch<T, false>(call);
    return same_alignment<T>(call) ? dispatch<T, true>(call) : dispatch_scalar<T>(call);
  });
}

const std::vector<Kernel> kernels = {
    {"naive", rowwise<naive>, {"x"}, {"y"}, {}},
    {"online", rowwise<online>, {"x"}, {"y"}, {}},
    {"shared", rowwise<shared>, {"x"}, {"y"}, {}},
    {"shuffle", rowwise<shuffle>, {"x"}, {"y"}, {}},
    {"best", best, {"x"}, {"y"}, {"packs=0", "blocks=0", "team=0"}},  // see Rows; 0 leaves the number to the kernel
};

}  // namespace kbench

// Who shares a row of an operator: threads of a warp, a block, or a cluster of blocks, by the length of the row and by the
// number of rows. The table has what is chosen, a list of ways what is compiled, and `launch_rows` launches.
#pragma once

#include <string>

#include "registers.cuh"

namespace kbench {

// `group` threads of a warp share a row, or, if that is 0, `blocks` blocks of as many threads as the row needs. A
// thread has `packs` accesses of 16 bytes of each input. `keep`: see Shape.
struct Sharing {
  int group, packs, blocks;
  bool keep = false;
};

// ---------------------------------------------------------------------------------------------------------------------
// The table. The lines were measured on an H200.

// What the choice depends on. `bytes`: of a row of one input. `vectors`: of the columns, such as a weight. `edges`: whether
// rows begin anywhere.
struct Rows {
  std::int64_t count, bytes;
  int inputs, vectors, itemsize;
  bool edges;

  std::int64_t all_inputs() const { return bytes * inputs; }
};

constexpr std::int64_t kKiB = 1024, kMiB = 1024 * kKiB;

// As many blocks as have slices of at most this many bytes.
inline int blocks_of_at_most(std::int64_t slice, std::int64_t bytes) {
  int blocks = 1;
  while (blocks * slice < bytes && blocks < device().largest_cluster) blocks *= 2;
  return blocks;
}

// Up to kFewRows rows do not fill the device, and the latency of a row counts: each has a warp or more to itself.
constexpr int kFewRows = 2048;

// Groups of at least `fewest` threads for short rows, of up to `longest` bytes; no packs for longer ones. There is no
// barrier, and a warp has several rows in flight. Lanes without elements take as many instructions as others, so there is a
// line for every few lengths.
constexpr std::int64_t kLongestShort = 1536;

inline Sharing share_short_row(const Rows& rows, std::int64_t longest, int fewest = 8) {
  constexpr struct {
    int bytes, group, packs;
  } lines[] = {{128, 8, 1},  {256, 16, 1},  {384, 8, 3},   {512, 32, 1},
               {768, 16, 3}, {1024, 32, 2}, {1536, 32, 3}, {2048, 32, 4}};
  for (const auto& line : lines) {
    const bool fits = rows.bytes <= line.bytes && rows.bytes <= longest;
    if (fits && line.group >= (rows.count > kFewRows ? fewest : kWarpSize)) return {line.group, line.packs, 1};
  }
  return {0, 0, 1};
}

// For an operator without vectors of the columns: cross-entropy and the backward pass of softmax.
inline Sharing share_row(const Rows& rows, int fewest = 8) {
  const int inputs = rows.inputs;
  if (const Sharing sharing = share_short_row(rows, kLongestShort, fewest); sharing.packs) return sharing;
  const std::int64_t bytes = rows.all_inputs();
  const auto blocks_of = [&](std::int64_t slice) { return blocks_of_at_most(slice, bytes); };
  if (rows.count * bytes <= 8 * kMiB) {  // the device is not full: the more threads fetch a row, the sooner it arrives
    if (bytes <= 16 * kKiB) return {0, inputs == 2 || bytes <= 8 * kKiB ? 1 : 2, 1, true};
    return bytes <= 128 * kKiB ? Sharing{0, inputs == 2 ? 1 : 2, blocks_of(16 * kKiB), true}
                               : Sharing{0, 4, blocks_of(32 * kKiB * inputs)};
  }
  if (bytes <= 6 * kKiB) return {0, 2 / inputs, 1};
  if (bytes < 16 * kKiB) return {0, 4 / inputs, 1};
  if (bytes <= 64 * kKiB) return {0, 4 / inputs, blocks_of(16 * kKiB)};
  return {0, 8 / inputs, blocks_of(32 * kKiB)};
}

// ---------------------------------------------------------------------------------------------------------------------
// The ways that are compiled. An operator lists those that its table chooses: Op::ways<T, EDGES>().

// THREADS threads of a warp share a row.
template <int THREADS, int PACKS>
struct Group {
  static bool is(Sharing sharing) { return sharing.group == THREADS && sharing.packs == PACKS; }

  template <int VECTOR, bool EDGES, typename T, typename Op>
  static cudaError_t launch(const RowsCall<T, Op>& call, Sharing) {
    constexpr int threads = RowOf<T, VECTOR, PACKS, THREADS, EDGES, false, Op>::threads;
    if (call.columns > THREADS * PACKS * VECTOR) return cudaErrorInvalidConfiguration;
    return kbench::launch(rows_in_registers<T, VECTOR, PACKS, THREADS, EDGES, false, Op>,
                          ceil_div(call.rows, threads / THREADS), threads, call.stream, call.matrices, call.arguments,
                          call.rows, int(call.columns), 0, call.hint);
  }
};

// Blocks share a row, as large as their slices need. CLUSTERS: whether the kernel for more than one block is compiled.
template <int PACKS, bool KEEP = false, bool CLUSTERS = true>
struct Block {
  static bool is(Sharing sharing) { return !sharing.group && sharing.packs == PACKS && sharing.keep == KEEP; }

  template <int VECTOR, bool EDGES, typename T, typename Op>
  static cudaError_t launch(const RowsCall<T, Op>& call, Sharing sharing) {
    const int blocks = sharing.blocks;
    const std::int64_t packs = ceil_div(call.columns, VECTOR);
    const std::int64_t slice = blocks == 1 ? packs : ceil_div(packs, 8 * blocks) * 8;  // in steps of 128 bytes
    const std::int64_t threads = kWarpSize * ceil_div(slice, kWarpSize * PACKS);
    if (threads > RowOf<T, VECTOR, PACKS, kBlockRow, EDGES, KEEP, Op>::threads || blocks > device().largest_cluster) {
      return cudaErrorInvalidConfiguration;
    }
    if (blocks == 1) {
      return kbench::launch(rows_in_registers<T, VECTOR, PACKS, kBlockRow, EDGES, KEEP, Op>, call.rows, int(threads),
                            call.stream, call.matrices, call.arguments, call.rows, int(call.columns), 0, call.hint);
    }
    if constexpr (CLUSTERS) {
      return launch_clusters(rows_in_registers<T, VECTOR, PACKS, kClusterRow, EDGES, KEEP, Op>, call.rows, blocks,
                             int(threads), call.stream, call.matrices, call.arguments, call.rows, int(call.columns),
                             int(slice), call.hint);
    }
    return cudaErrorInvalidConfiguration;
  }
};

template <typename... WAYS>
struct Ways {};

template <typename... A, typename... B>
constexpr Ways<A..., B...> operator+(Ways<A...>, Ways<B...>) {
  return {};
}

// Launches the first of the ways that is the sharing. cudaErrorInvalidConfiguration if there is none, or if a row does not fit.
template <bool EDGES, typename T, typename Op, typename... WAYS>
cudaError_t launch_way(const RowsCall<T, Op>& call, Sharing sharing, Ways<WAYS...>) {
  cudaError_t error = cudaErrorInvalidConfiguration;
  const bool found =
      ((WAYS::is(sharing) && (error = WAYS::template launch<kVector<T>, EDGES>(call, sharing), true)) || ...);
  if (found || !sharing.keep) return error;
  return launch_way<EDGES>(call, {sharing.group, sharing.packs, sharing.blocks}, Ways<WAYS...>());
}

constexpr Ways<Group<8, 1>, Group<16, 1>, Group<8, 3>, Group<16, 3>> parts_of_warps;
constexpr Ways<Group<32, 1>, Group<32, 2>, Group<32, 3>, Block<1>, Block<2>, Block<4>> warps_and_blocks;

// The ways of share_row.
template <int INPUTS>
constexpr auto row_ways() {
  if constexpr (INPUTS == 1) {
    return parts_of_warps + warps_and_blocks + Ways<Block<8>>();
  } else {
    return parts_of_warps + warps_and_blocks;
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Launches

// The options of a kernel that `launch_rows` launches: a Sharing in blocks, which the caller requests in place of the table's.
#define KBENCH_ROW_OPTIONS "packs=0", "blocks=0"

template <int VECTOR, int PACKS, typename T, typename Op>
cudaError_t launch_twice(const RowsCall<T, Op>& call) {
  return launch(rows_read_twice<T, VECTOR, PACKS, Op>, call.rows, kMaxThreads, call.stream, call.matrices, call.arguments,
                int(call.columns));
}

template <bool EDGES, typename T, typename Op>
cudaError_t launch_shared(const Call& request, const RowsCall<T, Op>& call, int vectors) {
  constexpr auto ways = Op::template ways<T, EDGES>();
  const int packs = int(request.integer("packs")), blocks = int(request.integer("blocks"));
  if (packs || blocks) {
    const Sharing wanted = {0, packs ? packs : 4 / Op::inputs, blocks ? blocks : 1};
    const cudaError_t error = launch_way<EDGES>(call, wanted, ways);
    if (error != cudaErrorInvalidConfiguration) return error;
    throw Unsupported("packs=" + std::to_string(wanted.packs) + ", blocks=" + std::to_string(wanted.blocks) +
                      ": there is no such kernel, or it cannot hold a row of N=" + std::to_string(call.columns) +
                      " on this device");
  }
  const Rows rows = {call.rows, call.columns * std::int64_t(sizeof(T)), Op::inputs, vectors, sizeof(T), EDGES};
  cudaError_t error = launch_way<EDGES>(call, Op::share(rows), ways);
  if (error == cudaErrorInvalidConfiguration) {  // the most that registers hold
    error = launch_way<EDGES>(call, {0, 8 / Op::inputs, device().largest_cluster}, ways);
  }
  if (error != cudaErrorInvalidConfiguration) return error;
  return EDGES ? launch_twice<1, 8 / Op::inputs>(call) : launch_twice<kVector<T>, 4 / Op::inputs>(call);
}

// Computes the rows of all matrices. `vectors` are the addresses of the vectors of the columns.
template <typename T, typename Op>
cudaError_t launch_rows(const Call& request, const RowsCall<T, Op>& call, std::initializer_list<const void*> vectors) {
  constexpr int V = kVector<T>;
  const auto& m = call.matrices;
  bool aligned = call.columns % V == 0 && aligned16(m.in[0]), alike = true;
  for (const void* vector : vectors) aligned &= aligned16(vector);
  const auto beyond = [](const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16; };
  const auto look = [&](const void* address, std::int64_t stride) {
    aligned &= aligned16(address) && (stride % V == 0 || call.rows == 1);
    alike &= beyond(address) == beyond(m.in[0]) && ((stride - m.in_stride[0]) % V == 0 || call.rows == 1);
  };
  for (int i = 0; i < Op::inputs; ++i) look(m.in[i], m.in_stride[i]);
  for (int o = 0; o < Op::outputs; ++o) look(m.out[o], m.out_stride[o]);

  if (aligned) return launch_shared<false>(request, call, int(vectors.size()));
  if (alike) return launch_shared<true>(request, call, int(vectors.size()));
  // The matrices' distances from a multiple of 16 bytes differ: one element per access.
  if (call.columns <= 32 * 4) return Group<32, 4>::launch<1, false>(call, {});
  return launch_twice<1, 8 / Op::inputs>(call);
}

template <typename T, typename Op>
RowsCall<T, Op> rows_call(const Call& call, const typename Op::Arguments& arguments,
                          std::initializer_list<const Tensor*> inputs, std::initializer_list<const Tensor*> outputs) {
  const Tensor& x = **inputs.begin();
  const std::int64_t matrix_bytes = x.sizes[0] * x.sizes[1] * std::int64_t(sizeof(T));
  RowsCall<T, Op> rows = {{}, arguments, x.sizes[0], x.sizes[1], cache_hint(matrix_bytes, Op::inputs + Op::outputs),
                          call.stream};
  int i = 0, o = 0;
  for (const Tensor* in : inputs) {
    rows.matrices.in[i] = in->data<const T>();
    rows.matrices.in_stride[i++] = in->strides[0];
  }
  for (const Tensor* out : outputs) {
    rows.matrices.out[o] = out->data<T>();
    rows.matrices.out_stride[o++] = out->strides[0];
  }
  return rows;
}

}  // namespace kbench

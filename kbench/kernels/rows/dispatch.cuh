// Which kernel computes the rows of an operator, such as a norm: the threads that share a row, by its length and by the
// number of rows. The lines were measured on an H200.
#pragma once

#include <string>

#include "columns.cuh"
#include "rowwise.h"
#include "twice.cuh"

namespace kbench {

// `group` threads of a warp share a row, or, if that is 0, `blocks` blocks of as many threads as the row needs. A
// thread has `packs` accesses of 16 bytes of each input. `keep`: the vectors of the columns are fetched before the row
// arrives.
struct Sharing {
  int group, packs, blocks;
  bool keep;
};

constexpr std::int64_t kKiB = 1024, kMiB = 1024 * kKiB;

// As many blocks as have slices of at most, or of at least, this many bytes.
inline int blocks_of_at_most(std::int64_t slice, std::int64_t bytes) {
  int blocks = 1;
  while (blocks * slice < bytes && blocks < largest_cluster()) blocks *= 2;
  return blocks;
}
inline int blocks_of_at_least(std::int64_t slice, std::int64_t bytes) {
  int blocks = 1;
  while (2 * blocks * slice <= bytes && blocks < largest_cluster()) blocks *= 2;
  return blocks;
}

// Groups of threads for short rows; no packs for longer ones. `bytes`: of a row of all inputs together.
inline Sharing share_short_row(std::int64_t bytes, std::int64_t rows, int inputs) {
  const bool few = rows <= 2048;
  // Lanes without elements take as many instructions as others, so there is a line for every few lengths.
  constexpr struct {
    int bytes, group, packs;
  } short_rows[] = {{128, 8, 1}, {256, 16, 1}, {384, 8, 3}, {512, 32, 1}, {768, 16, 3}, {1024, 32, 2}, {1536, 32, 3}};
  for (const auto& line : short_rows) {
    if (bytes <= line.bytes * inputs && (!few || line.group == 32)) return {line.group, line.packs, 1, false};
  }
  return {0, 0, 1, false};
}

// For an operator without vectors of the columns: cross-entropy and the backward pass of softmax. The lines are those of
// softmax, but for those of long rows.
inline Sharing share_row(std::int64_t bytes, std::int64_t rows, int inputs) {
  if (const Sharing sharing = share_short_row(bytes, rows, inputs); sharing.packs) return sharing;
  const std::int64_t total = rows * bytes;
  const auto blocks_of = [&](std::int64_t slice) { return blocks_of_at_most(slice, bytes); };
  if (total <= 8 * kMiB) {  // the device is not full: the more threads fetch a row, the sooner it arrives
    if (bytes <= 16 * kKiB) return {0, inputs == 2 || bytes <= 8 * kKiB ? 1 : 2, 1, true};
    return bytes <= 128 * kKiB ? Sharing{0, inputs == 2 ? 1 : 2, blocks_of(16 * kKiB), true}
                               : Sharing{0, 4, blocks_of(32 * kKiB * inputs), false};
  }
  if (bytes <= 6 * kKiB) return {0, 2 / inputs, 1, false};
  if (bytes < 16 * kKiB) return {0, 4 / inputs, 1, false};
  if (bytes <= 64 * kKiB) return {0, 4 / inputs, blocks_of(16 * kKiB), false};
  return {0, 8 / inputs, blocks_of(32 * kKiB), false};
}

// For an operator with `vectors` of the columns, such as weight and bias. Each block of a row fetches its part of the
// vectors while the row is on its way, or while it is written.
inline Sharing share_norm(std::int64_t bytes, std::int64_t rows, int inputs, int vectors) {
  if (const Sharing sharing = share_short_row(bytes, rows, inputs); sharing.packs) return sharing;
  const std::int64_t total = rows * bytes / inputs, row = bytes / inputs;
  if (total <= 4 * kMiB) {  // the device is not full: the more threads fetch a row, the sooner it arrives
    if (rows <= 16 && row <= 16 * kKiB) return {0, 1, blocks_of_at_most(4 * kKiB, bytes), true};
    if (row <= 16 * kKiB) return {0, row <= 4 * kKiB ? 1 : 2, 1, true};
    if (row <= 256 * kKiB) return {0, 2, blocks_of_at_most(4 * kKiB, row), true};
  }
  if (row <= 6 * kKiB / inputs) return {0, 2 / inputs, 1, false};
  if (inputs == 2) {
    if (row < 8 * kKiB) return {0, 2, 1, false};
    if (row <= 16 * kKiB) return {0, 4, 1, false};
    if (row <= 256 * kKiB) return {0, 2, blocks_of_at_least(8 * kKiB, row), true};
    return {0, 4, blocks_of_at_most(16 * kKiB, row), false};
  }
  if (total <= 8 * kMiB && row <= 8 * kKiB) return {0, 2, 1, vectors == 1};
  if (row <= 16 * kKiB) return {0, 4, 1, false};
  // The vectors of a cluster's blocks come from the L2 cache. With two of them, a block for the whole row is faster.
  if (vectors == 2 && row <= 64 * kKiB) return {0, row <= 32 * kKiB ? 4 : 8, 1, false};
  if (vectors == 1 && row <= 128 * kKiB) return {0, 4, blocks_of_at_most(16 * kKiB, row), false};
  return {0, 8, blocks_of_at_most(32 * kKiB, row), false};
}

// The same for vectors in fp32 beside rows in 16 bits, for which launch_some has fewer kernels. EDGES: see Shape. A vector has
// the bytes of two in 16 bits.
template <bool EDGES>
Sharing share_mixed_norm(std::int64_t bytes, std::int64_t rows, int inputs, int vectors) {
  const Sharing sharing = share_norm(bytes, rows, inputs, 2);
  const std::int64_t row = bytes / inputs;
  if (sharing.group) return EDGES || row > 256 ? Sharing{32, 3, 1, false} : Sharing{16, 1, 1, false};
  if (EDGES) return {0, 4, std::max(sharing.blocks, blocks_of_at_most(16 * kKiB, row)), false};
  if (inputs == 1 && !sharing.keep && row > 32 * kKiB) {
    return {0, vectors == 1 && row <= 128 * kKiB ? 4 : 8, blocks_of_at_most(32 * kKiB, row), false};
  }
  return {0, std::max(sharing.packs, 2), sharing.blocks, sharing.keep};
}

// Which kernels are compiled, as an operator's kKernels says: those of launch_all or of launch_some.
enum class Kernels { all, some };

// With KEEP, a thread has registers for the vectors of at most Op::kMostKept accesses.
template <int PACKS, bool EDGES, typename T, typename Op>
cudaError_t launch_kept(const RowsCall<T, Op>& call, Sharing sharing) {
  if constexpr (PACKS <= Op::kMostKept) {
    if (sharing.keep) return launch_blocks<kVector<T>, PACKS, EDGES, true>(call, sharing.blocks);
  }
  return launch_blocks<kVector<T>, PACKS, EDGES, false>(call, sharing.blocks);
}

// What share_mixed_norm chooses.
template <bool EDGES, typename T, typename Op>
cudaError_t launch_some(const RowsCall<T, Op>& call, Sharing sharing) {
  constexpr int V = kVector<T>;
  const int way = sharing.group * 100 + sharing.packs;
  if (way == 3203) return launch_groups<V, 3, 32, EDGES, false>(call);
  if (way == 4) return launch_blocks<V, 4, EDGES, false>(call, sharing.blocks);
  if constexpr (!EDGES) {
    if (way == 1601) return launch_groups<V, 1, 16, EDGES, false>(call);
    if (way == 2 && sharing.keep) return launch_blocks<V, 2, EDGES, true>(call, sharing.blocks);
    if (way == 2) return launch_blocks<V, 2, EDGES, false, false>(call, sharing.blocks);
    if constexpr (Op::inputs == 1) {
      if (way == 8) return launch_blocks<V, 8, EDGES, false>(call, sharing.blocks);
    }
  }
  return cudaErrorInvalidConfiguration;
}

template <bool EDGES, typename T, typename Op>
cudaError_t launch_all(const RowsCall<T, Op>& call, Sharing sharing) {
  constexpr int V = kVector<T>;
  switch (sharing.group * 100 + sharing.packs) {
    case 801:
      return launch_groups<V, 1, 8, EDGES, false>(call);
    case 803:
      return launch_groups<V, 3, 8, EDGES, false>(call);
    case 1601:
      return launch_groups<V, 1, 16, EDGES, false>(call);
    case 1603:
      return launch_groups<V, 3, 16, EDGES, false>(call);
    case 3201:
      return launch_groups<V, 1, 32, EDGES, false>(call);
    case 3202:
      return launch_groups<V, 2, 32, EDGES, false>(call);
    case 3203:
      return launch_groups<V, 3, 32, EDGES, false>(call);
    case 1:
      return launch_kept<1, EDGES>(call, sharing);
    case 2:
      return launch_kept<2, EDGES>(call, sharing);
    case 4:
      return launch_kept<4, EDGES>(call, sharing);
    case 8:
      if constexpr (Op::inputs == 1) return launch_kept<8, EDGES>(call, sharing);
  }
  return cudaErrorInvalidConfiguration;
}

template <bool EDGES, typename T, typename Op>
cudaError_t launch_sharing(const RowsCall<T, Op>& call, Sharing sharing) {
  if constexpr (Op::kKernels == Kernels::all) return launch_all<EDGES>(call, sharing);
  if constexpr (Op::kKernels == Kernels::some) return launch_some<EDGES>(call, sharing);
}

// The options of a kernel that `launch_rows` launches. By default share_row chooses; see Sharing.
#define KBENCH_ROW_OPTIONS "packs=0", "blocks=0", "group=0", "keep=-1"

// What the caller requests; nothing requested is a Sharing of zeros.
inline Sharing requested(const Call& call, int inputs) {
  const int group = int(call.integer("group")), packs = int(call.integer("packs")), blocks = int(call.integer("blocks"));
  if (!group && !packs && !blocks) return {0, 0, 0, false};
  return {group, packs ? packs : 4 / inputs, blocks ? blocks : 1, call.integer("keep") > 0};
}

// `fewer`: not every way to share a row is compiled.
[[noreturn]] inline void refuse(Sharing sharing, std::int64_t columns, bool fewer) {
  throw Unsupported("packs=" + std::to_string(sharing.packs) + ", blocks=" + std::to_string(sharing.blocks) +
                    " cannot hold a row of N=" + std::to_string(columns) + " on this device" +
                    (fewer ? ", or there is no such kernel: weights in float32 have fewer" : ""));
}

// Whether an address is as far beyond a multiple of 16 bytes as another.
inline bool as_aligned(const void* a, const void* b) {
  return (reinterpret_cast<std::uintptr_t>(a) - reinterpret_cast<std::uintptr_t>(b)) % 16 == 0;
}

// Computes the rows of all matrices. `vectors` are the addresses of the vectors of the columns.
template <typename T, typename Op>
cudaError_t launch_rows(const Call& request, const RowsCall<T, Op>& call, std::initializer_list<const void*> vectors) {
  constexpr int V = kVector<T>;
  const auto& m = call.matrices;
  bool aligned = call.columns % V == 0 && aligned16(m.in[0]), alike = true;
  for (const void* vector : vectors) aligned &= aligned16(vector);
  const auto look = [&](const void* address, std::int64_t stride) {
    aligned &= aligned16(address) && (stride % V == 0 || call.rows == 1);
    alike &= as_aligned(address, m.in[0]) && ((stride - m.in_stride[0]) % V == 0 || call.rows == 1);
  };
  for (int i = 0; i < Op::inputs; ++i) look(m.in[i], m.in_stride[i]);
  for (int o = 0; o < Op::outputs; ++o) look(m.out[o], m.out_stride[o]);

  const auto launch_shared = [&](Sharing sharing) {
    return aligned ? launch_sharing<false>(call, sharing) : launch_sharing<true>(call, sharing);
  };
  if (aligned || alike) {
    const Sharing wanted = requested(request, Op::inputs);
    if (wanted.packs) {
      const cudaError_t error = launch_shared(wanted);
      if (error == cudaErrorInvalidConfiguration) refuse(wanted, call.columns, Op::kKernels == Kernels::some);
      return error;
    }
    const std::int64_t bytes = call.columns * Op::inputs * sizeof(T);
    const int count = int(vectors.size());
    const auto share = Op::kKernels != Kernels::some ? share_norm
                       : aligned                     ? share_mixed_norm<false>
                                                     : share_mixed_norm<true>;
    const Sharing chosen = count ? share(bytes, call.rows, Op::inputs, count) : share_row(bytes, call.rows, Op::inputs);
    cudaError_t error = launch_shared(chosen);
    if (error == cudaErrorInvalidConfiguration) error = launch_shared({0, 8 / Op::inputs, largest_cluster(), false});
    if (error != cudaErrorInvalidConfiguration) return error;
    return aligned ? launch_twice<V, 4 / Op::inputs>(call) : launch_twice<1, 8 / Op::inputs>(call);
  }
  // The matrices' distances from a multiple of 16 bytes differ: one element per access.
  if (call.columns <= 32 * 4) return launch_groups<1, 4, 32, false, false>(call);
  return launch_twice<1, 8 / Op::inputs>(call);
}

// Throws Unsupported for tensors that are not matrices of x's shape and dtype, or vectors of its columns. These all have x's
// dtype or all float32.
inline void require_rows(const Tensor& x, std::initializer_list<const Tensor*> matrices,
                         std::initializer_list<const Tensor*> vectors) {
  require(x.rank == 2, "x must be a matrix");
  require(x.sizes[0] <= INT_MAX, "M > 2147483647: one launch computes at most that many rows");
  require(x.sizes[1] <= INT_MAX, "a row has more than 2147483647 elements");
  for (const Tensor* matrix : matrices) {
    require(matrix->has_sizes({x.sizes[0], x.sizes[1]}) && matrix->dtype == x.dtype,
            "all matrices must have the shape and the dtype of x");
    require(matrix->dense_rows(), "the elements of a row are not next to each other in memory (stride(-1) is not 1)");
  }
  require(x.dense_rows(), "the elements of a row are not next to each other in memory (stride(-1) is not 1)");
  for (const Tensor* vector : vectors) {
    const bool like_x = vector->dtype == x.dtype || vector->dtype == Dtype::float32;
    require(vector->has_sizes({x.sizes[1]}) && vector->contiguous() && like_x,
            "vectors must have an element for each column of x, without gaps, and the dtype of x or float32");
    require(vector->dtype == (*vectors.begin())->dtype, "all vectors must have the same dtype");
  }
}

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

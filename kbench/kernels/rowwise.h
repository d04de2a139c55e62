// y = f(x) over the rows of a matrix: what softmax and GELU have in common on the host. Python's side is `rowwise` in
// cuda_source.py.
#pragma once

#include <climits>

#include "kernel.h"

namespace kbench {

// The most blocks of a launch whose blocks exchange results through global memory, and the words of its mailbox.
constexpr int kTeamBlocks = 512, kTeamWords = 2 * kTeamBlocks;

// Neither rows nor columns are 0. Row r of x begins at element r * stride; y is contiguous.
struct Rows {
  const void* x;
  void* y;
  std::int64_t rows, columns, stride;
  Dtype dtype;
  // A mailbox of kTeamWords words, or null: then no block waits for others through global memory.
  std::uint64_t* words;
  cudaStream_t stream;
  // Requests of the caller; 0 leaves the number to the kernel.
  int packs = 0;   // 16-byte accesses per thread
  int blocks = 0;  // blocks that share a row
  int team = 0;    // blocks anywhere on the device that share a row
};

// Throws Unsupported for tensors that are not such matrices.
inline Rows rows_of(const Call& call) {
  const Tensor &x = call.inputs[0], &y = call.outputs[0];
  require(x.rank == 2, "x must be a matrix");
  require(x.sizes[0] <= INT_MAX, "M > 2147483647: one launch computes at most that many rows");
  require(y.has_sizes({x.sizes[0], x.sizes[1]}) && y.dtype == x.dtype, "y must have the shape and the dtype of x");
  require(x.dense_rows(), "the elements of a row are not next to each other in memory (stride(-1) is not 1)");
  require(y.contiguous(), "y must be contiguous");
  std::uint64_t* words = nullptr;
  if (call.mailbox) {
    require(call.mailbox->elements() >= kTeamWords && call.mailbox->itemsize() == 8, "the mailbox is too small");
    words = call.mailbox->data<std::uint64_t>();
  }
  return {x.address, y.address, x.sizes[0], x.sizes[1], x.strides[0], x.dtype, words, call.stream};
}

// A launch function for the table: function(rows).
template <cudaError_t (*FUNCTION)(const Rows&)>
cudaError_t rowwise(const Call& call) {
  return FUNCTION(rows_of(call));
}

template <typename T>
std::int64_t matrix_bytes(const Rows& call) {
  return call.rows * call.columns * std::int64_t(sizeof(T));
}

// Whether every row of x and of y begins and ends at a multiple of 16 bytes.
template <typename T>
bool rows_aligned(const Rows& call) {
  constexpr std::int64_t vector = 16 / sizeof(T);
  return aligned16(call.x) && aligned16(call.y) && call.columns % vector == 0 &&
         (call.stride % vector == 0 || call.rows == 1);
}

}  // namespace kbench

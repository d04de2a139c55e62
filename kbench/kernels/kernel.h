// The interface of a CUDA source of kbench to Python: named kernels over the rows of a matrix. `binding.cpp` exposes them.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

namespace kbench {

// The most blocks of a launch whose blocks exchange results through global memory, and the words of its mailbox.
constexpr int kTeamBlocks = 512, kTeamWords = 2 * kTeamBlocks;

enum class Dtype : int { float32, float16, bfloat16 };

// y = f(x) for a (rows, columns) matrix; neither is 0. Row r of x begins at element r * stride; y is contiguous.
struct Call {
  const void* x;
  void* y;
  std::int64_t rows, columns, stride;
  Dtype dtype;
  // Requests of the caller; 0 leaves the number to the kernel.
  int threads;  // per block, a multiple of 64 up to 1024
  int packs;    // 16-byte accesses per thread
  int blocks;   // blocks that share a row
  // A mailbox of kTeamWords words (block_mailbox.py), or null: then no block waits for others through global memory.
  std::uint64_t* words;
  cudaStream_t stream;
};

struct Kernel {
  const char* name;
  cudaError_t (*launch)(const Call&);
};

// The kernels of the one .cu file of an extension. The last entry has no name.
extern const Kernel kernels[];

}  // namespace kbench

// What a CUDA source of kbench offers to Python: named kernels over the rows of a matrix. `binding.cpp` exposes them.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

namespace kbench {

// Blocks at most of a launch whose blocks tell each other something through global memory, and the words it needs for that.
constexpr int kTeamBlocks = 512, kTeamWords = 2 * kTeamBlocks;

enum class Dtype : int { float32, float16, bfloat16 };

// y = f(x) for a (rows, columns) matrix, neither of them 0. Row r of x begins at element r * stride; y is contiguous.
struct Call {
  const void* x;
  void* y;
  std::int64_t rows, columns, stride;
  Dtype dtype;
  // What a caller may ask for; 0 leaves it to the kernel.
  int threads;  // per block, a multiple of 64 up to 1024
  int packs;    // accesses of 16 bytes a thread
  int blocks;   // that share a row
  // kTeamWords of exchange.py's words for this layout, or null: then no blocks wait for others through global memory.
  std::uint64_t* words;
  cudaStream_t stream;
};

struct Kernel {
  const char* name;
  cudaError_t (*launch)(const Call&);
};

// The kernels of the one .cu file that an extension is built from; the last entry has no name.
extern const Kernel kernels[];

}  // namespace kbench

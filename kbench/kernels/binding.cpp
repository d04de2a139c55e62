// The Python module of one CUDA source, with a function per entry of `kbench::kernels`. Pointers and the stream arrive as
// integers, so torch's C++ headers, which take long to compile, are not needed.
#include <pybind11/pybind11.h>

#include <stdexcept>

#include "kernel.h"

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  for (const kbench::Kernel* kernel = kbench::kernels; kernel->name != nullptr; ++kernel) {
    module.def(
        kernel->name,
        [launch = kernel->launch](std::uintptr_t x, std::uintptr_t y, std::int64_t rows, std::int64_t columns,
                                  std::int64_t stride, int dtype, int threads, int packs, int blocks,
                                  std::uintptr_t words, std::uintptr_t stream) {
          const cudaError_t error = launch({reinterpret_cast<const void*>(x), reinterpret_cast<void*>(y), rows, columns,
                                            stride, static_cast<kbench::Dtype>(dtype), threads, packs, blocks,
                                            reinterpret_cast<std::uint64_t*>(words),
                                            reinterpret_cast<cudaStream_t>(stream)});
          if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
        });
  }
}

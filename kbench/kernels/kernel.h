// The interface of a CUDA source to Python. A source defines `kernels`, a table of the functions that launch its kernels.
// `binding.cpp` makes a Python module of the table, and cuda_source.py calls it.
#pragma once

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

namespace kbench {

enum class Dtype : int {
  float32,
  float16,
  bfloat16,
  float64,
  int64,
  int32,
  int16,
  int8,
  uint8,
  boolean,
  float8_e4m3fn,
  float8_e5m2,
};

// torch's name of each dtype, and the bytes of an element.
struct DtypeFacts {
  const char* name;
  int itemsize;
};
constexpr DtypeFacts kDtypes[] = {{"float32", 4}, {"float16", 2}, {"bfloat16", 2}, {"float64", 8},
                                  {"int64", 8},   {"int32", 4},   {"int16", 2},    {"int8", 1},
                                  {"uint8", 1},   {"bool", 1},    {"float8_e4m3fn", 1}, {"float8_e5m2", 1}};

constexpr const char* name_of(Dtype dtype) { return kDtypes[static_cast<int>(dtype)].name; }

// Throw it to decline a call: the row gets the status `unsupported`, with this reason.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void require(bool condition, const char* otherwise) {
  if (!condition) throw Unsupported(otherwise);
}

inline bool aligned16(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; }

// A tensor on the current device. Sizes and strides count elements, and there are `rank` of each.
struct Tensor {
  void* address;
  Dtype dtype;
  int rank;
  const std::int64_t* sizes;
  const std::int64_t* strides;

  template <typename T>
  T* data() const {
    return static_cast<T*>(address);
  }

  int itemsize() const { return kDtypes[static_cast<int>(dtype)].itemsize; }

  std::int64_t elements() const {
    std::int64_t product = 1;
    for (int i = 0; i < rank; ++i) product *= sizes[i];
    return product;
  }

  bool has_sizes(std::initializer_list<std::int64_t> expected) const {
    return std::equal(sizes, sizes + rank, expected.begin(), expected.end());
  }

  bool contiguous() const {
    if (elements() == 0) return true;
    std::int64_t expected = 1;
    for (int i = rank - 1; i >= 0; --i) {
      if (sizes[i] > 1 && strides[i] != expected) return false;
      expected *= sizes[i];
    }
    return true;
  }

  // Whether the elements of each row (the last dimension) are next to each other in memory.
  bool dense_rows() const { return rank > 0 && (sizes[rank - 1] <= 1 || strides[rank - 1] == 1); }

  // Whether the rows are dense, and each begins and ends at a multiple of 16 bytes.
  bool aligned_rows() const {
    if (!dense_rows() || !aligned16(address) || sizes[rank - 1] * itemsize() % 16 != 0) return false;
    for (int i = 0; i < rank - 1; ++i) {
      if (sizes[i] > 1 && strides[i] * itemsize() % 16 != 0) return false;
    }
    return true;
  }
};

// Throws Unsupported for tensors that are not matrices with dense rows, of x's shape and dtype, or vectors of its columns. All
// vectors have x's dtype or float32.
inline void require_rows(const Tensor& x, std::initializer_list<const Tensor*> matrices,
                         std::initializer_list<const Tensor*> vectors = {}) {
  require(x.rank == 2, "x must be a matrix");
  require(x.sizes[0] <= INT_MAX, "M > 2147483647: one launch computes at most that many rows");
  require(x.sizes[1] <= INT_MAX, "a row has more than 2147483647 elements");
  require(x.dense_rows(), "the elements of a row are not next to each other in memory (stride(-1) is not 1)");
  for (const Tensor* matrix : matrices) {
    require(matrix->has_sizes({x.sizes[0], x.sizes[1]}) && matrix->dtype == x.dtype,
            "all matrices must have the shape and the dtype of x");
    require(matrix->dense_rows(), "the elements of a row are not next to each other in memory (stride(-1) is not 1)");
  }
  for (const Tensor* vector : vectors) {
    const bool like_x = vector->dtype == x.dtype || vector->dtype == Dtype::float32;
    require(vector->has_sizes({x.sizes[1]}) && vector->contiguous() && like_x,
            "vectors must have an element for each column of x, without gaps, and the dtype of x or float32");
    require(vector->dtype == (*vectors.begin())->dtype, "all vectors must have the same dtype");
  }
}

struct Call;

// Inputs, outputs and options have names for error messages. An option is a number. It is declared as "eps", or with its
// default as "threads=0".
struct Kernel {
  const char* name;
  cudaError_t (*launch)(const Call&);
  std::vector<const char*> inputs, outputs, options;
};

// The kernels of the one .cu file of an extension.
extern const std::vector<Kernel> kernels;

// What a launch function is called with. At least one output has elements.
struct Call {
  const Kernel* kernel = nullptr;
  const Tensor* inputs = nullptr;   // as many as the kernel declares, in its order
  const Tensor* outputs = nullptr;  // the same
  const double* numbers = nullptr;  // the values of the options, in the kernel's order: see `integer` and `real`
  cudaStream_t stream = nullptr;

  std::int64_t integer(const char* option) const {
    const double value = real(option);
    if (value != std::floor(value)) {
      throw std::invalid_argument(std::string(option) + " must be a whole number, not " + std::to_string(value));
    }
    return static_cast<std::int64_t>(value);
  }

  double real(const char* option) const {
    const std::size_t length = std::strlen(option);
    for (std::size_t i = 0; i < kernel->options.size(); ++i) {
      const char* declared = kernel->options[i];
      if (std::strncmp(declared, option, length) == 0 && (declared[length] == '\0' || declared[length] == '=')) {
        return numbers[i];
      }
    }
    throw std::logic_error(std::string(kernel->name) + " reads the option " + option + ", which it does not declare");
  }
};

}  // namespace kbench

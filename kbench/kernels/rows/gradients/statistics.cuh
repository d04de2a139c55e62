// What the forward pass of a norm saves for the backward pass: (rows, 2) in fp32.
#pragma once

#include "device.cuh"

namespace kbench {

// What a row of a norm was normalised with: z = (x - mean) * rstd.
struct alignas(8) RowStatistics {
  float mean, rstd;

  // z. x * rstd - mean * rstd would be one instruction. But if all elements of a row are the same, z must be 0, and that form
  // leaves the rounding of mean * rstd.
  __device__ __forceinline__ float normalised(float x) const { return (x - mean) * rstd; }
};

// The statistics of a row, loaded as constants, because the kernel that reads them does not write them. Zeros if the row does
// not exist.
__device__ __forceinline__ RowStatistics load_statistics(const RowStatistics* all, std::int64_t row, bool exists) {
  if (!exists) return {0.0f, 0.0f};
  const float2 found = load_constant(reinterpret_cast<const float2*>(all) + row);
  return {found.x, found.y};
}

// Where a forward pass stores them; nowhere if not SAVES.
template <bool SAVES>
struct SavedStatistics {
  SavedStatistics() = default;
  SavedStatistics(RowStatistics*) {}
  template <typename Part>
  __device__ __forceinline__ void begin(const SavedStatistics&, const Part&) {}
  __device__ __forceinline__ void store(std::int64_t, RowStatistics) const {}
};
template <>
struct SavedStatistics<true> {
  RowStatistics* to;

  // For the first thread of each row.
  template <typename Part>
  __device__ __forceinline__ void begin(const SavedStatistics& all, const Part& part) {
    to = part.leads() ? all.to : nullptr;
  }
  __device__ __forceinline__ void store(std::int64_t row, RowStatistics statistics) const {
    if (to) to[row] = statistics;
  }
};

// Throws Unsupported for a tensor that is not the statistics of the rows of x.
inline RowStatistics* statistics_of(const Tensor& tensor, const Tensor& x) {
  require(tensor.dtype == Dtype::float32 && tensor.contiguous() && tensor.rank == 2 && tensor.has_sizes({x.sizes[0], 2}),
          "statistics must be (M, 2) in float32");
  return tensor.data<RowStatistics>();
}

}  // namespace kbench

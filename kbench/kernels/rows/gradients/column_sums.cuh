// Sums over the rows of a matrix, such as the gradients of a norm's weight and bias. They are added up in fp32, in an
// order that depends on the shape only: the result is deterministic.
#pragma once

#include "rows/registers.cuh"
#include "statistics.cuh"

namespace kbench {

// `count` partial sums of each column, of up to two gradients: (count, SUMS, columns) in fp32.
struct PartialSums {
  float* values;
  int count;
};

// Stores the partial sums of neighbouring columns, at a multiple of 16 bytes.
template <int COUNT>
__device__ __forceinline__ void store_sums(float* to, const float (&sums)[COUNT]) {
#pragma unroll
  for (int v = 0; v < COUNT; v += 4) {
    *reinterpret_cast<float4*>(to + v) = {sums[v], sums[v + 1], sums[v + 2], sums[v + 3]};
  }
}

constexpr int kColumnThreads = 128;

// Partial sums from the matrices: dy * z, and dy. Block (c, p) has VECTOR columns per thread, and every
// gridDim.y-th row from p on. ALIGNED: all rows begin and end at multiples of 16 bytes.
template <typename T, int VECTOR, int SUMS, bool ALIGNED>
__global__ void __launch_bounds__(kColumnThreads)
    sum_rows(Matrices<T, 2, 1> matrices, const RowStatistics* statistics, float* sums, std::int64_t rows, int columns) {
  const int column = (blockIdx.x * kColumnThreads + threadIdx.x) * VECTOR;
  if (column >= columns) return;
  const int count = min(VECTOR, columns - column);
  const auto load = [&](Pack<T, VECTOR>& pack, const T* address) {
    if constexpr (ALIGNED) {
      pack.load(address);
    } else if (count == VECTOR) {
      load_anywhere(pack, address);
    } else {
#pragma unroll
      for (int v = 0; v < VECTOR; ++v) pack.values[v] = v < count ? load_constant(address + v) : from_float<T>(0.0f);
    }
  };
  float totals[SUMS][VECTOR] = {};
#pragma unroll 4
  for (std::int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    Pack<T, VECTOR> dy_pack, x_pack;
    load(dy_pack, matrices.in[0] + row * matrices.in_stride[0] + column);
    load(x_pack, matrices.in[1] + row * matrices.in_stride[1] + column);
    const RowStatistics of_row = statistics[row];
    float dy[VECTOR], x[VECTOR];
    to_floats(dy_pack, dy);
    to_floats(x_pack, x);
#pragma unroll
    for (int v = 0; v < VECTOR; ++v) {
      totals[0][v] = fmaf(dy[v], of_row.normalised(x[v]), totals[0][v]);
      if constexpr (SUMS == 2) totals[1][v] += dy[v];
    }
  }
#pragma unroll
  for (int s = 0; s < SUMS; ++s) {
    float* to = sums + (std::int64_t(blockIdx.y) * SUMS + s) * columns + column;
    if constexpr (ALIGNED) {
      store_sums(to, totals[s]);
    } else {
#pragma unroll
      for (int v = 0; v < VECTOR; ++v) {
        if (v < count) to[v] = totals[s][v];
      }
    }
  }
}

// On sm_90 and newer, a kernel may be launched while the one before it still runs (programmatic dependent launch). It
// must not read what the other writes before `await_kernel_before`. `let_next_kernel_start` allows that launch earlier.
__device__ __forceinline__ void await_kernel_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ void let_next_kernel_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// The gradients: the sums of `count` partial sums. A block has 32 columns; its warps share the partial sums, and then the
// columns.
template <typename W>
__global__ void __launch_bounds__(kMaxThreads) add_partial_sums(PartialSums sums, W* first, W* second, int columns) {
  __shared__ float of_warp[32][33];
  await_kernel_before();
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const int each = second ? 2 : 1;
  const int column = blockIdx.x * 32 + lane;
  const int which = blockIdx.y;
  float total = 0.0f;
  if (column < columns) {
#pragma unroll 8
    for (int p = warp; p < sums.count; p += warps) {
      total += sums.values[(std::int64_t(p) * each + which) * columns + column];
    }
  }
  of_warp[warp][lane] = total;
  __syncthreads();
  for (int i = warp; i < 32; i += warps) {
    total = shuffle_sum<32>(lane < warps ? of_warp[lane][i] : 0.0f);
    const int summed = blockIdx.x * 32 + i;
    if (lane == 0 && summed < columns) (which == 0 ? first : second)[summed] = from_float<W>(total);
  }
}

template <typename W>
cudaError_t launch_add_partial_sums(PartialSums sums, W* first, W* second, std::int64_t columns, cudaStream_t stream) {
  const int threads = std::min<int>(1024, std::max<int>(256, 32 * int(ceil_div(sums.count, 8))));  // 8 loads each
  const dim3 blocks(static_cast<unsigned>(ceil_div(columns, 32)), second ? 2 : 1);
#ifndef __HIP_PLATFORM_AMD__
  if (largest_cluster() > 1) {  // sm_90 and newer
    cudaLaunchAttribute early;
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = dim3(unsigned(threads));
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = 1;
    const cudaError_t error = cudaLaunchKernelEx(&config, add_partial_sums<W>, sums, first, second, int(columns));
    return error == cudaSuccess ? error : cudaGetLastError();
  }
#endif
  add_partial_sums<W><<<blocks, threads, 0, stream>>>(sums, first, second, int(columns));
  return cudaGetLastError();
}

// Both steps, for rows of any length and alignment. `most` partial sums have room.
template <int SUMS, typename T, typename W>
cudaError_t launch_sum_rows(const Matrices<T, 2, 1>& matrices, bool aligned, const RowStatistics* statistics,
                            float* sums, int most, W* first, W* second, std::int64_t rows, std::int64_t columns,
                            cudaStream_t stream) {
  constexpr int V = kVector<T>;
  const int wide = int(ceil_div(columns, V * kColumnThreads));
  const int count = int(std::max<std::int64_t>(1, std::min<std::int64_t>({most, ceil_div(rows, 8), 65535,
                                                                         ceil_div(16 * multiprocessors(), wide)})));
  const dim3 blocks(wide, count);
  if (aligned) {
    sum_rows<T, V, SUMS, true><<<blocks, kColumnThreads, 0, stream>>>(matrices, statistics, sums, rows, int(columns));
  } else {
    sum_rows<T, V, SUMS, false><<<blocks, kColumnThreads, 0, stream>>>(matrices, statistics, sums, rows, int(columns));
  }
  const cudaError_t error = cudaGetLastError();
  return error != cudaSuccess ? error : launch_add_partial_sums<W>({sums, count}, first, second, columns, stream);
}

}  // namespace kbench

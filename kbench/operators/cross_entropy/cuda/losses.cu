// The losses of cross-entropy, and what the backward pass needs of each row. Each row is read once. The arithmetic is fp32.
//
//     loss = max + log(sum(exp(x - max))) - x[label]
#include "logits.cuh"
#include "rows/sharing.cuh"
#include "rows/softmax_row.cuh"

namespace kbench {

// Raises the maximum of what a thread has read so far, and rescales the sum, before elements of up to `max` are added.
template <typename T>
__device__ __forceinline__ void raise(SoftmaxTotal<T>& total, float max) {
  const float before = total.max;
  total.max = fmaxf(total.max, max);
  total.sum *= exponential<T>(before - shift(total.max));
}

// Adds the elements of all packs: the maximum is raised once for them, not for each element.
template <typename T, int VECTOR, int PACKS>
__device__ __forceinline__ void add(SoftmaxTotal<T>& total, const Pack<T, VECTOR> (&packs)[PACKS]) {
  PackMax<T, VECTOR> of_packs;
#pragma unroll
  for (int p = 0; p < PACKS; ++p) of_packs.add(packs[p]);
  raise(total, of_packs.get());
  const float less = shift(total.max);
#pragma unroll
  for (int p = 0; p < PACKS; ++p) {
#pragma unroll
    for (int v = 0; v < VECTOR; ++v) total.sum += exponential<T>(to_float(packs[p].values[v]) - less);
  }
}

template <typename T>
__device__ __forceinline__ void add(SoftmaxTotal<T>& total, float element) {
  raise(total, element);
  total.sum += exponential<T>(element - shift(total.max));
}

struct LossArguments {
  const std::int64_t* labels;
  float *loss, *saved;  // saved: see require_statistics; null if nothing is saved
};

constexpr int kMostLossThreads = 512;  // of a block
constexpr int kLossBlocks = 3;         // of so many threads, on a multiprocessor
constexpr int kGroupThreads = 128;     // of a block whose warps have rows of their own

// GROUP and EDGES: see Shape. A warp, a block or a cluster reads a row in steps of PACKS accesses of each thread, and keeps
// only the total of what it has read. If the label is not a column, no logit is read for it, and the loss is NaN.
template <typename T, int VECTOR, int PACKS, int GROUP, bool EDGES>
__global__ void __launch_bounds__(GROUP < kBlockRow ? kGroupThreads : kMostLossThreads, GROUP < kBlockRow ? 12 : kLossBlocks)
    row_losses(const T* __restrict__ x, LossArguments losses, std::int64_t rows, int columns, std::int64_t stride, int slice) {
  using S = Shape<T, VECTOR, PACKS, GROUP, EDGES, false>;
  __shared__ std::uint64_t barrier;  // of the block, for its cluster
#if KBENCH_CLUSTERS
  if constexpr (S::cluster) ClusterExchange::announce(&barrier);
#else
  if constexpr (S::cluster) return;  // the host does not launch it here
#endif
  const std::int64_t number = S::group ? std::int64_t(blockIdx.x) * (blockDim.x / S::width) + threadIdx.x / S::width
                                       : block_row<S::cluster>();
  const bool exists = !S::group || number < rows;
  const T* row = x + number * stride;
  Part<S> part(row, exists ? columns : 0, block_rank<S::cluster>(), slice);
  const int thread = S::group ? threadIdx.x % S::width : threadIdx.x;
  const bool leads = exists && thread == 0 && block_rank<S::cluster>() == 0;
  std::int64_t label = -1;
  if (leads) label = losses.labels[number];

  SoftmaxTotal<T> total = SoftmaxTotal<T>::none();
  Pack<T, VECTOR> packs[PACKS];
  const int step = PACKS * (S::group ? S::width : blockDim.x);
  for (int first = block_rank<S::cluster>() * slice; first < part.end; first += step) {
#pragma unroll
    for (int p = 0; p < PACKS; ++p) packs[p].load_if(part.has(p), row + part.column() + part.offset(p), -INFINITY);
    add(total, packs);
    part.first += step;
  }
#pragma unroll
  for (int e = 0; e < S::thread_edges; ++e) {
    if (part.has_edge(e)) add(total, to_float(__ldg(row + part.edge[e])));
  }
  float wanted = NAN;
  if (leads && std::uint64_t(label) < std::uint64_t(columns)) wanted = to_float(row[label]);
  SoftmaxTotal<T> of_row = total.template reduce<S::width>();
  if constexpr (!S::group) {
    __shared__ SoftmaxTotal<T> totals[kMostLossThreads / kWarpSize * (S::cluster ? kMaxCluster : 1)];
    of_row = exchange<S::cluster, kMostLossThreads>(of_row, totals, &barrier);
  }
  if (leads) {
    losses.loss[number] = of_row.max - wanted + logf(of_row.sum);
    if (losses.saved) {
      losses.saved[number] = of_row.max;
      losses.saved[rows + number] = of_row.sum;
    }
  }
}

constexpr int kLossPacks = 4;           // accesses of a thread in each step
constexpr int kFewLossPacks = 2;        // of a thread that has a part of one of few short rows
constexpr int kLossSlice = 100 * 1024;  // bytes
constexpr double kFastGbps = 30;        // of memory for each multiprocessor: 25 on an H100, 36 on an H200
constexpr int kLossRounds = 3;          // how often all blocks fill a device with fast memory

// `accesses`: of 16 bytes, for a row. `packs` are those of a thread in each step. A cluster limits the blocks of a row.
// - Few rows: a row gets more blocks until two thirds of the multiprocessors have one, or until each block has at most 16 KiB.
//   In short rows each thread has half as many accesses, so twice as many threads wait for memory.
// - Many rows: until each block has at most kLossSlice of the row. A cluster starts when the device has room for all of its
//   blocks. With fast memory this wait costs up to 12 %, so there a row gets no more blocks once all blocks together fill
//   the device kLossRounds times.
inline Sharing share_losses(std::int64_t accesses, std::int64_t rows) {
  if (accesses <= 128) return {32, kFewLossPacks, 1};
  const int multiprocessors = device().multiprocessors;
  const std::int64_t at_once = kLossBlocks * multiprocessors;
  const bool few = rows < at_once, fast = !few && device().memory_gbps > kFastGbps * multiprocessors;
  int blocks = 1;
  const auto divide = [&] {
    if (few) return 3 * rows * blocks < 2 * multiprocessors && accesses > 1024 * blocks;
    return accesses * 16 > blocks * kLossSlice && !(fast && rows * blocks >= kLossRounds * at_once);
  };
  while (blocks < device().largest_cluster && divide()) blocks *= 2;
  return {0, few && accesses <= kFewLossPacks * kMostLossThreads ? kFewLossPacks : kLossPacks, blocks};
}

template <typename T, bool EDGES>
cudaError_t launch_losses(const Call& call, const Tensor& x, const LossArguments& losses) {
  constexpr int V = kVector<T>;
  const std::int64_t rows = x.sizes[0], accesses = ceil_div(x.sizes[1], V);
  Sharing sharing = share_losses(accesses, rows);
  if (const int blocks = int(call.integer("blocks"))) {
    require(blocks > 0 && blocks <= device().largest_cluster, "blocks must be at most as many as a cluster can have");
    sharing = {0, kLossPacks, blocks};
  }
  // The threads that read a slice in the fewest steps, with as few idle as possible.
  std::int64_t slice = ceil_div(accesses, sharing.blocks);
  const std::int64_t steps = ceil_div(slice, kMostLossThreads * sharing.packs);
  const int threads = sharing.group ? kGroupThreads : kWarpSize * int(ceil_div(slice, steps * sharing.packs * kWarpSize));
  slice = sharing.blocks == 1 ? 0 : ceil_div(slice, 8) * 8;  // in steps of 128 bytes
  const auto launch_with = [&](auto kernel) {
    const auto launched = [&](auto... arguments) {
      if (sharing.blocks > 1) return launch_clusters(kernel, rows, sharing.blocks, threads, call.stream, arguments...);
      const std::int64_t blocks = sharing.group ? ceil_div(rows, kGroupThreads / sharing.group) : rows;
      return launch(kernel, blocks, threads, call.stream, arguments...);
    };
    return launched(x.data<const T>(), losses, rows, int(x.sizes[1]), x.strides[0], int(slice));
  };
  if (sharing.group) return launch_with(row_losses<T, V, kFewLossPacks, 32, EDGES>);
  if (sharing.blocks > 1) return launch_with(row_losses<T, V, kLossPacks, kClusterRow, EDGES>);
  // One step of fewer accesses may hold the row.
  if (accesses <= kFewLossPacks * threads) return launch_with(row_losses<T, V, kFewLossPacks, kBlockRow, EDGES>);
  return launch_with(row_losses<T, V, kLossPacks, kBlockRow, EDGES>);
}

// The second output, what the backward pass needs, may be missing.
cudaError_t losses(const Call& call) {
  const Tensor &x = call.inputs[0], &labels = call.inputs[1], &loss = call.outputs[0];
  require_rows(x, {});
  require_logits(x, labels, {&loss});
  LossArguments losses = {labels.data<const std::int64_t>(), loss.data<float>(), nullptr};
  if (call.kernel->outputs.size() > 1) {
    require_statistics(x, call.outputs[1]);
    losses.saved = call.outputs[1].data<float>();
  }
  return with_type(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    return x.aligned_rows() ? launch_losses<T, false>(call, x, losses) : launch_losses<T, true>(call, x, losses);
  });
}

const std::vector<Kernel> kernels = {{"losses", losses, {"x", "labels"}, {"loss"}, {"blocks=0"}},
                                     {"losses_saving", losses, {"x", "labels"}, {"loss", "saved"}, {"blocks=0"}}};

}  // namespace kbench

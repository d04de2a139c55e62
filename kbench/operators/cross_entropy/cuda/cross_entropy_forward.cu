// The losses of cross-entropy, and what the backward pass needs of each row. Each row is read once. The arithmetic is fp32.
//
//     loss = max + log(sum(exp(x - max))) - x[label]
#include "cross_entropy_row.cuh"
#include "rows/running_total.cuh"

namespace kbench {

struct LossArguments {
  const std::int64_t* labels;
  float *loss, *saved;  // saved: see require_statistics
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

  RunningTotal<T> total;
  Pack<T, VECTOR> packs[PACKS];
  const int step = PACKS * (S::group ? S::width : blockDim.x);
  for (int first = block_rank<S::cluster>() * slice; first < part.end; first += step) {
#pragma unroll
    for (int p = 0; p < PACKS; ++p) packs[p].load_if(part.has(p), row + part.column() + part.offset(p), -INFINITY);
    total.add(packs);
    part.first += step;
  }
#pragma unroll
  for (int e = 0; e < S::thread_edges; ++e) {
    if (part.has_edge(e)) total.add(to_float(load_constant(row + part.edge[e])));
  }
  float wanted = NAN;
  if (leads && std::uint64_t(label) < std::uint64_t(columns)) wanted = to_float(row[label]);
  SoftmaxTotal<T> of_row = total.template of_threads<S::width>();
  if constexpr (!S::group) {
    __shared__ SoftmaxTotal<T> totals[kMostLossThreads / KBENCH_WARP_SIZE * (S::cluster ? kMaxCluster : 1)];
    of_row = exchange<S::cluster, kMostLossThreads>(of_row, totals, &barrier);
  }
  if (leads) {
    losses.loss[number] = of_row.max - wanted + logf(of_row.sum);
    losses.saved[number] = of_row.max;
    losses.saved[rows + number] = of_row.sum;
  }
}

// A row is shared by `group` threads of a warp, or, if that is 0, by `blocks` blocks of `threads` threads.
struct LossSharing {
  int group, threads, blocks;
};

constexpr int kLossPacks = 4;           // accesses of a thread in each step
constexpr int kFewLossPacks = 2;        // of a thread that has a part of one of few short rows
constexpr int kLossSlice = 100 * 1024;  // bytes
constexpr double kFastGbps = 30;        // of memory for each multiprocessor: 25 on an H100, 36 on an H200
constexpr int kLossRounds = 3;          // how often all blocks fill a device with fast memory

// `accesses`: of 16 bytes, for a row. A cluster limits the blocks of a row.
// - Few rows: a row gets more blocks until two thirds of the multiprocessors have one, or until each block has at most 16 KiB.
//   In short rows each thread has half as many accesses, so twice as many threads wait for memory.
// - Many rows: until each block has at most kLossSlice of the row. A cluster starts when the device has room for all of its
//   blocks. With fast memory this wait costs up to 12 %, so there a row gets no more blocks once all blocks together fill
//   the device kLossRounds times.
inline LossSharing share_losses(std::int64_t accesses, std::int64_t rows) {
  if (accesses <= 128) return {32, kGroupThreads, 1};
  const int device = multiprocessors();
  const std::int64_t at_once = kLossBlocks * device;
  const bool few = rows < at_once, fast = !few && memory_gbps() > kFastGbps * device;
  int blocks = 1;
  const auto divide = [&] {
    if (few) return 3 * rows * blocks < 2 * device && accesses > 1024 * blocks;
    return accesses * 16 > blocks * kLossSlice && !(fast && rows * blocks >= kLossRounds * at_once);
  };
  while (blocks < largest_cluster() && divide()) blocks *= 2;
  const int packs = few && accesses <= kFewLossPacks * kMostLossThreads ? kFewLossPacks : kLossPacks;
  const std::int64_t slice = ceil_div(accesses, blocks), steps = ceil_div(slice, kMostLossThreads * packs);
  return {0, KBENCH_WARP_SIZE * int(ceil_div(slice, steps * packs * KBENCH_WARP_SIZE)), blocks};
}

// What the caller requests, or what share_losses chooses.
inline LossSharing loss_sharing(const Call& call, std::int64_t accesses, std::int64_t rows) {
  const std::int64_t threads = call.integer("threads"), blocks = call.integer("blocks");
  if (!threads && !blocks) return share_losses(accesses, rows);
  const LossSharing wanted = {0, threads ? int(threads) : kMostLossThreads / 2, blocks ? int(blocks) : 1};
  require(wanted.threads > 0 && wanted.threads <= kMostLossThreads && wanted.threads % KBENCH_WARP_SIZE == 0,
          "threads must be a multiple of a warp, and at most 512");
  require(wanted.blocks > 0 && wanted.blocks <= largest_cluster(), "blocks must be at most as many as a cluster can have");
  return wanted;
}

template <typename T, bool EDGES>
cudaError_t launch_losses(const Call& call, const Tensor& x, const LossArguments& losses) {
  constexpr int V = kVector<T>, P = kLossPacks;
  const std::int64_t rows = x.sizes[0], accesses = ceil_div(x.sizes[1], V);
  const LossSharing sharing = loss_sharing(call, accesses, rows);
  const auto launch_one = [&](auto kernel, std::int64_t blocks) {
    return launch(kernel, blocks, sharing.threads, call.stream, x.data<const T>(), losses, rows, int(x.sizes[1]),
                  x.strides[0], 0);
  };
  if (sharing.group) return launch_one(row_losses<T, V, 2, 32, EDGES>, ceil_div(rows, kGroupThreads / 32));
  if (sharing.blocks == 1 && accesses <= kFewLossPacks * sharing.threads) {  // one step of fewer accesses holds the row
    return launch_one(row_losses<T, V, kFewLossPacks, kBlockRow, EDGES>, rows);
  }
  if (sharing.blocks == 1) return launch_one(row_losses<T, V, P, kBlockRow, EDGES>, rows);
  const std::int64_t slice = ceil_div(accesses, 8 * sharing.blocks) * 8;  // in steps of 128 bytes
  return launch_clusters(row_losses<T, V, P, kClusterRow, EDGES>, rows, sharing.blocks, sharing.threads, call.stream,
                         x.data<const T>(), losses, rows, int(x.sizes[1]), x.strides[0], int(slice));
}

cudaError_t cross_entropy_forward(const Call& call) {
  const Tensor &x = call.inputs[0], &labels = call.inputs[1], &loss = call.outputs[0], &saved = call.outputs[1];
  require_rows(x, {}, {});
  require_logits(x, labels, {&loss});
  require_statistics(x, saved);
  const LossArguments losses = {labels.data<const std::int64_t>(), loss.data<float>(), saved.data<float>()};
  return with_type(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    return x.aligned_rows() ? launch_losses<T, false>(call, x, losses) : launch_losses<T, true>(call, x, losses);
  });
}

const std::vector<Kernel> kernels = {{"cross_entropy_forward",
                                      cross_entropy_forward,
                                      {"x", "labels"},
                                      {"loss", "saved"},
                                      {"threads=0", "blocks=0"}}};

}  // namespace kbench

# mypy: ignore-errors
"""Attention in Triton, to read: the forward pass in one kernel and the backward pass in two, none of which stores the scores.

A load that goes beyond the end of a sequence reads zeros there, and a store leaves out what lies beyond. Devices with a tensor
memory accelerator get tensors as descriptors of four dimensions; others, for which these would cost registers, as pointers.

**Forward.** A program has M queries of a head, and walks along the keys in blocks of N. It keeps the maximum of the scores of
each query so far, the sum of their exponentials, and the sum of the values that these weigh. A larger maximum scales both sums
down. Scores are in units of log2(e), so that an exponential is one exp2. The backward pass needs one number of each query, the
logarithm of its sum.

**Backward.** Let p be the weights, and s the scores: o = p v, dv = p^T do, dp = do v^T, ds = p (dp - delta), dq = ds k and
dk = ds^T q, where delta is the sum of do * o over a head. In one kernel, a program has N keys and walks along the queries. In
the other one, it has M queries and walks along the keys. Both compute p again. That is seven products where five would do, but
no program adds to the sums of another, so the gradients are the same in each run.

**Masks.** Where a program has queries, its loop runs twice: over the blocks that need a mask, on the diagonal or at the end,
and over all others. Where it has keys, one loop masks every block: two need so many registers that some spill.
"""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def elements(x, batch, head, first, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """Pointers to so many rows of a head, and a mask of the elements that exist. `x` is a pointer, the strides of batches,
    heads and rows, and the sizes of a head."""
    place = tl.cast(batch, tl.int64) * x[1] + tl.cast(head, tl.int64) * x[2] + tl.cast(first, tl.int64) * x[3]
    rows, columns = tl.arange(0, ROWS)[:, None], tl.arange(0, WIDTH)[None, :]
    return x[0] + place + (rows * x[3] + columns), (first + rows < x[4]) & (columns < x[5])


@triton.jit
def tile(x, batch, head, first, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """The rows of a head from `first` on. Zeros where there are none."""
    if isinstance(x, tl.tensor_descriptor):
        return x.load([batch, head, first, 0]).reshape(ROWS, WIDTH)
    else:
        pointers, exist = elements(x, batch, head, first, ROWS, WIDTH)
        return tl.load(pointers, mask=exist, other=0.0)


@triton.jit
def store_tile(x, batch, head, first, values, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    if isinstance(x, tl.tensor_descriptor):
        x.store([batch, head, first, 0], values.to(x.dtype).reshape(1, 1, ROWS, WIDTH))
    else:
        pointers, exist = elements(x, batch, head, first, ROWS, WIDTH)
        tl.store(pointers, values.to(x[0].dtype.element_ty), mask=exist)


@triton.jit
def forward_blocks(
    o, log_sums, q, k, v, scale, S, heads, group,
    M: tl.constexpr, N: tl.constexpr, WIDTH: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """Grid: blocks of queries, heads of all batches. The blocks with the most keys begin first."""
    block = tl.num_programs(0) - 1 - tl.program_id(0) if CAUSAL else tl.program_id(0)
    batch, head, first = tl.program_id(1) // heads, tl.program_id(1) % heads, block * M
    queries, rows = tile(q, batch, head, first, M, WIDTH), first + tl.arange(0, M)
    total = tl.zeros(queries.shape, tl.float32)
    sums, top = tl.zeros((M,), tl.float32), tl.full((M,), float("-inf"), tl.float32)
    scale *= LOG2_E
    end = tl.minimum(first + M, S) if CAUSAL else S
    unmasked = (first if CAUSAL else S) // N * N
    for masked in tl.static_range(2):
        for start in range(unmasked if masked else 0, end if masked else unmasked, N):
            scores = tl.dot(queries, tile(k, batch, head // group, start, N, WIDTH).T, input_precision="ieee")
            if masked:
                columns = start + tl.arange(0, N)[None, :]
                scores = tl.where(columns <= rows[:, None] if CAUSAL else columns < S, scores, float("-inf"))
            higher = tl.maximum(top, tl.max(scores, 1) * scale)
            weights = tl.exp2(scores * scale - higher[:, None])
            shrink = tl.exp2(top - higher)
            total *= shrink[:, None]
            values = tile(v, batch, head // group, start, N, WIDTH)
            total = tl.dot(weights.to(values.dtype), values, total, input_precision="ieee")
            sums, top = sums * shrink + tl.sum(weights, 1), higher
    tl.store(log_sums + tl.program_id(1).to(tl.int64) * S + rows, top + tl.log2(sums), mask=rows < S)
    store_tile(o, batch, head, first, total / sums[:, None], M, WIDTH)


@triton.jit
def deltas(delta, d_o, o, S, heads, M: tl.constexpr, WIDTH: tl.constexpr):
    """The sum of do * o over each head. Grid: blocks of queries, heads of all batches."""
    batch, head, first = tl.program_id(1) // heads, tl.program_id(1) % heads, tl.program_id(0) * M
    rows = first + tl.arange(0, M)
    received, outputs = tile(d_o, batch, head, first, M, WIDTH), tile(o, batch, head, first, M, WIDTH)
    sums = tl.sum(received.to(tl.float32) * outputs.to(tl.float32), 1)
    tl.store(delta + tl.program_id(1).to(tl.int64) * S + rows, sums, mask=rows < S)


@triton.jit
def backward_keys(
    d_k, d_v, d_o, q, k, v, log_sums, delta, scale, S, heads, group,
    M: tl.constexpr, N: tl.constexpr, WIDTH: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """Gradients of N keys and values. Grid: blocks of keys, key heads of all batches. Walks along the queries of every head
    that shares the keys. Queries beyond the end are zeros, and so is what they add."""
    kv_heads = heads // group
    batch, kv_head, first = tl.program_id(1) // kv_heads, tl.program_id(1) % kv_heads, tl.program_id(0) * N
    keys, values = tile(k, batch, kv_head, first, N, WIDTH), tile(v, batch, kv_head, first, N, WIDTH)
    columns = first + tl.arange(0, N)
    d_keys = tl.zeros(keys.shape, tl.float32)
    d_values = tl.zeros(keys.shape, tl.float32)
    begin = first // M * M if CAUSAL else 0
    for head in range(kv_head * group, kv_head * group + group):
        line = (batch * heads + head).to(tl.int64) * S
        for start in range(begin, S, M):
            rows = start + tl.arange(0, M)
            queries, received = tile(q, batch, head, start, M, WIDTH), tile(d_o, batch, head, start, M, WIDTH)
            scores = tl.dot(keys, queries.T, input_precision="ieee")
            log_sum = tl.load(log_sums + line + rows, mask=rows < S, other=0.0)
            weights = tl.exp2(scores * (scale * LOG2_E) - log_sum[None, :])
            if CAUSAL:
                weights = tl.where(columns[:, None] <= rows[None, :], weights, 0.0)
            d_values = tl.dot(weights.to(received.dtype), received, d_values, input_precision="ieee")
            d_weights = tl.dot(values, received.T, input_precision="ieee")
            d_scores = weights * (d_weights - tl.load(delta + line + rows, mask=rows < S, other=0.0)[None, :])
            d_keys = tl.dot(d_scores.to(queries.dtype), queries, d_keys, input_precision="ieee")
    store_tile(d_k, batch, kv_head, first, d_keys * scale, N, WIDTH)
    store_tile(d_v, batch, kv_head, first, d_values, N, WIDTH)


@triton.jit
def backward_queries(
    d_q, d_o, q, k, v, log_sums, delta, scale, S, heads, group,
    M: tl.constexpr, N: tl.constexpr, WIDTH: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """Gradients of M queries. Grid: as for the forward pass. Walks along the keys."""
    block = tl.num_programs(0) - 1 - tl.program_id(0) if CAUSAL else tl.program_id(0)
    batch, head, first = tl.program_id(1) // heads, tl.program_id(1) % heads, block * M
    queries, received = tile(q, batch, head, first, M, WIDTH), tile(d_o, batch, head, first, M, WIDTH)
    rows = first + tl.arange(0, M)
    line = tl.program_id(1).to(tl.int64) * S
    log_sum = tl.load(log_sums + line + rows, mask=rows < S, other=0.0)[:, None]
    means = tl.load(delta + line + rows, mask=rows < S, other=0.0)[:, None]
    d_queries = tl.zeros(queries.shape, tl.float32)
    end = tl.minimum(first + M, S) if CAUSAL else S
    unmasked = (first if CAUSAL else S) // N * N
    for masked in tl.static_range(2):
        for start in range(unmasked if masked else 0, end if masked else unmasked, N):
            keys = tile(k, batch, head // group, start, N, WIDTH)
            values = tile(v, batch, head // group, start, N, WIDTH)
            weights = tl.exp2(tl.dot(queries, keys.T, input_precision="ieee") * (scale * LOG2_E) - log_sum)
            if masked:
                columns = start + tl.arange(0, N)[None, :]
                weights = tl.where(columns <= rows[:, None] if CAUSAL else columns < S, weights, 0.0)
            d_scores = weights * (tl.dot(received, values.T, input_precision="ieee") - means)
            d_queries = tl.dot(d_scores.to(keys.dtype), keys, d_queries, input_precision="ieee")
    store_tile(d_q, batch, head, first, d_queries * scale, M, WIDTH)

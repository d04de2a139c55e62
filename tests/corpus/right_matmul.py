"""Matrix products that are right, fast or slow. A judge must accept them."""

import torch

import kbench

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

matmul = kbench.operator("matmul")


@matmul.provider("in_blocks")
def in_blocks(a, b):
    """Adds up the products of blocks of 32 along K, in float32."""
    total = torch.zeros(len(a), b.shape[1], device=a.device)
    for left, right in zip(a.float().split(32, 1), b.float().split(32, 0), strict=True):
        total += left @ right
    return total.to(a.dtype)


@matmul.provider("outer_products")
def outer_products(a, b):
    """Adds up K outer products, one after another."""
    total = torch.zeros(len(a), b.shape[1], dtype=torch.float64, device=a.device)
    for column, row in zip(a.t().double(), b.double(), strict=True):
        total.addr_(column, row)
    return total.to(a.dtype)


@matmul.provider("split_in_two", factory=True)
def split_in_two(case):
    """Computes two partial products in a buffer that it keeps for each shape, and adds them up."""
    buffers = {}

    def call(a, b):
        key, half = (len(a), b.shape[1]), a.shape[1] // 2
        parts = buffers.setdefault(key, torch.empty(2, *key, device=a.device))
        torch.mm(a[:, :half].float(), b[:half].float(), out=parts[0])
        torch.mm(a[:, half:].float(), b[half:].float(), out=parts[1])
        return parts.sum(0).to(a.dtype)

    return call


@matmul.provider("as_one_sum")
def as_one_sum(a, b):
    """Makes all products, an array of three dimensions, and adds them up."""
    return (a.float()[:, :, None] * b.float()[None]).sum(1).to(a.dtype)


if triton:

    @triton.jit
    def tile(c, a, b, M, N, K, a_row, a_column, b_row, b_column, BLOCK: tl.constexpr):
        rows = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)[:, None]
        columns = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)[None, :]
        total = tl.zeros((BLOCK, BLOCK), tl.float32)
        for start in range(0, K, BLOCK):
            along = start + tl.arange(0, BLOCK)
            across, down = along[None, :], along[:, None]
            left = tl.load(a + rows * a_row + across * a_column, mask=(rows < M) & (across < K), other=0.0)
            right = tl.load(b + down * b_row + columns * b_column, mask=(down < K) & (columns < N), other=0.0)
            total = tl.dot(left, right, total, input_precision="ieee")
        tl.store(c + rows * N + columns, total, mask=(rows < M) & (columns < N))

    @matmul.provider("triton_tiles", requires="triton")
    def triton_tiles(a, b):
        """One program for each tile of 64 x 64."""
        (M, K), N = a.shape, b.shape[1]
        c = a.new_empty(M, N)
        if c.numel():
            grid = (triton.cdiv(M, 64), triton.cdiv(N, 64))
            tile[grid](c, a, b, M, N, K, *a.stride(), *b.stride(), 64)
        return c

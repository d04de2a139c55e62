# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Grouped matrix products in Triton: one kernel for y and for the gradient of x, and one for the gradients of the matrices.

A tensor is a descriptor of (matrices, rows, columns), which the tensor memory accelerator of Hopper and later reads, or else a
tuple of a pointer, three strides, and the numbers of rows and columns.
"""

from __future__ import annotations

import triton
import triton.language as tl

TOGETHER = tl.constexpr(8)
"""Tiles of tokens that programs compute one after another for the same columns: the L2 cache still has what they read."""


@triton.jit
def tile(x, number, row, column, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A tile of one of the matrices. Zeros where there are no elements."""
    if isinstance(x, tl.tensor_descriptor):
        return x.load([number, row, column]).reshape(ROWS, COLUMNS)
    else:
        rows = (row + tl.arange(0, ROWS)).to(tl.int64)[:, None]
        columns = (column + tl.arange(0, COLUMNS)).to(tl.int64)[None, :]
        pointers = x[0] + tl.cast(number, tl.int64) * x[1] + rows * x[2] + columns * x[3]
        return tl.load(pointers, mask=(rows < x[4]) & (columns < x[5]), other=0.0)


@triton.jit
def products(
    y, x, w, ends, E, K, N,
    BLOCK_T: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, TRANSPOSED: tl.constexpr,
):  # fmt: skip
    """y = x @ w of each token's expert. Matrices are (N, K) if TRANSPOSED. Grid: as many programs as the device holds.

    Nothing on the host depends on the routing: each program walks along the experts and takes every so many of all tiles.
    """
    number = tl.program_id(0)  # of a tile
    begin, passed = 0, 0  # the expert's first token, and the tiles before its first
    for expert in range(E):
        end = tl.load(ends + expert)
        high, wide = tl.cdiv(end - begin, BLOCK_T), tl.cdiv(N, BLOCK_N)
        while number < passed + high * wide:
            group, inside = (number - passed) // (TOGETHER * wide), (number - passed) % (TOGETHER * wide)
            together = tl.minimum(TOGETHER, high - group * TOGETHER)
            row = begin + (group * TOGETHER + inside % together) * BLOCK_T
            column = inside // together * BLOCK_N
            total = tl.zeros((BLOCK_T, BLOCK_N), tl.float32)
            for along in range(0, K, BLOCK_K):
                left = tile(x, 0, row, along, BLOCK_T, BLOCK_K)
                if TRANSPOSED:
                    right = tile(w, expert, column, along, BLOCK_N, BLOCK_K).T
                else:
                    right = tile(w, expert, along, column, BLOCK_K, BLOCK_N)
                total = tl.dot(left, right, total, input_precision="ieee")
            # the tile has tokens of the next expert, too
            rows, columns = (row + tl.arange(0, BLOCK_T))[:, None], (column + tl.arange(0, BLOCK_N))[None, :]
            tl.store(y + rows.to(tl.int64) * N + columns, total, mask=(rows < end) & (columns < N))
            number += tl.num_programs(0)
        begin, passed = end, passed + high * wide


@triton.jit
def matrix_gradients(
    d_w, x, d_y, ends, K, N, BLOCK_T: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """d_w = x.T @ d_y over the tokens of each expert. Grid: tiles of a matrix, experts."""
    expert, wide = tl.program_id(1), tl.cdiv(N, BLOCK_N)
    row, column = tl.program_id(0) // wide * BLOCK_K, tl.program_id(0) % wide * BLOCK_N
    begin, end = tl.load(ends + expert - 1, mask=expert > 0, other=0), tl.load(ends + expert)
    whole = begin + (end - begin) // BLOCK_T * BLOCK_T
    total = tl.zeros((BLOCK_K, BLOCK_N), tl.float32)
    for masked in tl.static_range(2):
        for along in range(whole if masked else begin, end if masked else whole, BLOCK_T):
            tokens, received = tile(x, 0, along, row, BLOCK_T, BLOCK_K), tile(d_y, 0, along, column, BLOCK_T, BLOCK_N)
            if masked:  # tokens of the next expert are in the last tile, and may be NaN
                inside = (along + tl.arange(0, BLOCK_T) < end)[:, None]
                tokens, received = tl.where(inside, tokens, 0.0), tl.where(inside, received, 0.0)
            total = tl.dot(tokens.T, received, total, input_precision="ieee")
    rows, columns = (row + tl.arange(0, BLOCK_K))[:, None], (column + tl.arange(0, BLOCK_N))[None, :]
    pointers = d_w + (expert.to(tl.int64) * K + rows) * N + columns
    tl.store(pointers, total, mask=(rows < K) & (columns < N))

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Product of two matrices, `c = a @ b`, forward and backward. Float32 is IEEE arithmetic: TF32 has too few digits to pass."""

from __future__ import annotations

import math

import torch

from kbench.contract.operator import Operator
from kbench.contract.provider import Unsupported
from kbench.contract.tensor import Tensor
from kbench.kernels.cuda_driver import LARGEST_GRID_Y
from kbench.kernels.torch_fused import add_compiled
from kbench.results.case import BACKWARD, FORWARD, FULL, Case

try:
    import triton
    import triton.language as tl
except ImportError:  # then kbench reports the provider `triton` as unavailable
    triton = None


def _sum_error(terms: int) -> float:
    """Units in the last place of float32 by which a sum may be off. A sequential sum drifts by up to 2 * sqrt(terms) units."""
    return 8 + 2 * math.sqrt(terms)


def _flops(case: Case) -> int:
    """A multiplication and an addition per term. Each of the two gradients is a product of the same size as the forward one."""
    return {FORWARD: 2, BACKWARD: 4, FULL: 6}[case.mode] * int(case.M) * int(case.N) * int(case.K)


matmul = Operator(
    "matmul",
    axes=("M", "N", "K"),
    inputs={  # the tolerances are those of their gradients, which are sums over N and over M
        "a": Tensor("M", "K", tolerance=lambda case: _sum_error(case.N)),
        "b": Tensor("K", "N", tolerance=lambda case: _sum_error(case.M)),
    },
    outputs={"c": Tensor("M", "N")},
    reference=lambda a, b: a @ b,
    gradients=("a", "b"),
    model_axes=[
        {"M": "tokens", "N": "(heads + 2*kv_heads)*head_dim", "K": "hidden"},  # queries, keys and values together
        {"M": "tokens", "N": "hidden", "K": "heads*head_dim"},  # the output of the attention
        {"M": "tokens", "N": "2*intermediate", "K": "hidden"},  # gate and up together
        {"M": "tokens", "N": "hidden", "K": "intermediate"},  # down
        {"M": "tokens", "N": "vocabulary", "K": "hidden"},  # the logits
    ],
    rows="M",
    tolerance=lambda case: _sum_error(case.K),
    flops=_flops,
)


@matmul.provider("torch-native")
def torch_native(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """cuBLAS, rocBLAS or the CPU's library, and the same for the gradients."""
    return torch.matmul(a, b)


add_compiled(matmul, torch_native)


if triton:

    @triton.jit
    def tile(
        c, a, b, M, N, K, a_row, a_column, b_row, b_column,
        BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    ):  # fmt: skip
        """One program per tile of c. It walks along K and adds up in float32. Grid: tiles along M, tiles along N."""
        rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
        columns = tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
        total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for start in range(0, K, BLOCK_K):
            along = tl.cast(start, tl.int64) + tl.arange(0, BLOCK_K)
            across, down = along[None, :], along[:, None]
            left = tl.load(a + rows * a_row + across * a_column, mask=(rows < M) & (across < K), other=0.0)
            right = tl.load(b + down * b_row + columns * b_column, mask=(down < K) & (columns < N), other=0.0)
            total = tl.dot(left, right, total, input_precision="ieee")
        tl.store(c + rows * N + columns, total, mask=(rows < M) & (columns < N))


@matmul.provider("triton", requires="triton")
def triton_tiles(
    a: torch.Tensor, b: torch.Tensor, *, block_m: int = 64, block_n: int = 64, block_k: int = 32, num_warps: int = 4
) -> torch.Tensor:
    """The textbook kernel. Strides are arguments, so that transposed inputs need no copy."""
    (M, K), N = a.shape, b.shape[1]
    c = a.new_empty(M, N)
    if c.numel():
        grid, strides = (triton.cdiv(M, block_m), triton.cdiv(N, block_n)), (*a.stride(), *b.stride())
        if grid[1] > LARGEST_GRID_Y:
            raise Unsupported(f"N={N} needs {grid[1]} tiles; one launch has at most {LARGEST_GRID_Y}")
        tile[grid](c, a, b, M, N, K, *strides, block_m, block_n, block_k, num_warps=num_warps)
    return c


@matmul.backward("triton")
def triton_backward(
    dc: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    block_m: int = 64,
    block_n: int = 64,
    block_k: int = 32,
    num_warps: int = 4,
) -> tuple[torch.Tensor, torch.Tensor]:
    blocks = {"block_m": block_m, "block_n": block_n, "block_k": block_k, "num_warps": num_warps}
    return triton_tiles(dc, b.t(), **blocks), triton_tiles(a.t(), dc, **blocks)

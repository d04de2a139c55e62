# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Product of each token with the matrix of its expert, as in a mixture of experts. Tokens of an expert lie together, and `ends`
has the row behind the last token of each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

import torch

from kbench.contract.operator import Operator
from kbench.contract.provider import Unsupported
from kbench.contract.tensor import Draw, Tensor
from kbench.kernels.triton_launch import processors_of
from kbench.results.case import Case
from kbench.results.vocabulary import EdgeInput

try:
    import triton
    import triton.language as tl
except ImportError:  # then kbench reports the provider `triton` as unavailable
    triton = None


def loads(case: Case) -> list[int]:
    """How many tokens the experts get, in falling order. Zipf: the second gets half as many as the first, the third a third."""
    T, E = int(case.T), int(case.E)
    if case.routing == "one-expert":
        return [T] + [0] * (E - 1)
    weights = [1 / (number + 1) if case.routing == "zipf" else 1.0 for number in range(E)]
    bounds = [round(T * sum(weights[:number]) / sum(weights)) for number in range(E + 1)]
    return sorted((end - begin for begin, end in pairwise(bounds)), reverse=True)


def _ends(case: Case, draw: Draw) -> torch.Tensor:
    """The loads in a random order: so every draw routes the tokens in another way, and is the same work."""
    order = draw.uniform(0, 1, int(case.E), dtype="float64").argsort()
    return torch.tensor(loads(case), device=order.device)[order].cumsum(0).to(torch.int32)


def _parts(x: torch.Tensor, ends: torch.Tensor) -> list[torch.Tensor]:
    """The tokens of each expert."""
    return list(x.tensor_split(ends[:-1].tolist()))


def _reference(x: torch.Tensor, w: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    return torch.cat([part @ matrix for part, matrix in zip(_parts(x, ends), w, strict=True)])


def _bytes(case: Case, inputs: Mapping[str, torch.Tensor]) -> int:
    """The matrix of an expert without tokens need not be read."""
    ends = inputs["ends"]
    used = int((ends.diff(prepend=ends.new_zeros(1)) > 0).sum())
    elements = case.T * (case.K + case.N) + used * case.K * case.N
    return int(elements * case.itemsize + case.E * 4)


grouped_matmul = Operator(
    "grouped_matmul",
    axes=("T", "E", "K", "N"),
    inputs={"x": Tensor("T", "K"), "w": Tensor("E", "K", "N"), "ends": Tensor("E", dtype="int32", fill=_ends)},
    outputs={"y": Tensor("T", "N")},
    choices={"routing": ("balanced", "zipf", "one-expert")},
    reference=_reference,
    flops=lambda case: 2 * case.T * case.K * case.N,
    bytes=_bytes,
    model_axes=[
        {"T": "tokens*active_experts", "E": "experts", "K": "hidden", "N": "2*expert_intermediate"},  # gate and up
        {"T": "tokens*active_experts", "E": "experts", "K": "expert_intermediate", "N": "hidden"},  # down
    ],
    tolerance=lambda case: 8 + 2 * math.sqrt(case.K),  # a sequential sum of K terms
    edges={
        EdgeInput.STRIDED_ROWS: lambda case, x, w, ends: (torch.nn.functional.pad(x, (0, 8))[:, :-8], w, ends),
        EdgeInput.TRANSPOSED: lambda case, x, w, ends: (x, w.mT.contiguous().mT, ends),
        EdgeInput.ONE_ROW: lambda case, x, w, ends: (x[:1], w, ends.clamp(max=1)),
        EdgeInput.NO_ROWS: lambda case, x, w, ends: (x[:0], w, ends * 0),
    },
)


@grouped_matmul.provider("torch-native", label="torch grouped_mm")
def torch_native(x: torch.Tensor, w: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """CUTLASS's grouped kernel on a GPU, in bfloat16."""
    unit = 16 // x.element_size()
    if any(y.data_ptr() % 16 or any(n % unit for n in sorted(y.stride())[1:]) for y in (x, w)):
        raise Unsupported("torch's grouped product needs rows that begin at multiples of 16 bytes")
    return torch.nn.functional.grouped_mm(x, w, offs=ends)


@grouped_matmul.provider("torch-loop", label="torch.matmul per expert")
def torch_loop(x: torch.Tensor, w: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """It waits for the device, to learn how many tokens each expert has."""
    return _reference(x, w, ends)


if triton:

    @triton.jit
    def grouped_tiles(
        y, x, w, ends, K, N, E, x_row, x_column, w_expert, w_row, w_column,
        BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    ):  # fmt: skip
        """A fixed number of programs. The tiles of all experts are numbered in a row, and a program takes every so many.
        So nothing on the host depends on the routing."""
        number, begin, passed, across = tl.program_id(0), 0, 0, tl.cdiv(N, BLOCK_N)
        for expert in range(E):
            end = tl.load(ends + expert)
            count = tl.cdiv(end - begin, BLOCK_M) * across
            for tile in range(number - passed, count, tl.num_programs(0)):
                rows = (begin + tile // across * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]).to(tl.int64)
                columns = (tile % across * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]).to(tl.int64)
                matrix = w + tl.cast(expert, tl.int64) * w_expert
                total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
                for start in range(0, K, BLOCK_K):
                    along = tl.cast(start, tl.int64) + tl.arange(0, BLOCK_K)
                    across_k, down = along[None, :], along[:, None]
                    left = tl.load(
                        x + rows * x_row + across_k * x_column, mask=(rows < end) & (across_k < K), other=0.0
                    )
                    right = tl.load(
                        matrix + down * w_row + columns * w_column, mask=(down < K) & (columns < N), other=0.0
                    )
                    total = tl.dot(left, right, total, input_precision="ieee")
                tl.store(y + rows * N + columns, total, mask=(rows < end) & (columns < N))
            number += tl.cdiv(tl.maximum(passed + count - number, 0), tl.num_programs(0)) * tl.num_programs(0)
            passed, begin = passed + count, end


@grouped_matmul.provider("triton", label="Triton (persistent)", requires="triton")
def triton_tiles(
    x: torch.Tensor,
    w: torch.Tensor,
    ends: torch.Tensor,
    *,
    block_m: int = 64,
    block_n: int = 128,
    block_k: int = 32,
    num_warps: int = 4,
    num_stages: int = 3,
    programs: int = 2,
) -> torch.Tensor:
    """The textbook kernel of `matmul`. `programs` are those of a multiprocessor."""
    (T, K), (E, _, N) = x.shape, w.shape
    y = x.new_empty(T, N)
    if y.numel():
        grid = (processors_of(x.device).multiprocessors * programs,)
        options = {"num_warps": num_warps, "num_stages": num_stages}
        strides = (*x.stride(), *w.stride())
        grouped_tiles[grid](y, x, w, ends, K, N, E, *strides, block_m, block_n, block_k, **options)
    return y

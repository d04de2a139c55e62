"""Product of each token with the matrix of its expert, as in a mixture of experts, forward and backward. Tokens of an expert
lie together, and `ends` has the row behind the last token of each. An expert may have none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

import torch

from kbench.contract.operator import Operator
from kbench.contract.provider import Unsupported
from kbench.contract.tensor import Draw, Tensor
from kbench.results.case import BACKWARD, FORWARD, FULL, Case
from kbench.results.vocabulary import EdgeInput


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


def by_expert(x: torch.Tensor, w: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """A product for each expert. The gradient of `split` is one tensor; that of `tensor_split` is as large for each expert."""
    sizes = [end - begin for begin, end in pairwise([0, *ends[:-1].tolist(), len(x)])]
    return torch.cat([tokens @ matrix for tokens, matrix in zip(x.split(sizes), w, strict=True)])


def _flops(case: Case) -> int:
    """The same for any routing. Each of the two gradients is as much work as the product."""
    return {FORWARD: 2, BACKWARD: 4, FULL: 6}[case.mode] * int(case.T) * int(case.K) * int(case.N)


def _bytes(case: Case, inputs: Mapping[str, torch.Tensor]) -> int:
    """The matrix of an expert without tokens need not be read. Its gradient, zeros, is written."""
    ends = inputs["ends"]
    used = int((ends.diff(prepend=ends.new_zeros(1)) > 0).sum())
    x, y, matrix = case.T * case.K, case.T * case.N, case.K * case.N
    forward, backward = x + used * matrix + y, y + 2 * x + (used + case.E) * matrix
    elements = {FORWARD: forward, BACKWARD: backward, FULL: forward + backward}[case.mode]
    return int(elements * case.itemsize + case.E * 4)


def _sum_error(terms: int) -> float:
    """Units in the last place of float32 by which a sequential sum may be off."""
    return 8 + 2 * math.sqrt(terms)


grouped_matmul = Operator(
    "grouped_matmul",
    axes=("T", "E", "K", "N"),
    inputs={  # the tolerances are those of their gradients, which are sums over N and over the tokens of an expert
        "x": Tensor("T", "K", tolerance=lambda case: _sum_error(case.N)),
        "w": Tensor("E", "K", "N", tolerance=lambda case: _sum_error(case.T)),
        "ends": Tensor("E", dtype="int32", fill=_ends),
    },
    outputs={"y": Tensor("T", "N")},
    choices={"routing": ("balanced", "zipf", "one-expert")},
    reference=by_expert,
    gradients=("x", "w"),
    rows="N",  # of T, no slice would know its experts
    flops=_flops,
    bytes=_bytes,
    model_axes=[
        {"T": "tokens*active_experts", "E": "experts", "K": "hidden", "N": "2*expert_intermediate"},  # gate and up
        {"T": "tokens*active_experts", "E": "experts", "K": "expert_intermediate", "N": "hidden"},  # down
    ],
    tolerance=lambda case: _sum_error(case.K),
    edges={
        EdgeInput.STRIDED_ROWS: lambda case, x, w, ends: (torch.nn.functional.pad(x, (0, 8))[:, :-8], w, ends),
        EdgeInput.TRANSPOSED: lambda case, x, w, ends: (x, w.mT.contiguous().mT, ends),
        EdgeInput.NAN: lambda case, x, w, ends: (x.index_fill(0, ends[:1].long() // 2, math.nan), w, ends),
        EdgeInput.LARGEST_INTEGERS: lambda case, x, w, ends: (x, w, torch.full_like(ends, len(x))),
        EdgeInput.ONE_ROW: lambda case, x, w, ends: (x[:1], w, ends.clamp(max=1)),
        EdgeInput.NO_ROWS: lambda case, x, w, ends: (x[:0], w, ends * 0),
    },
)


@grouped_matmul.provider("torch-native")
def torch_native(x: torch.Tensor, w: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """CUTLASS's grouped kernel on a GPU, in bfloat16."""
    unit = 16 // x.element_size()
    if any(y.data_ptr() % 16 or any(n % unit for n in sorted(y.stride())[1:]) for y in (x, w)):
        raise Unsupported("torch's grouped product needs rows that begin at multiples of 16 bytes")
    y = torch.nn.functional.grouped_mm(x, w, offs=ends)
    if y.requires_grad:
        y.register_hook(torch.Tensor.contiguous)  # its backward pass takes no other gradients
    return y


@grouped_matmul.provider("torch-loop")
def torch_loop(x: torch.Tensor, w: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """It waits for the device, to learn how many tokens each expert has."""
    return by_expert(x, w, ends)

"""Elementwise GELU of an (M, N) matrix: the tanh form by default, the exact (erf) form with `approximate: none`."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor
from kbench.kernels import torch_fused
from kbench.results.case import Case
from kbench.results.vocabulary import EdgeInput


def _reference(x: torch.Tensor, *, approximate: str) -> torch.Tensor:
    if approximate == "none":
        return 0.5 * x * (x / -math.sqrt(2)).erfc()
    u = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    # x * sigmoid(2u) is the same function, without the cancellation in 1 + tanh(u) for negative x
    return x * (2 * u).sigmoid()


def _first_element(value: float) -> Callable[[Case, torch.Tensor], tuple[torch.Tensor]]:
    def put(case: Case, x: torch.Tensor) -> tuple[torch.Tensor]:
        y = x.clone()
        y[:1, :1] = value  # no element if the matrix is empty
        return (y,)

    return put


gelu = Operator(
    "gelu",
    axes=("M", "N"),
    choices={"approximate": ("tanh", "none")},
    inputs={"x": Tensor("M", "N")},
    outputs={"y": Tensor("M", "N")},
    reference=_reference,
    # 1 + tanh(u) is accurate to about one float32 unit at 1, so the error of x/2 (1 + tanh u) counts in units at x/2
    tolerance=lambda case: 16,
    scale=lambda case, reference, x: x.abs() / 2,
    output_ulps=1,
    rows="M",
    model_axes=[
        {"M": "tokens", "N": "intermediate"},
        {"M": "tokens*active_experts", "N": "expert_intermediate"},  # all experts in one call
    ],
    edges={
        EdgeInput.LARGE_POSITIVE: lambda case, x: (x.abs() * 1e3,),
        EdgeInput.LARGE_NEGATIVE: lambda case, x: (x.abs() * -1e3,),
        EdgeInput.TINY: lambda case, x: (x * 1e-3,),
        EdgeInput.PLUS_INF: _first_element(float("inf")),
        EdgeInput.NAN: _first_element(float("nan")),
        EdgeInput.STRIDED_ROWS: lambda case, x: (torch.nn.functional.pad(x, (0, 3))[:, :-3],),
        EdgeInput.ODD_COLUMNS: lambda case, x: (x[:, : x.shape[1] - 1 + x.shape[1] % 2].contiguous(),),
        EdgeInput.ONE_ROW: lambda case, x: (x[:1],),
        EdgeInput.ONE_COLUMN: lambda case, x: (x[:, :1].contiguous(),),
        EdgeInput.TRANSPOSED: lambda case, x: (x.t().contiguous().t(),),
        EdgeInput.NO_ROWS: lambda case, x: (x[:0],),
        EdgeInput.NO_COLUMNS: lambda case, x: (x[:, :0],),
    },
)


@gelu.provider("torch-native")
def torch_native(x: torch.Tensor, *, approximate: str = "tanh") -> torch.Tensor:
    return torch.nn.functional.gelu(x, approximate=approximate)


def naive_tanh(x: torch.Tensor) -> torch.Tensor:
    """The function that torch.jit.script and torch.compile fuse. It computes in float32, so a 16-bit result is rounded once,
    at the end."""
    v = x.float()
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)  # sqrt(2 / pi); TorchScript has no globals
    return (0.5 * v * (1 + torch.tanh(u))).to(x.dtype)


def naive_erf(x: torch.Tensor) -> torch.Tensor:
    """The exact form of `naive_tanh`."""
    v = x.float()
    return (0.5 * v * (1 + torch.erf(0.7071067811865476 * v))).to(x.dtype)


NAIVE = {"tanh": naive_tanh, "none": naive_erf}


@gelu.provider("torch-jit", factory=True)
def torch_jit(case: Case, *, approximate: str = "tanh") -> Callable[[torch.Tensor], torch.Tensor]:
    return torch_fused.scripted(NAIVE[approximate])


@gelu.provider("torch-compile", factory=True)
def torch_compile(case: Case, *, approximate: str = "tanh") -> Callable[[torch.Tensor], torch.Tensor]:
    return torch_fused.compiled(NAIVE[approximate])

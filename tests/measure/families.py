"""Operators whose terms cancel, with torch's own implementation of each, for tests of the default tolerance.

Each is written as somebody would who has read no more than the docstring of kbench.Operator: no scale, no output_ulps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor as Declared
from kbench.contract.tensor import integers
from kbench.measure.correctness.check import accuracy
from kbench.results.case import Case


@dataclass
class Family:
    """An operator, what torch calls it, and its inputs for two sizes."""

    operator: Operator
    right: Callable[..., Tensor]
    inputs: Callable[[int, int, torch.dtype, torch.Generator], tuple[Tensor, ...]]

    def draw(self, m: int, n: int, dtype: str, seed: int = 0) -> tuple[Tensor, ...]:
        return self.inputs(m, n, getattr(torch, dtype), torch.Generator().manual_seed(seed))

    def wrong(self, m: int, n: int, dtype: str, inputs: tuple[Tensor, ...], output: Tensor) -> str | None:
        """What kbench says against an output, None when it is right."""
        return accuracy(self.operator, Case(self.operator.name, {"M": m, "N": n}, dtype), inputs, output).wrong


def _operator(
    name: str, reference: Callable[..., Tensor], inputs: dict[str, Declared], output: Declared, rows: str | None = "M"
) -> Operator:
    return Operator(
        f"family-{name}", axes=("M", "N"), inputs=inputs, outputs={"y": output}, reference=reference, rows=rows
    )


MATRIX, ROW, COLUMN = Declared("M", "N"), Declared("N"), Declared("M")
LABELS = Declared("M", dtype="int64", fill=integers("N"))


def _normal(*shape: int, dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=generator).to(dtype)


def _layer_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / ((centred**2).mean(-1, keepdim=True) + 1e-5).sqrt() * w + b


def _cross_entropy(x: Tensor, labels: Tensor) -> Tensor:
    return x.logsumexp(-1) - x.gather(1, labels[:, None])[:, 0]


FAMILIES = {
    "layernorm": Family(
        _operator("layernorm", _layer_norm, {"x": MATRIX, "w": ROW, "b": ROW}, MATRIX),
        lambda x, w, b: F.layer_norm(x, x.shape[1:], w, b),
        lambda m, n, dtype, g: (
            _normal(m, n, dtype=dtype, generator=g),
            _normal(n, dtype=dtype, generator=g),
            _normal(n, dtype=dtype, generator=g),
        ),
    ),
    "matmul": Family(
        _operator("matmul", lambda a, b: a @ b, {"a": MATRIX, "b": Declared("N", "M")}, Declared("M", "M"), None),
        torch.matmul,
        lambda m, n, dtype, g: (_normal(m, n, dtype=dtype, generator=g), _normal(n, m, dtype=dtype, generator=g)),
    ),
    "cross-entropy": Family(
        _operator("cross-entropy", _cross_entropy, {"x": MATRIX, "labels": LABELS}, COLUMN),
        lambda x, labels: F.cross_entropy(x, labels, reduction="none"),
        lambda m, n, dtype, g: (_normal(m, n, dtype=dtype, generator=g), torch.randint(n, (m,), generator=g)),
    ),
    "scaled-rows": Family(
        _operator("scaled-rows", lambda x, s: x * s[:, None], {"x": MATRIX, "s": COLUMN}, MATRIX),
        lambda x, s: x * s[:, None],
        lambda m, n, dtype, g: (_normal(m, n, dtype=dtype, generator=g), _normal(m, dtype=dtype, generator=g)),
    ),
}

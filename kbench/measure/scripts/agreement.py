"""Compares what two closures return. Neither is known to be right, so a difference says nothing about who is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from kbench.measure.correctness.call import values_of
from kbench.measure.correctness.elements import ulp
from kbench.results.vocabulary import NO_TENSORS, Agreement

AGREEMENT_ULPS, FLOAT32_ULPS = 2.0, 64.0
"""Two outputs agree if no element differs by more than this many units in the last place of its dtype, plus this many of
float32: what kbench allows an operator that states no tolerance of its own."""

PIECE_ELEMENTS = 2**24
"""Outputs are compared in pieces of this size, in float64."""


def copied_tensors(returned: Any) -> list[Tensor] | None:
    """Copies of the tensors that a closure returned; None if it returned anything else than tensors."""
    values = values_of(returned)
    if not values or not all(isinstance(value, Tensor) for value in values):
        return None
    return [value.detach().clone() for value in values]


def agreement(outputs: Sequence[Tensor] | None, baseline: Sequence[Tensor] | None) -> str:
    """How the output of a closure compares with that of the baseline, in words."""
    if outputs is None or baseline is None:
        subject = "it" if outputs is None else "the baseline"
        return f"{Agreement.NOT_COMPARABLE}: {subject} {NO_TENSORS}"
    if len(outputs) != len(baseline):
        return f"{Agreement.NOT_COMPARABLE}: it returns {len(outputs)} tensors, and the baseline {len(baseline)}"
    most = 0.0
    for output, reference in zip(outputs, baseline, strict=True):
        if output.shape != reference.shape or output.dtype != reference.dtype or output.device != reference.device:
            return f"{Agreement.NOT_COMPARABLE}: it returns {_form(output)}, and the baseline {_form(reference)}"
        if output.is_complex() or output.layout != torch.strided:
            return f"{Agreement.NOT_COMPARABLE}: it returns {_form(output)}"
        most = max(most, distance(output, reference))
    return Agreement.AGREES.value if most <= 1 else f"{Agreement.DIFFERS} by {_units(outputs, baseline):.3g} ulp"


def distance(a: Tensor, b: Tensor) -> float:
    """The largest difference of two tensors, as a multiple of what is allowed. Infinite where only one has a NaN."""
    return max((_most(x, y, scale, allowed=True) for x, y, scale in _pieces(a, b)), default=0.0)


def _units(outputs: Sequence[Tensor], baseline: Sequence[Tensor]) -> float:
    """The largest difference in units in the last place of its dtype."""
    pairs = zip(outputs, baseline, strict=True)
    return max(_most(x, y, scale, allowed=False) for a, b in pairs for x, y, scale in _pieces(a, b))


def _pieces(a: Tensor, b: Tensor) -> list[tuple[Tensor, Tensor, float]]:
    """Pieces of two tensors, with the mean magnitude of the first tensor: smaller elements are measured at this scale, as they
    may be what is left of larger ones that cancel."""
    a, b = a.reshape(-1), b.reshape(-1)
    scale = float(a.float().abs().nan_to_num(0, 0, 0).mean()) if a.is_floating_point() and a.numel() else 0.0
    return [(x, y, scale) for x, y in zip(a.split(PIECE_ELEMENTS), b.split(PIECE_ELEMENTS), strict=True) if x.numel()]


def _most(a: Tensor, b: Tensor, scale: float, *, allowed: bool) -> float:
    if not a.is_floating_point():
        if a.dtype == torch.bool:
            return float("inf") if bool((a != b).any()) else 0.0
        return float((a.double() - b.double()).abs().max()) * (2.0 if allowed else 1.0)
    x, y = a.double(), b.double()
    size = torch.maximum(x.abs(), y.abs()).clamp_min(scale)
    unit = ulp(size.nan_to_num(0, 0, 0), a.dtype)
    if allowed:
        unit = AGREEMENT_ULPS * unit + FLOAT32_ULPS * ulp(size.nan_to_num(0, 0, 0), torch.float32)
    equal = (x == y) | (x.isnan() & y.isnan())
    return float(torch.where(equal, 0.0, ((x - y).abs() / unit).nan_to_num(float("inf"))).max())


def _form(x: Tensor) -> str:
    return f"{str(x.dtype).removeprefix('torch.')} {tuple(x.shape)}"

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
    most_ulps = most_allowed = 0.0
    for output, reference in zip(outputs, baseline, strict=True):
        if output.shape != reference.shape or output.dtype != reference.dtype or output.device != reference.device:
            return f"{Agreement.NOT_COMPARABLE}: it returns {_form(output)}, and the baseline {_form(reference)}"
        if output.is_complex() or output.layout != torch.strided:
            return f"{Agreement.NOT_COMPARABLE}: it returns {_form(output)}"
        ulps, allowed = _difference(output.reshape(-1), reference.reshape(-1))
        most_ulps, most_allowed = max(most_ulps, ulps), max(most_allowed, allowed)
    return Agreement.AGREES.value if most_allowed <= 1 else f"{Agreement.DIFFERS} by {most_ulps:.3g} ulp"


def _difference(a: Tensor, b: Tensor) -> tuple[float, float]:
    """The largest difference of two tensors in units in the last place, and as a multiple of what is allowed. Infinite where
    only one has a NaN. Elements below the mean magnitude are measured at that scale: they may be what is left of larger ones
    that cancel. Whole numbers must be equal."""
    floating = a.is_floating_point()
    scale = float(a.float().abs().nan_to_num(0, 0, 0).mean()) if floating and a.numel() else 0.0
    most_ulps = most_allowed = 0.0
    for piece, other in zip(a.split(PIECE_ELEMENTS), b.split(PIECE_ELEMENTS), strict=True):
        if not piece.numel():
            continue
        x, y = piece.double(), other.double()
        distance = torch.where((x == y) | (x.isnan() & y.isnan()), 0.0, (x - y).abs())
        if floating:
            size = torch.maximum(x.abs(), y.abs()).clamp_min(scale).nan_to_num(0, 0, 0)
            unit = ulp(size, a.dtype)
            allowed = AGREEMENT_ULPS * unit + FLOAT32_ULPS * ulp(size, torch.float32)
        else:
            unit, allowed = torch.ones_like(x), torch.full_like(x, 0.5)
        most_ulps = max(most_ulps, float((distance / unit).nan_to_num(float("inf")).max()))
        most_allowed = max(most_allowed, float((distance / allowed).nan_to_num(float("inf")).max()))
    return most_ulps, most_allowed


def _form(x: Tensor) -> str:
    return f"{str(x.dtype).removeprefix('torch.')} {tuple(x.shape)}"

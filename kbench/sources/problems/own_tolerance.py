"""Judges outputs by the tolerance that a problem declares, where its reference does not run in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.results.case import Case


@dataclass(frozen=True)
class OwnTolerance:
    """An element passes if `|output - reference| <= atol + rtol * |reference|`, as in torch.allclose.

    matched  the share of the elements that must pass
    cap      the largest absolute error of any element; None for no limit
    """

    atol: float
    rtol: float
    matched: float = 1.0
    cap: float | None = None

    def fault(self, output: Tensor, reference: Tensor) -> str | None:
        """What is wrong with an output, in words; None if it passes. NaN and infinities must be where the reference has
        them."""
        got, wanted = output.double(), reference.double()
        same = (got == wanted) | (got.isnan() & wanted.isnan())
        error = torch.where(same, 0.0, (got - wanted).abs())
        bad = ~(same | (error <= self.atol + self.rtol * wanted.abs()))
        passed = 1 - bad.double().mean().item() if bad.numel() else 1.0
        largest = error.nan_to_num(torch.inf).max().item() if error.numel() else 0.0
        if passed < self.matched:
            at = tuple(bad.nonzero()[0].tolist())
            first = (
                f"the first element outside is at {list(at)}: {got[at].item():.7g} instead of {wanted[at].item():.7g}"
            )
            outside = f"{bad.sum().item():,} of {bad.numel():,} elements are outside {self}"
            return f"{outside}, but {self.matched:.2%} must be within the tolerance; {first}"
        if self.cap is not None and largest > self.cap:
            return f"the largest error is {largest:.3g}, and the problem allows {self.cap:.3g}"
        return None

    def __str__(self) -> str:
        return f"the problem's tolerance (atol {self.atol:g}, rtol {self.rtol:g})"


def use_own_tolerance(operator: Operator, tolerance_of: Callable[[Case], OwnTolerance]) -> None:
    """Let the problem's tolerance of each case judge the outputs of an operator."""

    def check(
        case: Case, inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor], expected: Mapping[str, Tensor]
    ) -> str | None:
        tolerance = tolerance_of(case)
        for name, output in outputs.items():
            if found := tolerance.fault(output, expected[name]):
                return f"{name}: {found}" if len(outputs) > 1 else found
        return None

    operator.check = check

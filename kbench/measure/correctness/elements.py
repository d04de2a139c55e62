"""Compares every element of an output with the operator's fp64 reference, in units in the last place.

A correct implementation computes in float32 and rounds to the output dtype. So the error of an element may be the sum of

    `output_ulps` units in the last place of the output dtype   (the final rounding costs half a unit, or up to one if the
                                                                 float32 error makes it go the other way; an earlier
                                                                 rounding to the same dtype costs up to one more)
    `tolerance` units in the last place of float32              (the arithmetic; the operator states and justifies it. At
                                                                 a scale that kbench has estimated, four times as many)
    the smallest normal float32                                 (devices flush smaller values to zero)

Units are taken at the scale of the element. If the operator gives no `scale`, that is the magnitude of the terms that the
element is computed from (see error_scale.py): its own magnitude, unless terms cancel. If the operator gives a `scale`, the
float32 units are taken there, and those of the output dtype at |reference|.

The bound is relative to each element. Common absolute tolerances (1e-2 for bfloat16, 1e-4 for float32) accept an output of
zeros if N is large enough, because the values of softmax shrink as 1/N. With a relative bound, zeros, constants, an
unwritten tail and a stale output are millions of units off at every N.

NaN and infinities must be where the reference has them. A value that is too large for the output dtype may be infinite.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.contract.origin import shipped
from kbench.measure.correctness.error_scale import ESTIMATE_MARGIN
from kbench.measure.correctness.expected import Expected, OutputPart
from kbench.measure.definition.definition import Output


@dataclass(frozen=True)
class Accuracy:
    """How far an output is from the reference.

    max_ulp        the largest error in units in the last place of the output dtype, at the scale; finite elements only. None
                   if kbench compared no values: the operator judges them itself, or the output has a wrong form
    max_rel_err    the largest error relative to the same scale; finite elements only; None as for max_ulp
    wrong          how the output fails, in words; None if it is right
    deterministic  whether two calls on the same input gave the same bits; None if not tried
    off            the output fails by its values, not by its form
    near           no value is off by much, or few whole numbers are wrong, so the tolerance may be too narrow
    """

    max_ulp: float | None = None
    max_rel_err: float | None = None
    wrong: str | None = None
    deterministic: bool | None = None
    off: bool = False
    near: bool = False

    def worst(self, other: Accuracy) -> Accuracy:
        """Both checks combined: the larger errors and the first failure."""
        known = [each.deterministic for each in (self, other) if each.deterministic is not None]
        return Accuracy(
            _larger(self.max_ulp, other.max_ulp),
            _larger(self.max_rel_err, other.max_rel_err),
            self.wrong or other.wrong,
            all(known) if known else None,
            (self if self.wrong else other).off,
            (self if self.wrong else other).near,
        )


def _larger(a: float | None, b: float | None) -> float | None:
    return max((each for each in (a, b) if each is not None), default=None)


EXACT = Accuracy(0.0, 0.0)
"""No element is off, or there is no finite element."""

DOUBTFUL_COUNT, DOUBTFUL_SHARE = 64, 1e-4
"""If at most this many elements of an output, or this share of them, fail at an estimated scale, kbench estimates the scale of
these a second time. The first estimate is too small by chance for some of 10^6 elements, and a right provider must not fail
for that."""

EXPONENT_BITS = 0x7FF0_0000_0000_0000
"""The bits of a float64 that hold its exponent. A number with only these bits is the power of two at or below the magnitude."""

ROUNDED_SHARE = 0.01
"""If at most this share of an output of whole numbers is wrong, they may be rounded to the other side."""

NEAR = 10
"""If every error is below this many times the allowed error, the tolerance looks too narrow. Most broken kernels are off by
thousands of times."""


class WrongElements:
    """Collects the wrong elements of an output, part by part, and describes them in one sentence. `rows` are the numbers of the
    rows that `tensor` has, if it has not all rows of an output."""

    def __init__(self, tensor: Tensor, operator: Operator, output: Output, rows: Sequence[int] | None = None) -> None:
        self.shape, self.total, self.count = tuple(tensor.shape), tensor.numel(), 0
        self.operator, self.output = operator, output
        self._rows = rows
        self._row_dimension = output.declared.dimension_of(operator.rows) if operator.rows and rows else None
        self.first = self.knob = ""
        self.bounds: list[tuple[int, int]] = []  # the first and the last wrong index of every dimension but the rows
        self.zeros = self.nans = True
        self._close = False

    @property
    def near(self) -> bool:
        """No value is off by much, or so few whole numbers are wrong that they may be rounded to the other side."""
        if self.output.dtype.is_floating_point:
            return self._close
        return 0 < self.count <= ROUNDED_SHARE * self.total

    def add(
        self,
        right: Tensor,
        part: OutputPart,
        got: Tensor,
        reference: Tensor,
        error: Tensor,
        unit: Tensor,
        allowed: Tensor,
        rounded: Tensor,
    ) -> None:
        """Add a part of the output.

        `error` and `allowed` are absolute. `unit` is the last place of the output at the reference. `rounded` is a mask of
        the elements whose allowed error is mostly the rounding of the output.
        """
        bad = ~right
        if not bad.any():
            return
        at = tuple(bad.nonzero()[0].tolist())
        near = bool((error[bad] <= NEAR * allowed[bad]).all())
        if not self.count:
            self._begin(part, at, *_apart(got[at].item(), reference[at].item(), 7))
            units = (error[at] / unit[at]).item()
            if math.isfinite(units):
                self.first += " ({} ulp, {} allowed)".format(*_apart(units, (allowed[at] / unit[at]).item()))
            self.knob = "output_ulps" if bool(rounded[at]) else "tolerance"
        self._close = near and (self._close or not self.count)
        self._count(part, bad, got)

    def add_exact(self, right: Tensor, part: OutputPart, got: Tensor, reference: Tensor) -> None:
        """Add a part of an output that is not floating-point: every element must equal the reference."""
        bad = ~right
        if not bad.any():
            return
        at = tuple(bad.nonzero()[0].tolist())
        if not self.count:
            self._begin(part, at, str(got[at].item()), str(reference[at].item()))
        self._count(part, bad, got)

    def _begin(self, part: OutputPart, at: tuple[int, ...], is_: str, should: str) -> None:
        numbers = [i + (part.start if d == part.dimension else 0) for d, i in enumerate(at)]
        if self._rows and self._row_dimension is not None:
            numbers[self._row_dimension] = self._rows[numbers[self._row_dimension]]
        place = ", ".join(map(str, numbers))
        self.first = (f"first at [{place}]: " if at else "") + f"{is_} instead of {should}"

    def _count(self, part: OutputPart, bad: Tensor, got: Tensor) -> None:
        self.count += int(bad.sum())
        self.zeros &= bool((got[bad] == 0).all())
        self.nans &= bool(got[bad].isnan().all())
        if len(self.shape) < 2:
            return
        columns = bad.any(0)
        if part.dimension:  # a slice of every row
            whole = columns.new_zeros(self.shape[1:])
            whole.narrow(part.dimension - 1, part.start, part.stop - part.start).copy_(columns)
            columns = whole
        touched = columns.nonzero()
        found = list(zip(touched.amin(0).tolist(), touched.amax(0).tolist(), strict=True))
        before = self.bounds or found
        self.bounds = [(min(a, low), max(b, high)) for (a, b), (low, high) in zip(before, found, strict=True)]

    def describe(self) -> str:
        kind = "zero" if self.zeros else "NaN" if self.nans else "wrong"
        many = "every element" if self.count == self.total else f"{self.count} of {self.total} elements"
        where = self._where() if self.count < self.total else ""
        return f"{many} {kind}{where}; {self.first}{self._hint()}"

    def _where(self) -> str:
        """The columns, or the indices of a tensor of more dimensions, within which all wrong elements are."""
        sizes = self.shape[1:]
        if all(each == (0, size - 1) for each, size in zip(self.bounds, sizes, strict=False)):
            return ""
        ranges = [str(low) if low == high else f"{low} to {high}" for low, high in self.bounds]
        if len(ranges) == 1:
            return f", all in column{'s' if ' to ' in ranges[0] else ''} {ranges[0]}"
        full = [each == (0, size - 1) for each, size in zip(self.bounds, sizes, strict=True)]
        places = [":", *(":" if everywhere else each for everywhere, each in zip(full, ranges, strict=True))]
        return f", all in [{', '.join(places)}]"

    def _hint(self) -> str:
        """Which declaration to change, if the tolerance looks too narrow: the tensor's own, if it has one. Nobody should change
        an operator of kbench, and an output of which most elements are wrong has another fault."""
        if not self._close or self.count > max(1, self.total // 2) or self.operator.name in shipped():
            return ""
        own = {"output_ulps": self.output.declared.ulps, "tolerance": self.output.declared.tolerance}
        if own.get(self.knob) is None:
            return f"; to allow more, raise {self.knob} of operator {self.operator.name}"
        tensor, knob = self.output.name.removeprefix("gradient of "), self.knob.removeprefix("output_")
        return f"; to allow more, raise {knob} of {tensor} in operator {self.operator.name}"


def _apart(a: float, b: float, least: int = 3) -> tuple[str, str]:
    """Two numbers with `least` digits, or with as many as it takes for them to differ."""
    digits = next((digits for digits in range(least, 17) if f"{a:.{digits}g}" != f"{b:.{digits}g}"), least)
    return f"{a:.{digits}g}", f"{b:.{digits}g}"


def compare_elements(
    part: OutputPart, output: Tensor, wrong: WrongElements, expected: Expected | None = None
) -> Accuracy:
    """Compare a part of an output with the reference. `wrong` collects the elements that are wrong. With `expected`, from which
    the part is, the scale of a few wrong elements is estimated a second time."""
    if part.scale is None:
        right = output == part.reference
        # the last place of a whole number is 1
        if wrong.output.declared.ulps is not None and output.dtype != torch.bool:
            right |= (output.double() - part.reference.double()).abs() <= wrong.output.ulps
        wrong.add_exact(right, part, output, part.reference)
        return EXACT
    if found := compare_in_one_pass(part, output, wrong):
        return found
    errors = _errors(part.reference, part.scale, output, wrong)
    if bool((errors.error <= errors.allowed).all()):  # so all values are finite: NaN is not within any bound
        return _largest(errors, output.dtype, None)
    right = _right(errors, part.reference, output, wrong.output)
    doubtful = int((~right).sum()) if _estimated(wrong) else 0
    if expected and 0 < doubtful <= max(DOUBTFUL_COUNT, DOUBTFUL_SHARE * output.numel()):
        errors = _errors(part.reference, expected.second_scale(part, ~right), output, wrong)
        right = _right(errors, part.reference, output, wrong.output)
    unit, rounded = ulp(part.reference, output.dtype), errors.rounding > errors.arithmetic
    wrong.add(right, part, errors.got, part.reference, errors.error, unit, errors.allowed, rounded)
    measured = part.reference.isfinite() & errors.got.isfinite()
    return _largest(errors, output.dtype, measured) if measured.any() else EXACT


def compare_in_one_pass(part: OutputPart, output: Tensor, wrong: WrongElements) -> Accuracy | None:
    """The same as `compare_elements`, if all elements are right and a kernel can compare them. None if not."""
    kernel = _kernel() if output.is_cuda else None
    if kernel is None or part.scale is None or output.dtype not in kernel.KERNEL_DTYPES or not output.numel():
        return None
    if not all(x.is_contiguous() for x in (output, part.reference, part.scale)):
        return None
    found = kernel.largest_errors(
        output, part.reference, part.scale, ulps=wrong.output.ulps, units=_units(wrong), at_scale=_estimated(wrong)
    )
    return Accuracy(*found) if found else None


@cache
def _kernel() -> Any:
    """The module with the kernel; None without Triton, and where Triton interprets its kernels."""
    if not find_spec("triton") or os.environ.get("TRITON_INTERPRET") == "1":
        return None
    return import_module("kbench.measure.machine.compare_kernel")


@dataclass(frozen=True)
class _Errors:
    """The errors of an output at a scale, per element, in float64.

    got         the values of the output
    error       their distance from the reference
    step        the last place of the output that the rounding is counted in
    rounding    the allowed error of the rounding
    arithmetic  the allowed error of the arithmetic
    allowed     the allowed error in all
    """

    scale: Tensor
    got: Tensor
    error: Tensor
    step: Tensor
    rounding: Tensor
    arithmetic: Tensor
    allowed: Tensor


def _estimated(wrong: WrongElements) -> bool:
    """Whether kbench has estimated the scale of an output."""
    return wrong.operator.scale is None or wrong.output.gradient


def _units(wrong: WrongElements) -> float:
    """How many units in the last place of float32 are allowed for the arithmetic."""
    return wrong.output.tolerance * (ESTIMATE_MARGIN if _estimated(wrong) else 1)


def _errors(reference: Tensor, scale: Tensor, output: Tensor, wrong: WrongElements) -> _Errors:
    estimated, wanted = _estimated(wrong), wrong.output
    got = output.double()
    step = ulp(scale if estimated else reference, output.dtype)
    rounding = wanted.ulps * step
    arithmetic = ulp(scale, torch.float32).mul_(_units(wrong))
    allowed = (rounding + arithmetic).add_(torch.finfo(torch.float32).tiny)
    return _Errors(scale, got, (got - reference).abs_(), step, rounding, arithmetic, allowed)


def _right(errors: _Errors, reference: Tensor, output: Tensor, wanted: Output) -> Tensor:
    """A mask of the values that are right: within the bound, or not finite where they may be."""
    got = errors.got
    info = torch.finfo(output.dtype)
    largest = info.max
    half_step = math.ldexp(info.eps, math.frexp(largest)[1] - 2)  # rounding takes values to infinity from here on
    too_large = reference.abs() + errors.arithmetic + max(wanted.ulps - 1, 0) * errors.step >= largest + half_step
    # formats without infinity saturate, or give NaN
    beyond = got.isinf() | (output.dtype.itemsize == 1) & (got.isnan() | (got.abs() == largest))
    overflown = beyond & too_large & (got.isnan() | (got.sign() == reference.sign()))
    within = (errors.error <= errors.allowed) | overflown
    return torch.where(reference.isfinite(), within, (got == reference) | (got.isnan() & reference.isnan()))


def _largest(errors: _Errors, dtype: torch.dtype, measured: Tensor | None) -> Accuracy:
    """The largest error in units in the last place of the output, and relative to the scale. `measured` is a mask of the
    elements that count; None for all."""
    if not errors.error.numel():
        return EXACT
    floor = torch.finfo(torch.float32).tiny
    units = errors.error / ulp(errors.scale, dtype)
    relative = torch.where(errors.scale > floor, errors.error / errors.scale.clamp_min(floor), 0.0)
    if measured is not None:
        units, relative = torch.where(measured, units, 0.0), torch.where(measured, relative, 0.0)
    return Accuracy(units.max().item(), relative.max().item())


def ulp(value: Tensor, dtype: torch.dtype) -> Tensor:
    """The spacing of `dtype`'s numbers at |value| (fp64 in, fp64 out); the subnormal spacing at and below zero."""
    info = torch.finfo(dtype)
    power = (value.view(torch.int64) & EXPONENT_BITS).view(torch.float64)  # at or below |value|; infinite for NaN
    return power.nan_to_num_(posinf=0.0).clamp_min_(info.tiny).mul_(info.eps)

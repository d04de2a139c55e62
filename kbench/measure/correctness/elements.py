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

The bound is relative to each element. An absolute one (1e-2 for bfloat16) accepts zeros if N is large enough: the values of
softmax shrink as 1/N. Here zeros, constants, an unwritten tail and a stale output are millions of units off at every N.

NaN and infinities must be where the reference has them. A value that is too large for the output dtype may be infinite.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.contract.origin import shipped
from kbench.measure.correctness.definition import Output
from kbench.measure.correctness.expected import Expected, OutputPart
from kbench.measure.correctness.memory import same_values
from kbench.results.row import WrongElement


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
    remark         what the operator's own check says of outputs that pass, if it shows too little to trust them
    element        the first wrong element; None if the output fails by its form, or the operator judges it itself
    """

    max_ulp: float | None = None
    max_rel_err: float | None = None
    wrong: str | None = None
    deterministic: bool | None = None
    off: bool = False
    near: bool = False
    remark: str = ""
    element: WrongElement | None = None

    def worst(self, other: Accuracy) -> Accuracy:
        """Both checks combined: the larger errors and the first failure."""
        repeats = [check.deterministic for check in (self, other) if check.deterministic is not None]
        first_failure = self if self.wrong else other
        return replace(
            first_failure,
            max_ulp=_larger(self.max_ulp, other.max_ulp),
            max_rel_err=_larger(self.max_rel_err, other.max_rel_err),
            deterministic=all(repeats) if repeats else None,
            remark=self.remark or other.remark,
        )


def _larger(a: float | None, b: float | None) -> float | None:
    return max((value for value in (a, b) if value is not None), default=None)


EXACT = Accuracy(0.0, 0.0)
"""No element is off, or there is no finite element."""

DOUBTFUL_COUNT, DOUBTFUL_SHARE = 64, 1e-4
"""If at most so many elements, or this share, fail at an estimated scale, kbench estimates their scale again. The first
estimate is too small by chance for some of 10^6 elements, and a right provider must not fail for that."""

EXPONENT_BITS = 0x7FF0_0000_0000_0000
"""The bits of a float64 that hold its exponent. A number with only these bits is the power of two at or below the magnitude."""

ROUNDED_SHARE = 0.01
"""If at most this share of an output of whole numbers is wrong, they may be rounded to the other side."""

NEAR = 10
"""If all errors are below this many times the allowed one, the tolerance looks too narrow. Most broken kernels are far off."""


ROUNDED_TO = {
    "float16 or TF32": (2.0**-15, 2.0**-11, 2.0**-9),
    "bfloat16": (2.0**-11, 2.0**-6, 3 * 2.0**-7),
}
"""Shorter formats, and about how large the mean of the relative errors is if a kernel computes in them: at least, below, and
the largest error. A missing column has a few larger ones."""

LOST_SHARE = 0.1
"""Where terms cancel, a shorter format leaves no digit of an element. At most this share of the elements are so."""

BOTH_WAYS = 0.1
"""Rounding errs upwards and downwards: each in at least this share of the wrong elements."""


class WrongElements:
    """Collects the wrong elements of an output, part by part, and describes them in one sentence. `rows` are the numbers of the
    rows that `tensor` has, if it has not all rows of an output."""

    def __init__(self, tensor: Tensor, operator: Operator, output: Output, rows: Sequence[int] | None = None) -> None:
        self.shape, self.total, self.count = tuple(tensor.shape), tensor.numel(), 0
        self.operator, self.output = operator, output
        self._rows = rows
        self._row_dimension = output.declared.dimension_of(operator.rows) if rows else None
        self.first: WrongElement | None = None
        self._words = self._knob = ""
        # the first and the last wrong index of every dimension but the rows
        self._bounds: list[tuple[int, int]] = []
        self.zeros = self._nans = self._close = True
        self._relative = self._largest = 0.0  # the sum of the relative errors, and the largest
        self._lost = 0  # wrong elements that are off by 100 % or more: they have no right digit
        # wrong elements with too large a magnitude: a wrong factor makes all of them so, or none
        self._above = 0

    @property
    def near(self) -> bool:
        """No value is off by much, or so few whole numbers that they may be rounded to the other side."""
        if self.output.dtype.is_floating_point:
            return self._close
        return self.count <= ROUNDED_SHARE * self.total

    def add(self, part: OutputPart, output: Tensor, right: Tensor, errors: Errors | None = None) -> None:
        """Add a part of the output, with a mask of its right elements. Whole numbers have no `errors`."""
        bad = ~right
        if not bad.any():
            return
        if not self.count:
            index = tuple(bad.nonzero()[0].tolist())
            is_, should = str(output[index].item()), str(part.reference[index].item())
            self.first = WrongElement(self.output.name, self._place(part, index), is_, should)
            self._words = errors.words(index) if errors else f"{is_} instead of {should}"
            self._knob = errors.knob(index) if errors else ""
        if errors:
            self._close &= bool((errors.error[bad] <= NEAR * errors.allowed[bad]).all())
            relative, size = errors.relative[bad], part.reference[bad].abs()
            self._relative += relative.sum().item()
            self._largest = max(self._largest, relative.max().item())
            self._lost += int(((errors.error[bad] >= size) & (size > 0)).sum())
            self._above += int((errors.values.abs() > part.reference.abs())[bad].sum())
        self.count += int(bad.sum())
        values = output.double()[bad]
        self.zeros &= bool((values == 0).all())
        self._nans &= bool(values.isnan().all())
        if len(self.shape) > 1:
            self._widen_bounds(part, bad.any(0))

    def _place(self, part: OutputPart, index: tuple[int, ...]) -> tuple[int, ...]:
        """The index of an element of a part in the whole output."""
        numbers = [i + (part.start if d == part.dimension else 0) for d, i in enumerate(index)]
        if self._rows and self._row_dimension is not None:
            numbers[self._row_dimension] = self._rows[numbers[self._row_dimension]]
        return tuple(numbers)

    def _widen_bounds(self, part: OutputPart, columns: Tensor) -> None:
        touched = columns.nonzero()
        if part.dimension:  # a slice of every row
            touched[:, part.dimension - 1] += part.start
        bounds = list(zip(touched.amin(0).tolist(), touched.amax(0).tolist(), strict=True))
        before = self._bounds or bounds
        self._bounds = [(min(a, low), max(b, high)) for (a, b), (low, high) in zip(before, bounds, strict=True)]

    def describe(self) -> str:
        kind = "zero" if self.zeros else "NaN" if self._nans else "wrong"
        many = "every element" if self.count == self.total else f"{self.count} of {self.total} elements"
        where = self._where() if self.count < self.total else ""
        index = self.first.index if self.first else ()
        place = f"first at [{', '.join(map(str, index))}]: " if index else ""
        return f"{many} {kind}{where}; {place}{self._words}{self._hint() or self._shorter_format()}"

    def _where(self) -> str:
        """The columns, or indices of more dimensions, within which all wrong elements are."""
        sizes = self.shape[1:]
        if all(bounds == (0, size - 1) for bounds, size in zip(self._bounds, sizes, strict=False)):
            return ""
        ranges = [str(low) if low == high else f"{low} to {high}" for low, high in self._bounds]
        if len(ranges) == 1:
            return f", all in column{'s' if ' to ' in ranges[0] else ''} {ranges[0]}"
        full = [bounds == (0, size - 1) for bounds, size in zip(self._bounds, sizes, strict=True)]
        places = [":", *(":" if is_full else text for is_full, text in zip(full, ranges, strict=True))]
        return f", all in [{', '.join(places)}]"

    def _hint(self) -> str:
        """Which declaration to change, if the tolerance looks too narrow. Nobody should change an operator of others. An
        output of which most elements are wrong, or one has no right digit, has another fault."""
        of_others = self.operator.source or self.operator.name in shipped()
        if self.count > max(1, self.total // 2) or of_others:
            return ""
        if not self.output.dtype.is_floating_point and self.output.dtype != torch.bool:  # indices of equal values, say
            return f"; if several answers are right, declare check= or ulps= in operator {self.operator.name}"
        if not self._close or self._lost or not self._knob:
            return ""
        declared = {"output_ulps": self.output.declared.ulps, "tolerance": self.output.declared.tolerance}
        if declared.get(self._knob) is None:
            return f"; to allow more, raise {self._knob} of operator {self.operator.name}"
        tensor, knob = self.output.name.removeprefix("gradient of "), self._knob.removeprefix("output_")
        return f"; to allow more, raise {knob} of {tensor} in operator {self.operator.name}"

    def _shorter_format(self) -> str:
        """Which shorter format most errors point to: by their size, and as they are of both signs."""
        least = BOTH_WAYS * self.count
        if not self.output.dtype.is_floating_point or 2 * self.count < self.total:
            return ""
        if not least <= self._above <= self.count - least or self._lost > LOST_SHARE * self.count:
            return ""
        for name, (low, high, most) in ROUNDED_TO.items():
            in_range = low <= self._relative / self.count < high and self._largest <= most
            if torch.finfo(self.output.dtype).eps <= low and in_range:
                return f"; errors of this size, up and down, may come from computing in {name}"
        return ""


def _distinct(a: float, b: float, least: int = 3) -> tuple[str, str]:
    """Two numbers with `least` digits, or with as many as it takes for them to differ."""
    digits = next((digits for digits in range(least, 17) if f"{a:.{digits}g}" != f"{b:.{digits}g}"), least)
    return f"{a:.{digits}g}", f"{b:.{digits}g}"


def compare_elements(part: OutputPart, output: Tensor, wrong: WrongElements, expected: Expected) -> Accuracy:
    """Compare a part of an output with the reference. `wrong` collects the elements that are wrong. `expected`, from which the
    part is, estimates the scale of a few wrong elements again."""
    if part.scale is None:
        right = output == part.reference
        # the last place of a whole number is 1
        if wrong.output.declared.ulps is not None and output.dtype != torch.bool:
            right |= (output.double() - part.reference.double()).abs() <= wrong.output.ulps
        wrong.add(part, output, right)
        return EXACT
    errors = Errors(part.reference, part.scale, output, wrong)
    if errors.all_within:  # so all values are finite: NaN is not within any bound
        return errors.largest()
    right = errors.right()
    doubtful = int((~right).sum()) if wrong.output.scale_estimated else 0
    if 0 < doubtful <= max(DOUBTFUL_COUNT, DOUBTFUL_SHARE * output.numel()):
        for scale in expected.better_scales(part, ~right):
            errors = Errors(part.reference, scale, output, wrong)
            right = errors.right()
            if right.all():
                break
    wrong.add(part, output, right, errors)
    return errors.largest(part.reference.isfinite() & errors.values.isfinite())


class Errors:
    """The errors of an output at a scale, per element, in float64.

    values      those of the output
    error       their distance from the reference
    unit        the last place of the output's dtype at the scale
    step        the one that the rounding is counted in
    arithmetic  the allowed error of the arithmetic
    allowed     the allowed error in all
    """

    def __init__(self, reference: Tensor, scale: Tensor, output: Tensor, wrong: WrongElements) -> None:
        self._reference, self._scale = reference, scale
        self._dtype, self._info = output.dtype, torch.finfo(output.dtype)
        self._ulps, single = wrong.output.ulps, torch.finfo(torch.float32)
        self.values = output.double()
        self.error = (self.values - reference).abs_()
        self.unit = ulp(scale, output.dtype)
        self.step = self.unit if wrong.output.scale_estimated else ulp(reference, output.dtype)
        self.arithmetic = ulp(scale, torch.float32).mul_(wrong.output.units)
        self.allowed = (self._ulps * self.step).add_(self.arithmetic).add_(single.tiny)

    @cached_property
    def relative(self) -> Tensor:
        """The errors relative to the scale."""
        floor = torch.finfo(torch.float32).tiny
        return torch.where(self._scale > floor, self.error / self._scale.clamp_min(floor), 0.0)

    @cached_property
    def all_within(self) -> bool:
        """Whether every error is within the bound."""
        return bool((self.error <= self.allowed).all())

    def right(self) -> Tensor:
        """A mask of the values that are right: within the bound, or not finite where they may be."""
        values, reference, info = self.values, self._reference, self._info
        # rounding takes values to infinity from here on
        half_step = math.ldexp(info.eps, math.frexp(info.max)[1] - 2)
        too_large = reference.abs() + self.arithmetic + max(self._ulps - 1, 0) * self.step >= info.max + half_step
        # formats without infinity saturate, or give NaN
        beyond = values.isinf() | (info.bits == 8) & (values.isnan() | (values.abs() == info.max))
        overflown = beyond & too_large & (values.isnan() | (values.sign() == reference.sign()))
        within = (self.error <= self.allowed) | overflown
        return torch.where(reference.isfinite(), within, same_values(values, reference))

    def largest(self, measured: Tensor | None = None) -> Accuracy:
        """The largest error in units in the last place, and relative to the scale, where `measured` holds."""
        if not self.error.numel():
            return EXACT
        units, relative = self.error / self.unit, self.relative
        if measured is not None:
            units, relative = torch.where(measured, units, 0.0), torch.where(measured, relative, 0.0)
        return Accuracy(units.max().item(), relative.max().item())

    def words(self, index: tuple[int, ...]) -> str:
        """What is wrong with one element: `0.004 instead of 0.003 (1.44e+07 ulp, 209 allowed)`."""
        unit = ulp(self._reference[index].reshape(1), self._dtype).item()
        text = "{} instead of {}".format(*_distinct(self.values[index].item(), self._reference[index].item(), 7))
        units = self.error[index].item() / unit
        if not math.isfinite(units):
            return text
        return text + " ({} ulp, {} allowed)".format(*_distinct(units, self.allowed[index].item() / unit))

    def knob(self, index: tuple[int, ...]) -> str:
        """What an author raises to allow more at this element: the larger part of the allowed error."""
        return "output_ulps" if self._ulps * self.step[index].item() > self.arithmetic[index].item() else "tolerance"


def ulp(value: Tensor, dtype: torch.dtype) -> Tensor:
    """The spacing of `dtype`'s numbers at |value|, in float64; at least that of subnormal ones."""
    info = torch.finfo(dtype)
    # at or below |value|; infinite for NaN
    power = (value.view(torch.int64) & EXPONENT_BITS).view(torch.float64)
    return power.nan_to_num_(posinf=0.0).clamp_min_(info.tiny).mul_(info.eps)

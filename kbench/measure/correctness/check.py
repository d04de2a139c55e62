"""Checks every element of an output against the operator's fp64 reference, in units in the last place.

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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from kbench.measure.correctness.definition import Definition
from kbench.measure.correctness.error_scale import ESTIMATE_MARGIN
from kbench.measure.correctness.expected import Expected, OutputPart
from kbench.measure.machine.device import Device
from kbench.registry import Operator
from kbench.results.case import Case

NEAR = 10
"""If every error is below this many times the allowed error, the tolerance looks too narrow. Most broken kernels are off by
thousands of times."""


@dataclass(frozen=True)
class Accuracy:
    """How far an output is from the reference.

    max_ulp        the largest error in units in the last place of the output dtype, at the scale; finite elements only
    max_rel_err    the largest error relative to the same scale; finite elements only
    wrong          how the output fails, in words; None if it is right
    deterministic  whether two calls on the same input gave the same bits; None if not tried
    off            the output fails by its values, not by its form
    near           no value is off by much, so the tolerance may be too narrow
    """

    max_ulp: float = 0.0
    max_rel_err: float = 0.0
    wrong: str | None = None
    deterministic: bool | None = None
    off: bool = False
    near: bool = False

    def worst(self, other: Accuracy) -> Accuracy:
        """Both checks combined: the larger errors and the first failure."""
        known = [each.deterministic for each in (self, other) if each.deterministic is not None]
        return Accuracy(
            max(self.max_ulp, other.max_ulp),
            max(self.max_rel_err, other.max_rel_err),
            self.wrong or other.wrong,
            all(known) if known else None,
            (self if self.wrong else other).off,
            (self if self.wrong else other).near,
        )


QUEUE_MS = 2.0
"""How long the device is kept busy before a checked call: longer than the host needs to queue the call and the copies."""


def run_checked(expected: Expected, fn: Callable[..., Any], inputs: Sequence[Tensor], device: Device) -> Accuracy:
    """Fill `inputs` with the values of `expected`, call `fn` on them twice, and judge the outputs.

    On a device, the first call is queued behind a spin kernel, and its output is copied in the same queue. This finds a
    provider that works on another stream without waiting: it reads its input before it is written, or writes its output
    after it is read. Before the second call, the memory that its output is likely to get is filled with NaN. This finds a
    provider that skips the work. Raises OperatorFault, and whatever `fn` raises.
    """
    shape, dtype = expected.shape, output_like(inputs).dtype
    device.poison(shape, dtype)
    device.keep_busy(QUEUE_MS)
    for x, value in zip(inputs, expected.inputs, strict=True):
        x.copy_(value)
    output = fn(*inputs)
    delivered = output.clone() if isinstance(output, Tensor) else output
    device.synchronize()
    found = judge_call(expected, inputs, output, delivered)
    if found.wrong:
        return found
    device.poison(shape, dtype)
    again = fn(*inputs)
    device.synchronize()
    if fault := _malformed(again, shape, output_like(inputs)):
        return replace(found, wrong=f"{fault} (when called again)")
    if _same_memory(output, again):
        return replace(
            found, wrong="returned the same memory for two calls: the later result overwrites the earlier one"
        )
    same = bool(((delivered == again) | (delivered.isnan() & again.isnan())).all())
    found = replace(found, deterministic=same)
    return found if same else found.worst(judge_call(expected, inputs, again, again))


def judge_call(expected: Expected, inputs: Sequence[Tensor], output: Any, delivered: Any) -> Accuracy:
    """Judge one call: kind, shape, dtype, device and values of the output, and whether the inputs are unchanged.

    `delivered` holds the values that the output had when the queue reached it.
    """
    fault = _malformed(output, expected.shape, output_like(inputs)) or changed_input(inputs, expected.inputs)
    if fault:
        return Accuracy(wrong=fault)
    if any(_same_memory(output, x) for x in inputs):
        return Accuracy(wrong="returned its own input")
    return compared(expected, delivered)


def output_like(inputs: Sequence[Tensor]) -> Tensor:
    """The input with the dtype and the device that the output must have: the first floating-point input, or else the first."""
    return next((x for x in inputs if x.is_floating_point()), inputs[0])


def changed_input(inputs: Sequence[Tensor], before: Sequence[Tensor]) -> str | None:
    """What to report if an input differs from its copy (NaN equals NaN); None if none does."""
    for position, (x, old) in enumerate(zip(inputs, before, strict=True)):
        same = torch.equal(x, old) or bool(((x == old) | (x.isnan() & old.isnan())).all())
        if not same:
            return f"changed its input in place (input {position})"
    return None


def _malformed(output: Any, shape: tuple[int, ...], like: Tensor) -> str | None:
    if not isinstance(output, Tensor):
        return f"returned {type(output).__name__}, expected a tensor"
    if output.dtype != like.dtype:
        return f"returned {_name(output.dtype)}, expected {_name(like.dtype)}"
    if tuple(output.shape) != shape:
        return f"returned shape {tuple(output.shape)}, expected {shape}"
    if output.device != like.device:
        return f"returned a tensor on {output.device}, expected {like.device}"
    return None


def _same_memory(a: Tensor, b: Tensor) -> bool:
    return a.numel() > 0 and a.data_ptr() == b.data_ptr()


def accuracy(operator: Operator, case: Case, inputs: Sequence[Tensor], output: Tensor) -> Accuracy:
    """Compare an output of the right shape with the operator's reference on these inputs. Raises OperatorFault."""
    return compared(Expected(Definition(operator, case), inputs), output)


def compared(expected: Expected, output: Tensor) -> Accuracy:
    """Compare an output of the right shape with the expected one. Raises OperatorFault."""
    result = Accuracy()
    if output.numel() == 0:
        return result
    operator = expected.definition.operator
    tolerance = expected.definition.tolerance()
    wrong = _Wrong(output, operator)
    for part in expected.parts():
        result = result.worst(_compare(part, part.of(output), operator, tolerance, wrong))
    return Accuracy(result.max_ulp, result.max_rel_err, wrong.describe(), off=bool(wrong.count), near=wrong.near)


def _compare(part: OutputPart, output: Tensor, operator: Operator, tolerance: float, wrong: _Wrong) -> Accuracy:
    reference, scale = part.reference, part.scale
    got = output.double()
    finite = reference.isfinite()
    error = (got - reference).abs()
    unit = ulp(reference, output.dtype)
    rounding = operator.output_ulps * (ulp(scale, output.dtype) if operator.scale is None else unit)
    arithmetic = tolerance * (ESTIMATE_MARGIN if operator.scale is None else 1) * ulp(scale, torch.float32)
    allowed = rounding + arithmetic + torch.finfo(torch.float32).tiny
    too_large = reference.abs() + allowed > torch.finfo(output.dtype).max
    overflown = got.isinf() & too_large & (got.sign() == reference.sign())
    # A comparison with NaN is False, so NaN is not within any bound.
    within = (error <= allowed) | overflown
    right = torch.where(finite, within, (got == reference) | (got.isnan() & reference.isnan()))
    wrong.add(right, part.start, got, reference, error, unit, allowed, rounding > arithmetic)
    measured = finite & got.isfinite()
    if not measured.any():
        return Accuracy()
    units = torch.where(measured, error / ulp(scale, output.dtype), 0.0).max().item()
    floor = torch.finfo(torch.float32).tiny
    relative = torch.where(measured & (scale > floor), error / scale.clamp_min(floor), 0.0).max().item()
    return Accuracy(units, relative)


def ulp(value: Tensor, dtype: torch.dtype) -> Tensor:
    """The spacing of `dtype`'s numbers at |value| (fp64 in, fp64 out); the subnormal spacing at and below zero."""
    info = torch.finfo(dtype)
    digits = round(-math.log2(info.eps))
    lowest = round(math.log2(info.tiny))
    exponent = torch.frexp(value.nan_to_num(0.0, 0.0, 0.0))[1] - 1
    exponent = torch.where(value == 0, lowest, exponent).clamp_min(lowest)
    return torch.exp2((exponent - digits).double())


class _Wrong:
    """Collects the wrong elements of an output, and describes them in one sentence."""

    def __init__(self, output: Tensor, operator: Operator) -> None:
        self.shape, self.total, self.count = tuple(output.shape), output.numel(), 0
        self.operator = operator
        self.first = self.knob = ""
        self.columns: tuple[int, int] | None = None
        self.zeros = self.nans = True
        self.near = False

    def add(
        self,
        right: Tensor,
        start: int,
        got: Tensor,
        reference: Tensor,
        error: Tensor,
        unit: Tensor,
        allowed: Tensor,
        rounded: Tensor,
    ) -> None:
        """Add a part of the output that begins at row `start`.

        `error` and `allowed` are absolute. `unit` is the last place of the output at the reference. `rounded` is a mask of
        the elements whose allowed error is mostly the rounding of the output.
        """
        bad = ~right
        count = int(bad.sum())
        if not count:
            return
        index = bad.nonzero()[0]
        at = tuple(index.tolist())
        near = bool((error[bad] <= NEAR * allowed[bad]).all())
        if not self.count:
            is_, should = _apart(got[at].item(), reference[at].item(), 7)
            place = ", ".join(str(i + (start if d == 0 else 0)) for d, i in enumerate(at))
            self.first = f"first at [{place}]: {is_} instead of {should}"
            units = (error[at] / unit[at]).item()
            if math.isfinite(units):
                self.first += " ({} ulp, {} allowed)".format(*_apart(units, (allowed[at] / unit[at]).item()))
            self.knob = "output_ulps" if bool(rounded[at]) else "tolerance"
        self.near = near and (self.near or not self.count)
        self.count += count
        self.zeros &= bool((got[bad] == 0).all())
        self.nans &= bool(got[bad].isnan().all())
        touched = bad.any(0).flatten().nonzero() if bad.dim() > 1 else bad.nonzero()
        low, high = int(touched[0]), int(touched[-1])
        self.columns = (min(low, self.columns[0]), max(high, self.columns[1])) if self.columns else (low, high)

    def describe(self) -> str | None:
        if not self.count:
            return None
        kind = "zero" if self.zeros else "NaN" if self.nans else "wrong"
        many = "every element" if self.count == self.total else f"{self.count} of {self.total} elements"
        where = ""
        width = math.prod(self.shape[1:])
        if self.columns and len(self.shape) > 1 and self.columns != (0, width - 1) and self.count < self.total:
            low, high = self.columns
            where = f", all in column {low}" if low == high else f", all in columns {low} to {high}"
        hint = f"; to allow more, raise {self.knob} of operator {self.operator.name}" if self.near else ""
        return f"{many} {kind}{where}; {self.first}{hint}"


def _apart(a: float, b: float, least: int = 3) -> tuple[str, str]:
    """Two numbers with `least` digits, or with as many as it takes for them to differ."""
    digits = next((digits for digits in range(least, 17) if f"{a:.{digits}g}" != f"{b:.{digits}g}"), least)
    return f"{a:.{digits}g}", f"{b:.{digits}g}"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")

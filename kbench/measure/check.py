"""Whether an output is right: every element, against the operator's fp64 reference, in units in the last place.

The tolerance. An honest implementation computes in float32 and rounds once to the output dtype, so the error of an
element may be

    one unit in the last place of the output dtype at |reference|        (the final rounding: half a unit is exact
                                                                          rounding, the rest is a rounding that fell the
                                                                          other way because of the float32 error)
  + `tolerance` units in the last place of float32 at the operator's scale   (the arithmetic: the operator says how many
                                                                          and argues it; its scale is |reference| unless
                                                                          the definition itself cancels, as GELU's does)
  + the smallest normal float32                                          (devices flush below it)

The bound is relative to each element. That is the point: the absolute tolerances in common use (1e-2 for bfloat16, 1e-4
for float32) pass an output of all zeros once N is large enough, because softmax's values shrink as 1/N. Here zeros,
constants, an unwritten tail or a stale output are millions of units away at every N.

NaN and infinities have to be where the reference has them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from kbench.measure.device import Device
from kbench.registry import Operator
from kbench.results import Case

CHUNK_ELEMENTS = 2**25
"""Elements compared at a time: bounds the fp64 temporaries at a few GB."""


@dataclass(frozen=True)
class Accuracy:
    """How far an output is from the reference. `wrong` says how it fails, None when it is right.

    `max_ulp` is in units in the last place of the output dtype at the operator's scale, `max_rel_err` is relative to the
    same scale; elements that are not finite count in `wrong` alone. `identical` tells whether two calls on the same input
    gave the same bits, None where that was not tried.
    """

    max_ulp: float = 0.0
    max_rel_err: float = 0.0
    wrong: str | None = None
    identical: bool | None = None

    def worst(self, other: Accuracy) -> Accuracy:
        """Both checks in one: the larger errors, the first failure."""
        known = [each.identical for each in (self, other) if each.identical is not None]
        return Accuracy(
            max(self.max_ulp, other.max_ulp),
            max(self.max_rel_err, other.max_rel_err),
            self.wrong or other.wrong,
            all(known) if known else None,
        )


HOLD_MS = 2.0
"""How long the device is kept busy before a checked call: longer than the host needs to queue all of it."""


def run_checked(
    operator: Operator,
    case: Case,
    fn: Callable[..., Any],
    inputs: Sequence[Tensor],
    values: Sequence[Tensor],
    device: Device,
) -> Accuracy:
    """Fill `inputs` with `values`, call `fn` on them twice and judge the outcome. Exceptions of `fn` pass through.

    On a device the first call is queued behind a spin kernel, and its output is copied in the same queue: a provider that
    works on another stream without waiting reads its input before it is written, or delivers after it is read. The second
    call finds NaN in the memory it is likely to get: a provider that skips the work has to bring the answer from somewhere.
    """
    shape = output_shape(operator, case, values)
    device.poison(shape, inputs[0].dtype)
    device.hold(HOLD_MS)
    for x, value in zip(inputs, values, strict=True):
        x.copy_(value)
    output = fn(*inputs)
    delivered = output.clone() if isinstance(output, Tensor) else output
    device.synchronize()
    found = judge(operator, case, inputs, values, output, delivered)
    if found.wrong:
        return found
    device.poison(shape, inputs[0].dtype)
    again = fn(*inputs)
    device.synchronize()
    if fault := _malformed(again, shape, inputs[0]):
        return replace(found, wrong=f"{fault} (when called again)")
    if _same_memory(output, again):
        return replace(
            found, wrong="returned the same memory for two calls: the later result overwrites the earlier one"
        )
    same = bool(((delivered == again) | (delivered.isnan() & again.isnan())).all())
    found = replace(found, identical=same)
    return found if same else found.worst(judge(operator, case, inputs, values, again, again))


def judge(
    operator: Operator,
    case: Case,
    inputs: Sequence[Tensor],
    before: Sequence[Tensor],
    output: Any,
    delivered: Any,
) -> Accuracy:
    """Everything about the outcome of one call: kind, shape, dtype, device and values of the output, and that the inputs
    are still what they were `before`. `delivered` holds the values of the output when the queue reached it."""
    fault = _malformed(output, output_shape(operator, case, before), inputs[0]) or changed(inputs, before)
    if fault:
        return Accuracy(wrong=fault)
    if any(_same_memory(output, x) for x in inputs):
        return Accuracy(wrong="returned its own input")
    return accuracy(operator, case, before, delivered)


def changed(inputs: Sequence[Tensor], before: Sequence[Tensor]) -> str | None:
    """What to say when an input no longer equals its copy (NaN counts as equal to itself), else None."""
    for position, (x, old) in enumerate(zip(inputs, before, strict=True)):
        same = torch.equal(x, old) or bool(((x == old) | (x.isnan() & old.isnan())).all())
        if not same:
            return f"changed its input in place (input {position})"
    return None


def output_shape(operator: Operator, case: Case, inputs: Sequence[Tensor]) -> tuple[int, ...]:
    """The shape that an output must have, which is the reference's: one row tells where the operator goes by rows."""
    if not operator.rowwise:
        return tuple(operator.reference(case, *(x.double() for x in inputs)).shape)
    row = operator.reference(case, *(x.double() for x in _rows(inputs, 0, 1)))
    return (inputs[0].shape[0], *row.shape[1:])


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
    """Compare an output with the reference. Works on slices along the first dimension where the operator allows it: of the
    output and of the inputs that have such rows as the first; others, say a weight per column, are given whole."""
    result = Accuracy()
    if output.numel() == 0:
        return result
    wrong = _Wrong(output)
    chunks = _chunks(operator, inputs[0], output)
    for start, stop in chunks:
        exact = [x.double() for x in (_rows(inputs, start, stop) if len(chunks) > 1 else inputs)]
        part = output[start:stop] if len(chunks) > 1 else output
        result = result.worst(_compare(operator, case, exact, part, start, wrong))
    return Accuracy(result.max_ulp, result.max_rel_err, wrong.describe())


def _rows(inputs: Sequence[Tensor], start: int, stop: int) -> list[Tensor]:
    """Some rows of the inputs that have such rows as the first, and the others whole."""
    first = inputs[0]
    return [x[start:stop] if x.dim() == first.dim() and x.shape[0] == first.shape[0] else x for x in inputs]


def _chunks(operator: Operator, first: Tensor, output: Tensor) -> list[tuple[int, int]]:
    rows = output.shape[0] if output.dim() else 1
    if not operator.rowwise or output.shape[:1] != first.shape[:1]:
        return [(0, rows)]
    step = max(1, CHUNK_ELEMENTS * rows // output.numel())
    return [(start, min(start + step, rows)) for start in range(0, rows, step)]


def _compare(operator: Operator, case: Case, exact: list[Tensor], part: Tensor, start: int, wrong: _Wrong) -> Accuracy:
    reference = operator.reference(case, *exact)
    scale = operator.scale(case, reference, *exact) if operator.scale else reference.abs()
    scale = torch.maximum(scale, reference.abs())
    got = part.double()
    finite = reference.isfinite()
    error = (got - reference).abs()
    allowed = (
        ulp(reference, part.dtype)
        + operator.tolerance(case) * ulp(scale, torch.float32)
        + torch.finfo(torch.float32).tiny
    )
    # A comparison with NaN is False, so an output of NaN is not within any bound.
    right = torch.where(finite, error <= allowed, (got == reference) | (got.isnan() & reference.isnan()))
    wrong.add(right, start, got, reference, error / ulp(reference, part.dtype), allowed / ulp(reference, part.dtype))
    measured = finite & got.isfinite()
    if not measured.any():
        return Accuracy()
    units = torch.where(measured, error / ulp(scale, part.dtype), 0.0).max().item()
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
    """Collects where an output is wrong, to say it in one sentence."""

    def __init__(self, output: Tensor) -> None:
        self.shape, self.total, self.count = tuple(output.shape), output.numel(), 0
        self.first = ""
        self.columns: tuple[int, int] | None = None
        self.zeros = self.nans = True

    def add(self, right: Tensor, start: int, got: Tensor, reference: Tensor, units: Tensor, allowed: Tensor) -> None:
        bad = ~right
        count = int(bad.sum())
        if not count:
            return
        index = bad.nonzero()[0]
        at = tuple(index.tolist())
        if not self.count:
            place = ", ".join(str(i + (start if d == 0 else 0)) for d, i in enumerate(at))
            self.first = f"first at [{place}]: {got[at].item():.7g} instead of {reference[at].item():.7g}"
            if math.isfinite(units[at].item()):
                self.first += " ({} ulp, {} allowed)".format(*_apart(units[at].item(), allowed[at].item()))
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
        return f"{many} {kind}{where}; {self.first}"


def _apart(a: float, b: float) -> tuple[str, str]:
    """Two numbers to three digits, or to as many as tell them apart."""
    digits = next((digits for digits in range(3, 17) if f"{a:.{digits}g}" != f"{b:.{digits}g}"), 3)
    return f"{a:.{digits}g}", f"{b:.{digits}g}"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")

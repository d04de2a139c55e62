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
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.measure.correctness.call import Call, Stage
from kbench.measure.correctness.definition import Definition, Output, short
from kbench.measure.correctness.error_scale import ESTIMATE_MARGIN
from kbench.measure.correctness.expected import Expected, OutputPart
from kbench.measure.correctness.placement import is_view, same_memory
from kbench.measure.correctness.wrong_elements import WrongElements
from kbench.measure.machine.device import Device
from kbench.measure.tampering import threads
from kbench.results.case import Case


@dataclass(frozen=True)
class Accuracy:
    """How far an output is from the reference.

    max_ulp        the largest error in units in the last place of the output dtype, at the scale; finite elements only. None
                   if kbench compared no values: the operator judges them itself, or the output has a wrong form
    max_rel_err    the largest error relative to the same scale; finite elements only; None as for max_ulp
    wrong          how the output fails, in words; None if it is right
    deterministic  whether two calls on the same input gave the same bits; None if not tried
    off            the output fails by its values, not by its form
    near           no value is off by much, so the tolerance may be too narrow
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

QUEUE_MS = 2.0
"""How long the device is kept busy before a checked call: longer than the host needs to queue the call and the copies."""


def run_checked(expected: Expected, stage: Stage, inputs: Sequence[Tensor], device: Device) -> Accuracy:
    """Fill `inputs` with the values of `expected`, make two calls on them, and judge the outputs.

    On a device, the first call is queued behind a spin kernel, and its outputs are copied in the same queue. This finds a
    provider that works on another stream without waiting: it reads its input before it is written, or writes its output
    after it is read. Before the second call, the memory that its outputs are likely to get is filled with NaN. This finds a
    provider that skips the work. Raises OperatorFault, and whatever the call raises.
    """
    poison(expected, device)
    device.keep_busy(QUEUE_MS)
    fill(inputs, expected.inputs)
    call = stage(inputs, expected.shapes)
    before = threads.working()
    outputs = call.outputs(call.run())
    late = threads.left_working(before)
    delivered = [x.clone() if isinstance(x, Tensor) else x for x in outputs]
    device.synchronize()
    found = judge_call(expected, call, inputs, outputs, delivered)
    if late := late or (threads.left_working(before) if found.wrong else None):  # a thread may need a while to begin
        found = replace(found, wrong=late, off=False)
    elif found.off and device.accelerated and not judge_call(expected, call, inputs, outputs, outputs).wrong:
        found = replace(found, wrong=f"left work on another stream when the call returned: {found.wrong}", off=False)
    if found.wrong:
        return found
    if call.mutates:
        fill(inputs, expected.inputs)
    call.spoil(inputs, again=True)
    poison(expected, device, again=True)
    again = call.outputs(call.run())
    device.synchronize()
    if fault := malformed(expected, inputs, again):
        return replace(found, wrong=f"{fault} (when called again)")
    if any(_stored(a, b, call, inputs) for a, b in zip(outputs, again, strict=True)):
        return replace(
            found, wrong="returned the same memory for two calls: the later result overwrites the earlier one"
        )
    same = all(equal(a, b) for a, b in zip(delivered, again, strict=True))
    found = replace(found, deterministic=same)
    return found if same else found.worst(judge_call(expected, call, inputs, again, again))


def _stored(output: Tensor, again: Tensor, call: Call, inputs: Sequence[Tensor]) -> bool:
    """Whether two calls returned the same memory, although it is neither a buffer nor an input of the call."""
    mine = call.places(output) or any(is_view(output, x) for x in inputs)
    return not mine and same_memory(output, again)


def fill(inputs: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    """Write values into the input tensors, whatever a provider has made of them."""
    for x, value in zip(inputs, values, strict=True):
        if x.requires_grad:  # a provider has asked for its gradient
            x = x.requires_grad_(False) if x.is_leaf else x.detach_()
        if x.shape != value.shape:
            x.resize_(value.shape)
        x.copy_(value)


def poison(expected: Expected, device: Device, again: bool = False) -> None:
    """Fill the memory that the outputs of the next call are likely to get. `again` fills it with other values than before."""
    for shape, output in zip(expected.shapes, expected.definition.outputs, strict=True):
        device.poison(shape, output.dtype, again)


def judge_call(
    expected: Expected, call: Call, inputs: Sequence[Tensor], outputs: Sequence[Any], delivered: Sequence[Any]
) -> Accuracy:
    """Judge one call: kind, shape, dtype, device and values of every output, and whether the inputs are unchanged but for those
    that the call may change.

    `delivered` holds the values that the outputs had when the queue reached them.
    """
    names = expected.definition.input_names
    if fault := malformed(expected, inputs, outputs) or changed_input(names, inputs, expected.inputs, call.mutates):
        return Accuracy(wrong=fault)
    for output, wanted in zip(outputs, expected.definition.outputs, strict=True):
        # the gradient of a sum is the gradient that the call received, and autograd returns that very tensor
        if not call.places(output) and not wanted.gradient and any(is_view(output, x) for x in inputs):
            what = f"returned its own input{_which(expected, wanted)}, or a view of it"
            return Accuracy(wrong=f"{what}; return a new tensor")
    found = compared(expected, delivered)
    if found.wrong:
        for name, output in call.mutates.items():
            at = names.index(name)
            if equal(inputs[at], expected.inputs[at]):
                return replace(
                    found, wrong=f"left input {name} unchanged; it must hold {output} after the call", off=False
                )
    return found


def changed_input(
    names: Sequence[str], inputs: Sequence[Tensor], before: Sequence[Tensor], may_change: Collection[str] = ()
) -> str | None:
    """What to report if an input differs from its copy (NaN equals NaN); None if none does but those in `may_change`."""
    for name, x, old in zip(names, inputs, before, strict=True):
        if name not in may_change and not equal(x, old):
            return f"changed its input {name} in place"
    return None


def malformed(expected: Expected, inputs: Sequence[Tensor], found: Sequence[Any]) -> str | None:
    """How the outputs differ in kind, dtype, shape or device from what a call must deliver; None if they do not."""
    for output, each, shape in zip(found, expected.definition.outputs, expected.shapes, strict=True):
        which = _which(expected, each)
        if not isinstance(output, Tensor):
            return f"returned {type(output).__name__}{which}, expected a tensor"
        if type(output) is not Tensor:  # it may compute when it is read, which is after the clock has stopped
            return f"returned {type(output).__name__}{which}, a subclass of torch.Tensor; expected a plain torch.Tensor"
        if output.layout != torch.strided:
            return f"returned a tensor with layout {str(output.layout).removeprefix('torch.')}{which}, expected a dense one"
        if output.dtype != each.dtype:
            return f"returned {short(output.dtype)}{which}, expected {short(each.dtype)}"
        if tuple(output.shape) != shape:
            return f"returned shape {tuple(output.shape)}{which}, expected {shape}"
        if output.device != inputs[0].device:
            return f"returned a tensor on {output.device}{which}, expected {inputs[0].device}"
    return None


def _which(expected: Expected, output: Output) -> str:
    """` for h`: which output a sentence is about. Empty if there is only one."""
    return f" for {output.name}" if len(expected.definition.outputs) > 1 or output.gradient else ""


def equal(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors have the same shape and hold the same values. NaN equals NaN."""
    if a.shape != b.shape:
        return False
    if a.dtype.is_floating_point and a.dtype.itemsize == 1:  # torch compares no 8-bit floating-point numbers
        return torch.equal(a.view(torch.uint8), b.view(torch.uint8))
    return torch.equal(a, b) or bool(((a == b) | (a.isnan() & b.isnan())).all())


def accuracy(operator: Operator, case: Case, inputs: Sequence[Tensor], *outputs: Tensor) -> Accuracy:
    """Compare outputs of the right shapes with the operator's reference on these inputs. Raises OperatorFault."""
    return compared(Expected(Definition(operator, case), inputs), outputs)


def compared(expected: Expected, outputs: Sequence[Tensor]) -> Accuracy:
    """Compare outputs of the right shapes with the expected ones. The first fault is the reason. Raises OperatorFault."""
    definition, operator = expected.definition, expected.definition.operator
    parts: Iterable[OutputPart] = expected.parts() if any(x.numel() for x in outputs) or operator.check else ()
    own = sum(not each.gradient for each in definition.outputs) if operator.check else 0
    if own:
        parts = list(parts)
        said = definition.verdict(expected.inputs, outputs[:own], [part.reference for part in parts[:own]])
        if said:
            return Accuracy(wrong=said, off=True)
    result = EXACT if own < len(outputs) else Accuracy()
    wrong = [WrongElements(output, operator, each) for output, each in zip(outputs, definition.outputs, strict=True)]
    for part in parts if own < len(outputs) else ():
        if part.position < own or not part.reference.numel():
            continue
        for piece in expected.pieces(part):
            result = result.worst(compare(piece, piece.of(outputs[piece.position]), wrong[piece.position], expected))
    first = next((each for each in wrong if each.count), None)
    if first is None:
        return result
    which = f"{first.output.name}: " if len(wrong) > 1 or first.output.gradient else ""
    near = all(each.near for each in wrong if each.count)
    return Accuracy(result.max_ulp, result.max_rel_err, f"{which}{first.describe()}", off=True, near=near)


def compare(part: OutputPart, output: Tensor, wrong: WrongElements, expected: Expected | None = None) -> Accuracy:
    """Compare a part of an output with the reference. `wrong` collects the elements that are wrong. With `expected`, from which
    the part is, the scale of a few wrong elements is estimated a second time."""
    if part.scale is None:
        right = output == part.reference
        if wrong.output.declared.ulps and output.dtype != torch.bool:  # the last place of a whole number is 1
            right |= (output.double() - part.reference.double()).abs() <= wrong.output.declared.ulps
        wrong.add_exact(right, part, output, part.reference)
        return EXACT
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


def _errors(reference: Tensor, scale: Tensor, output: Tensor, wrong: WrongElements) -> _Errors:
    estimated, wanted = _estimated(wrong), wrong.output
    got = output.double()
    step = ulp(scale if estimated else reference, output.dtype)
    rounding = wanted.ulps * step
    arithmetic = ulp(scale, torch.float32).mul_(wanted.tolerance * (ESTIMATE_MARGIN if estimated else 1))
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

"""Checks a call: the form and the values of every output (see elements.py), and what it has done to its inputs."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from kbench.contract.operator import Operator, Remark
from kbench.contract.provider import Unsupported
from kbench.measure.correctness.call import ONE_BACKWARD, ONE_BACKWARD_REMEDY, Call, Preparer
from kbench.measure.correctness.definition import Definition, Output, dtype_name
from kbench.measure.correctness.elements import EXACT, Accuracy, WrongElements, compare_elements
from kbench.measure.correctness.expected import Expected, OutputPart
from kbench.measure.correctness.memory import Location, equal, is_view, moved_away, overlap, overlaps_itself
from kbench.measure.machine.device import Device
from kbench.measure.tampering.audit import threads_left_working, working_threads
from kbench.results.case import BACKWARD, Case

QUEUE_MS, MOST_TIMES_LONGER, TIMES_LONGER, QUEUE_ATTEMPTS = 0.5, 14, 4, 3
"""The device is kept busy for QUEUE_MS before a checked call: longer than the host usually needs to queue the call and the
copies. If that was too short, the call is made again, at most QUEUE_ATTEMPTS times in all: TIMES_LONGER times as long as before
or as the host needed, but at most MOST_TIMES_LONGER times as long as before, as a first call may have compiled its kernel."""


@dataclass(frozen=True)
class MadeCall:
    """A call that was made on inputs.

    locations  where its inputs and buffers were before it
    outputs    what it delivered
    values     the values that its outputs had when the queue of the device reached them
    before     the threads that worked before it
    late       what to report of a thread that still worked when it returned
    """

    call: Call
    inputs: Sequence[Tensor]
    locations: Sequence[Location]
    outputs: Sequence[Any]
    values: Sequence[Any]
    before: dict[int, str]
    late: str | None

    @classmethod
    def of(cls, call: Call, inputs: Sequence[Tensor], *, copies: bool = False) -> MadeCall:
        """Make a call. If `copies`, copies of its outputs are queued behind it."""
        locations, before = call.locations(inputs), working_threads()
        outputs = call.deliver(call.run())
        late = threads_left_working(before)
        values = [x.clone() if copies and isinstance(x, Tensor) else x for x in outputs]
        return cls(call, inputs, locations, outputs, values, before, late)


@dataclass(frozen=True)
class Delivery:
    """What calls on the same inputs have delivered, and what is wrong with it whatever the values of the outputs are.

    first          the outputs of the first call, as they were when the queue of the device reached them
    later          the same when the device had come to rest, if they have changed until then
    second         the outputs of the second call, if they are others than the first
    deterministic  whether they are the same; None if the second call has a fault
    fault          what is wrong with the first call
    cause          why its values are wrong, if they are
    second_fault   what is wrong with later calls
    """

    first: Sequence[Tensor] = ()
    later: Sequence[Tensor] = ()
    second: Sequence[Tensor] = ()
    deterministic: bool | None = None
    fault: str = ""
    cause: str = ""
    second_fault: str = ""


def run_checked(expected: Expected, preparer: Preparer, inputs: Sequence[Tensor], device: Device) -> Accuracy:
    """Fill `inputs` with the values of `expected`, make calls on them, and judge the outputs. Raises OperatorFault."""
    return judge_delivery(expected, deliver(expected, preparer, inputs, device))


def deliver(expected: Expected, preparer: Preparer, inputs: Sequence[Tensor], device: Device) -> Delivery:
    """Fill `inputs` with those of `expected`, and make calls on them. Needs no expected values.

    On a device, the first call is queued behind a spin kernel, and its outputs are copied in the same queue. This finds a
    provider that works on another stream without waiting: it reads its input too early, when all elements are zero, or writes
    too late. Before the second call, memory for its outputs is filled with NaN. This finds a provider that skips the work.
    """
    made_call = _queued_call(expected, preparer, inputs, device)
    call, first = made_call.call, made_call.values
    fault, cause = _fault_and_cause(expected, made_call)
    if fault or made_call.late:
        return Delivery(fault=fault or cause)
    moved_on = device.accelerated and not _same(first, made_call.outputs)
    later = [x.clone() for x in made_call.outputs] if moved_on else []
    second = _called_again(expected, call, inputs, device)
    if second_fault := _fault_of_form(expected, second):
        return Delivery(first, later, cause=cause, second_fault=f"{second_fault} (when called again)")
    deterministic = _same(first, second.values)
    others = [] if deterministic else [x.clone() for x in second.values]
    overwritten = _overwritten(made_call, second)
    if not overwritten:  # a third call finds a provider that takes turns with two buffers
        del second
        overwritten = _overwritten(made_call, _called_again(expected, call, inputs, device))
    second_fault = ""
    if overwritten:
        second_fault = "returned the same memory for two calls: the later result overwrites the earlier one"
        if expected.definition.case.mode == BACKWARD:
            second_fault += f"; if {ONE_BACKWARD}, {ONE_BACKWARD_REMEDY}"
    return Delivery(first, later, others, deterministic, cause=cause, second_fault=second_fault)


def judge_delivery(expected: Expected, delivery: Delivery) -> Accuracy:
    """Judge what calls have delivered, by its form and then by its values. Raises OperatorFault."""
    if delivery.fault:
        return Accuracy(wrong=delivery.fault)
    verdict = compared(expected, delivery.first)
    if verdict.wrong and delivery.cause:
        return replace(verdict, wrong=delivery.cause, off=False)
    if verdict.off and delivery.later and not compared(expected, delivery.later).wrong:
        wrong = f"left work on another stream when the call returned: {verdict.wrong}"
        return replace(verdict, wrong=wrong, off=False)
    if verdict.wrong:
        return verdict
    verdict = replace(verdict, deterministic=delivery.deterministic)
    if delivery.second:
        verdict = verdict.worst(compared(expected, delivery.second))
    if delivery.second_fault:
        verdict = replace(verdict, wrong=delivery.second_fault, off=False)
    return verdict


def _same(outputs: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    return all(equal(x, y) for x, y in zip(outputs, others, strict=True))


def _queued_call(expected: Expected, preparer: Preparer, inputs: Sequence[Tensor], device: Device) -> MadeCall:
    ms, made_call = QUEUE_MS, None
    for _ in range(QUEUE_ATTEMPTS):
        made_call = None  # frees the memory of the attempt before
        blank(inputs)
        poison(expected, device)
        busy = device.keep_busy(ms)
        start = time.perf_counter()
        fill(inputs, expected.inputs)
        made_call = MadeCall.of(_prepared(expected, preparer, inputs), inputs, copies=True)
        in_time = busy()
        host_ms = (time.perf_counter() - start) * 1e3
        device.synchronize()
        if in_time or made_call.late:
            break
        ms = min(TIMES_LONGER * max(ms, host_ms), MOST_TIMES_LONGER * ms)
    assert made_call
    return made_call


def _prepared(expected: Expected, preparer: Preparer, inputs: Sequence[Tensor]) -> Call:
    """Prepare a call. Raises Unsupported if it works in place on an input whose elements share memory."""
    call = preparer(inputs, expected.shapes)
    for name, x in zip(expected.definition.input_names, inputs, strict=True):
        if name in call.mutates and overlaps_itself(x):
            raise Unsupported(f"works in place on {name}, whose elements share memory here")
    return call


def _called_again(expected: Expected, call: Call, inputs: Sequence[Tensor], device: Device) -> MadeCall:
    """One more call on the same values, with its memory filled with NaN before."""
    if call.mutates:
        fill(inputs, expected.inputs)
    call.spoil(inputs, again=True)
    poison(expected, device, again=True)
    made_call = MadeCall.of(call, inputs)
    device.synchronize()
    return made_call


def _overwritten(made_call: MadeCall, later: MadeCall) -> bool:
    """Whether outputs of two calls share memory that is neither a buffer nor an input of the call."""
    new_outputs = [
        x
        for x in made_call.outputs
        if not made_call.call.places(x) and not any(is_view(x, y) for y in made_call.inputs)
    ]
    return any(overlap(x, y) for x in new_outputs for y in later.outputs if isinstance(y, Tensor))


def _moved(names: Sequence[str], made_call: MadeCall) -> str | None:
    """What to report if an input or a buffer has moved: its caller has the old memory."""
    now = made_call.call.locations(made_call.inputs)
    for name, place, before in zip(names, now, made_call.locations, strict=False):
        if place != before:
            return moved_away(f"its input {name}", name)
    return moved_away("a buffer that it must fill", "buffer") if now != made_call.locations else None


def fill(inputs: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    """Write values into the input tensors, whatever a provider has made of them."""
    for x, value in zip(inputs, values, strict=True):
        if x.requires_grad:  # a provider has asked for its gradient
            x = x.requires_grad_(False) if x.is_leaf else x.detach_()
        if x.shape != value.shape:
            x.resize_(value.shape)
        x[once(x)].copy_(value[once(x)])


def blank(inputs: Sequence[Tensor]) -> None:
    """Write zeros into the input tensors. They may hold the values of the next check already."""
    for x in inputs:
        x.detach()[once(x)].zero_()


def once(x: Tensor) -> tuple[slice, ...]:
    """Selects each element in memory once, also those of an expanded gradient."""
    return tuple(slice(1) if stride == 0 else slice(None) for stride in x.stride())


def poison(expected: Expected, device: Device, again: bool = False) -> None:
    """Fill memory that the outputs of the next call are likely to get; `again` with other values."""
    for shape, output in zip(expected.shapes, expected.definition.outputs, strict=True):
        device.poison(shape, output.dtype, again)


COPY = "work on a copy"
"""What the author of a provider can do that changes an input."""


def judge_call(expected: Expected, made_call: MadeCall) -> Accuracy:
    """Judge one call: its outputs, what it did to its inputs, and where inputs and buffers are. A thread that works on is no
    fault if these are right: a first call may leave a compiler running."""
    fault, cause = _fault_and_cause(expected, made_call)
    return judge_delivery(expected, Delivery(made_call.values, cause=cause, fault=fault))


def _fault_and_cause(expected: Expected, made_call: MadeCall) -> tuple[str, str]:
    """See Delivery. A thread that works on, or has begun to, is why the rest is wrong."""
    form = _fault_of_form(expected, made_call)
    working = made_call.late or threads_left_working(made_call.before)
    fault = (working or form) if form else ""
    return fault, working or _left_unchanged(expected, made_call) or ""


def _left_unchanged(expected: Expected, made_call: MadeCall) -> str | None:
    """What to report of wrong values if an input that must hold an output is as before the call."""
    pairs = zip(made_call.inputs, expected.inputs, strict=True)
    inputs = dict(zip(expected.definition.input_names, pairs, strict=True))
    for name, output in made_call.call.mutates.items():
        if equal(*inputs[name]):
            return f"left input {name} unchanged; it must hold {output} after the call"
    return None


def _fault_of_form(expected: Expected, made_call: MadeCall) -> str | None:
    """What to report if outputs have the wrong form, if an input has changed or moved, or if outputs are no memory of their
    own, whatever the values of the outputs are."""
    names, call, inputs = expected.definition.input_names, made_call.call, made_call.inputs
    if fault := malformed(expected, inputs, made_call.outputs):
        return fault
    if fault := changed_input(names, inputs, expected.inputs, call.mutates):
        # a solution of a problem of another benchmark can declare nothing: kbench registers it
        return f"{fault}; {COPY}" + ("" if expected.definition.operator.source else ", or declare it with mutates=")
    for output, declared in zip(made_call.outputs, expected.definition.outputs, strict=True):
        # the gradient of a sum is the gradient that the call received, and autograd returns that very tensor
        if not call.places(output) and not declared.gradient and any(is_view(output, x) for x in inputs):
            message = f"returned one of its inputs, or a view of one{_for_output(expected, declared)}"
            return f"{message}; it must return a new tensor"
    return _too_little_memory(expected, made_call.outputs) or _moved(names, made_call)


def _too_little_memory(expected: Expected, outputs: Sequence[Tensor]) -> str | None:
    """What to report if an output has memory for a part of its elements only, or the memory of another output: the call has
    written fewer bytes than it is credited for. Gradients may be so: autograd expands the gradient of a sum."""
    pairs = zip(outputs, expected.definition.outputs, strict=True)
    forward_outputs = [(output, declared) for output, declared in pairs if not declared.gradient]
    for index, (output, declared) in enumerate(forward_outputs):
        if overlaps_itself(output):
            message = f"returned a tensor whose elements share memory{_for_output(expected, declared)}, as those of expand() do"
            return f"{message}; it must have memory for every element"
        for earlier, earlier_declared in forward_outputs[:index]:
            if overlap(output, earlier):
                message = f"returned {declared.name} in the memory of {earlier_declared.name}"
                return f"{message}; each output must be a tensor of its own"
    return None


def changed_input(
    names: Sequence[str], inputs: Sequence[Tensor], before: Sequence[Tensor], may_change: Collection[str] = ()
) -> str | None:
    """What to report if an input, but those in `may_change`, differs from its copy. NaN equals NaN."""
    for name, x, old in zip(names, inputs, before, strict=True):
        if name not in may_change and not equal(x, old):
            return f"changed its input {name} in place"
    return None


def malformed(expected: Expected, inputs: Sequence[Tensor], outputs: Sequence[Any]) -> str | None:
    """How the outputs differ in form from what a call must deliver; None if they do not."""
    for output, declared, shape in zip(outputs, expected.definition.outputs, expected.shapes, strict=True):
        for_output = _for_output(expected, declared)
        if not isinstance(output, Tensor):
            advice = "; a provider that builds the function to time has factory=True" if callable(output) else ""
            return f"returned {type(output).__name__}{for_output}, expected a tensor{advice}"
        # it may compute when it is read, which is after the clock has stopped
        if type(output) is not Tensor:
            return f"returned {type(output).__name__}{for_output}, a subclass of torch.Tensor; expected a plain torch.Tensor"
        if output.layout != torch.strided:
            layout = str(output.layout).removeprefix("torch.")
            return f"returned a tensor with layout {layout}{for_output}, expected a dense one"
        if output.is_neg():
            return f"returned a tensor that is negated when it is read{for_output}; return x.resolve_neg()"
        if output.dtype != declared.dtype:
            return f"returned {dtype_name(output.dtype)}{for_output}, expected {dtype_name(declared.dtype)}"
        if tuple(output.shape) != shape:
            return f"returned shape {tuple(output.shape)}{for_output}, expected {shape}"
        if output.device != inputs[0].device:
            return f"returned a tensor on {output.device}{for_output}, expected {inputs[0].device}"
    return None


def _for_output(expected: Expected, output: Output) -> str:
    """` for h`: which output a sentence is about. Empty if there is only one."""
    return f" for {output.name}" if len(expected.definition.outputs) > 1 or output.gradient else ""


def accuracy(operator: Operator, case: Case, inputs: Sequence[Tensor], *outputs: Tensor) -> Accuracy:
    """Compare outputs of the right shapes with the operator's reference. Raises OperatorFault."""
    return compared(Expected(Definition(operator, case), inputs), outputs)


def compared(expected: Expected, outputs: Sequence[Tensor | None], rows: Sequence[int] | None = None) -> Accuracy:
    """Compare outputs of the right shapes with the expected ones. The first wrong output gives the reason. One that is None is
    not compared. `rows` are the numbers of the rows that the outputs have, if they have not all. Raises OperatorFault."""
    definition, operator = expected.definition, expected.definition.operator
    compares = any(x is not None and x.numel() for x in outputs) or operator.check
    parts: Iterable[OutputPart] = expected.parts() if compares else ()
    remark = ""
    if any(output.judged for output in definition.outputs):
        parts = list(parts)
        count = len(operator.outputs)
        judged = [x for x in outputs[:count] if x is not None]
        verdict = definition.verdict(expected.inputs, judged, [part.reference for part in parts[:count]])
        if verdict and not isinstance(verdict, Remark):
            return Accuracy(wrong=verdict, off=True)
        remark = verdict or ""
    all_judged = all(output.judged for output in definition.outputs)
    result = replace(Accuracy() if all_judged else EXACT, remark=remark)
    collected = [
        None if x is None or output.judged else WrongElements(x, operator, output, rows)
        for x, output in zip(outputs, definition.outputs, strict=True)
    ]
    for part in parts:
        output, wrong = outputs[part.position], collected[part.position]
        if output is not None and wrong is not None and part.reference.numel():
            for piece in expected.pieces(part):
                result = result.worst(compare_elements(piece, piece.of(output), wrong, expected))
    failed = [wrong for wrong in collected if wrong and wrong.count]
    if not failed:
        return result
    first = failed[0]
    prefix = f"{first.output.name}: " if len(outputs) > 1 or first.output.gradient else ""
    near = all(wrong.near for wrong in failed)
    reason = f"{prefix}{first.describe()}{_out_of_order(expected, outputs, first)}"
    return Accuracy(result.max_ulp, result.max_rel_err, reason, off=True, near=near, element=first.first)


def _out_of_order(expected: Expected, outputs: Sequence[Tensor | None], wrong: WrongElements) -> str:
    """What to say of a wrong output with the values of another one. Zeros are right for many outputs."""
    definition, output = expected.definition, wrong.output
    mine = outputs[definition.outputs.index(output)]
    if mine is None or wrong.zeros or definition.operator.check:
        return ""
    for position, (other, x) in enumerate(zip(definition.outputs, outputs, strict=True)):
        if x is None or other is output or other.gradient != output.gradient:
            continue
        moved = [mine if place == position else None for place in range(len(outputs))]
        if (x.shape, x.dtype) == (mine.shape, mine.dtype) and not compared(expected, moved).wrong:
            order = ", ".join(other.name for other in definition.outputs if other.gradient == output.gradient)
            return f"; {output.name} holds the expected values of {other.name}; return the outputs in the order {order}"
    return ""

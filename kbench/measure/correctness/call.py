"""A call of a provider on one set of inputs: what is timed, what it delivers, and what it may change.

A preparer makes a call ready outside the timed window. A forward call needs little: buffers for the outputs that the provider
writes into. A backward call needs the forward pass, or what the provider's backward kernel saves.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kbench.contract.provider import Provider, Unsupported
from kbench.measure.correctness.definition import Definition, dtype_name
from kbench.measure.correctness.memory import Location, location_of
from kbench.measure.machine.device import poison_value
from kbench.results.case import BACKWARD, FORWARD, FULL, Value
from kbench.text.exception_text import written_at
from kbench.text.words import plural

Shapes = Sequence[tuple[int, ...]]


class Misdelivery(Exception):
    """A provider's function returns something else than it must. The message says what, and what was expected."""


class WrongArguments(Exception):
    """A provider's function does not take the arguments that kbench gives it. The message says why not, and where it is."""


@dataclass(frozen=True)
class Call:
    """One prepared call.

    run           makes the call; this is what timers time
    deliver       turns what `run` returned into the outputs, in the order of `Definition.outputs`. Not all need be tensors: a
                  provider may return anything. Raises Misdelivery if they are too few or too many
    mutates       the inputs that the call may change, with the output that each holds afterwards
    destinations  the tensors that exist before the call and hold an output afterwards: buffers and changed inputs
    """

    run: Callable[[], Any]
    deliver: Callable[[Any], Sequence[Any]] = lambda returned: (returned,)
    mutates: Mapping[str, str] = field(default_factory=dict)
    destinations: tuple[Tensor, ...] = ()

    def spoil(self, inputs: Sequence[Tensor], again: bool = False) -> None:
        """Fill the buffers that the call writes into, so that an element that it leaves unwritten is wrong. `again` fills them
        with other values."""
        for tensor in self.destinations:
            if not any(tensor is x for x in inputs):
                tensor.fill_(poison_value(tensor.dtype, again))

    def locations(self, inputs: Sequence[Tensor]) -> list[Location]:
        """Where the inputs are, and then the buffers. A call may write into them, but it may not move them."""
        return [location_of(x) for x in (*inputs, *self.destinations)]

    def places(self, output: Any) -> bool:
        """Whether an output lies where the call must put it, and not in new memory."""
        return any(output is tensor for tensor in self.destinations)


CHANGED_SAVED_TENSOR = "modified by an inplace operation"
"""What autograd says of a tensor that the forward pass saved and somebody changed."""

ONE_BACKWARD = "its backward pass changes in place what its forward pass saved"
ONE_BACKWARD_REMEDY = "measure it in mode full"
"""The backward pass of such a function works once. Mode full has a forward pass before each of them."""

Preparer = Callable[[Sequence[Tensor], Shapes], Call]
"""Prepares a call on inputs. The shapes are those of the outputs of the mode, in order."""


def preparer_of(definition: Definition, provider: Provider, params: Mapping[str, Value]) -> Preparer:
    """The preparer of a provider for a case. Builds the provider if it is a factory. Raises whatever the provider raises,
    WrongArguments, and Unsupported if it cannot compute gradients."""
    operator, case = definition.operator, definition.case
    forward = provider.bind(case, params)
    if not provider.factory:
        _check_arguments(forward, operator.inputs, provider.out)
    if case.mode == FORWARD:
        return partial(_prepare_forward, definition, provider, forward)
    arguments = [*(f"d_{name}" for name in operator.output_gradients(case)), *operator.inputs]
    if case.mode == FULL and (full := provider.full):
        count, both_passes = len(operator.inputs), full.bind(case, params)
        _check_arguments(both_passes, arguments)
        return lambda inputs, shapes: _gradient_call(
            definition, partial(both_passes, *inputs[count:], *inputs[:count]), full.mutates, inputs
        )
    saves = provider.bind_saves(case, params)
    passes_of: Callable[[Sequence[Tensor]], Passes] = partial(_autograd_passes, definition, forward)
    holds: Mapping[str, str] = {}
    if provider.backward:
        kernel, holds = provider.backward.bind(case, params), provider.backward.mutates
        _check_arguments(kernel, [*arguments, *(["saved"] if saves else [])])
        passes_of = partial(_kernel_passes, definition, saves, forward, kernel)
    needs_forward = not provider.backward or bool(saves) or case.mode == FULL
    if needs_forward and not callable(saves) and (provider.mutates or provider.out):
        raise Unsupported(
            "its forward function works in place or writes into buffers, so kbench computes no gradients with it; return new "
            "tensors, or register a backward kernel with a function as saves=, or a function for both passes (full)"
        )
    return partial(_prepare_gradients, definition, passes_of, needs_forward, holds)


def _check_arguments(function: Callable[..., Any], by_position: Iterable[str], by_name: Sequence[str] = ()) -> None:
    """Raises WrongArguments if a function cannot be called with so many arguments and these names, beside those that are bound
    to it."""
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):  # written in C
        return
    try:
        signature.bind(*by_position, **dict.fromkeys(by_name))
    except TypeError as error:
        bound = function if isinstance(function, partial) else partial(function)
        name, keywords = getattr(bound.func, "__name__", str(bound.func)), [*bound.keywords, *by_name]
        lacking = [
            p.name
            for p in signature.parameters.values()
            if p.kind is p.KEYWORD_ONLY and p.default is p.empty and p.name not in by_name
        ]
        advice = f"kbench calls it as {name}({', '.join([*by_position, *(f'{keyword}=...' for keyword in keywords)])})"
        if lacking:
            advice = f"give {lacking[0]} a default, or values in the config"
        raise WrongArguments(f"{name}: {error} at {Path(written_at(bound.func)).name}; {advice}") from None


def _prepare_forward(
    definition: Definition, provider: Provider, forward: Callable[..., Any], inputs: Sequence[Tensor], shapes: Shapes
) -> Call:
    names = list(definition.operator.outputs)
    forms = dict(zip(names, zip(shapes, definition.outputs, strict=True), strict=True))
    placed = {
        name: torch.empty(forms[name][0], dtype=forms[name][1].dtype, device=inputs[0].device) for name in provider.out
    }
    run = partial(forward, *inputs, **placed)
    by_input = dict(zip(definition.operator.inputs, inputs, strict=True))
    placed |= {output: by_input[name] for name, output in provider.mutates.items()}
    call = Call(run, partial(_with_placed, names, placed), provider.mutates, tuple(placed.values()))
    call.spoil(inputs)
    return call


def _with_placed(names: Sequence[str], placed: Mapping[str, Tensor], returned: Any) -> Sequence[Any]:
    """The values of these names: those that a function returned, and the tensors that hold one afterwards. Raises
    Misdelivery."""
    remaining = [name for name in names if name not in placed]
    if placed and not remaining and _returns_only(returned, placed.values()):
        return [placed[name] for name in names]
    by_name = {**dict(zip(remaining, _several(remaining, returned, tuple(placed)), strict=True)), **placed}
    return [by_name[name] for name in names]


def _returns_only(returned: Any, destinations: Iterable[Tensor]) -> bool:
    """Whether a function returned nothing, or only tensors that hold an output anyway, as `torch.add(..., out=y)` does."""
    values = () if returned is None else values_of(returned)
    return all(any(value is tensor for tensor in destinations) for value in values)


Passes = tuple[Callable[[], tuple[Any, tuple[Any, ...]]], Callable[..., Any]]
"""A function that returns what the forward function returns, and what the backward pass gets from it; and a function that gets
this and returns the gradients."""


def _prepare_gradients(
    definition: Definition,
    passes_of: Callable[[Sequence[Tensor]], Passes],
    needs_forward: bool,
    holds: Mapping[str, str],
    inputs: Sequence[Tensor],
    shapes: Shapes,
) -> Call:
    """The forward pass runs here in mode `backward`, and in the timed call in mode `full`."""
    pass_forward, pass_backward = passes_of(inputs)
    if definition.case.mode == BACKWARD:
        saved = pass_forward()[1] if needs_forward else ()
        return _gradient_call(definition, partial(pass_backward, *saved), holds, inputs)

    def full() -> tuple[Any, Any]:
        returned, saved = pass_forward()
        return returned, pass_backward(*saved)

    return _gradient_call(definition, full, holds, inputs)


def _autograd_passes(definition: Definition, forward: Callable[..., Any], inputs: Sequence[Tensor]) -> Passes:
    """Differentiates the forward function with autograd. The graph is kept, and nothing is accumulated."""
    operator, count, called = definition.operator, len(definition.operator.inputs), False
    received, named = inputs[count:], zip(operator.inputs, inputs[:count], strict=True)
    leaves = {name: x.detach().requires_grad_() if name in operator.gradients else x for name, x in named}
    _keep_graphs()

    def pass_forward() -> tuple[Any, tuple[Any, ...]]:
        with torch.enable_grad():
            returned = forward(*leaves.values())
        return returned, (_differentiable(definition, returned, received),)

    def pass_backward(outputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        nonlocal called
        try:
            gradients = torch.autograd.grad(
                outputs,
                [leaves[name] for name in operator.gradients],
                received,
                retain_graph=True,
                materialize_grads=True,  # an input that a case does not use has a gradient of zeros
            )
        except RuntimeError as error:
            if called and CHANGED_SAVED_TENSOR in str(error):
                raise Unsupported(f"{ONE_BACKWARD}, so it cannot be called twice; {ONE_BACKWARD_REMEDY}") from None
            raise
        called = True
        return gradients

    return pass_forward, pass_backward


def _differentiable(definition: Definition, returned: Any, received: Sequence[Tensor]) -> list[Tensor]:
    """The outputs that have gradients. Raises Misdelivery if one of them does not fit its gradient, and Unsupported if autograd
    cannot differentiate it."""
    names = tuple(definition.operator.outputs)
    by_name = dict(zip(names, _several(names, returned), strict=True))
    received_by_name = dict(zip(definition.operator.output_gradients(definition.case), received, strict=True))
    for name, gradient in received_by_name.items():
        x = by_name[name]
        if not isinstance(x, Tensor):
            raise Misdelivery(f"returned {type(x).__name__} for {name}, expected a tensor")
        if (x.shape, x.dtype) != (gradient.shape, gradient.dtype):
            is_, must = (f"shape {tuple(y.shape)} and {dtype_name(y.dtype)}" for y in (x, gradient))
            raise Misdelivery(f"returned {is_} for {name}, expected {must}")
        if not x.requires_grad:
            subject = "its forward function is"
            if len(received_by_name) > 1:
                subject = f"output {name} of its forward function is"
            raise Unsupported(f"{subject} not differentiable, and the provider has no backward kernel")
    return [by_name[name] for name in received_by_name]


def _kernel_passes(
    definition: Definition,
    saves: tuple[str, ...] | Callable[..., Any] | None,
    forward: Callable[..., Any],
    kernel: Callable[..., Any],
    inputs: Sequence[Tensor],
) -> Passes:
    """Calls a backward kernel. From the forward pass it gets nothing, some outputs, or what the function `saves` returns."""
    outputs, count = tuple(definition.operator.outputs), len(definition.operator.inputs)
    forward_inputs = inputs[:count]

    def pass_forward() -> tuple[Any, tuple[Any, ...]]:
        if callable(saves):
            outputs_and_saved = values_of(saves(*forward_inputs))
            if len(outputs_and_saved) != 2:
                raise TypeError(
                    "the function given as saves= must return two values, (outputs, saved), but it returned "
                    f"{plural(len(outputs_and_saved), 'value')}; put several outputs or several saved tensors into a tuple of "
                    "their own: return y, (mean, rstd)"
                )
            return outputs_and_saved[0], (outputs_and_saved[1],)
        returned = forward(*forward_inputs)
        if saves is None:
            return returned, ()
        by_name = dict(zip(outputs, _several(outputs, returned), strict=True))
        return returned, (tuple(by_name[name] for name in saves),)

    return pass_forward, partial(kernel, *inputs[count:], *forward_inputs)


def _gradient_call(
    definition: Definition, run: Callable[[], Any], holds: Mapping[str, str], inputs: Sequence[Tensor]
) -> Call:
    """A call that returns the gradients or, in mode `full`, the outputs and the gradients. `holds` names the tensors that hold
    the gradient of an input afterwards."""
    by_name = dict(zip(definition.input_names, inputs, strict=True))
    mutates = {name: f"gradient of {gradient}" for name, gradient in holds.items()}
    placed = {gradient: by_name[name] for name, gradient in mutates.items()}
    gradients = [f"gradient of {name}" for name in definition.operator.gradients]

    def deliver(returned: Any) -> Sequence[Any]:
        if definition.case.mode == BACKWARD:
            return _with_placed(gradients, placed, returned)
        passes = values_of(returned)
        if len(passes) != 2:
            raise Misdelivery(f"returned {type(returned).__name__}, expected (outputs, gradients)")
        outputs = _several(tuple(definition.operator.outputs), passes[0])
        outputs = [x.detach() if isinstance(x, Tensor) else x for x in outputs]
        return [*outputs, *_with_placed(gradients, placed, passes[1])]

    return Call(run, deliver, mutates, tuple(placed.values()))


def _several(names: Sequence[str], returned: Any, placed: Sequence[str] = ()) -> Sequence[Any]:
    """What a function returned, as one value for each name. A single output is a tensor by itself, or a tuple of one. Raises
    Misdelivery if there are more values or fewer. `placed` are outputs that the function must not return."""
    values = values_of(returned)
    if len(values) == len(names):
        return values
    if isinstance(returned, dict) and len(names) > 1:
        raise Misdelivery(f"returned a dict; return a tuple ({', '.join(names)})")
    is_ = f"{plural(len(values), 'value')}"
    must = f"{len(names)}: {', '.join(names)}" if names else "none"
    also = f"; do not return what a buffer or an input holds: {', '.join(placed)}" if placed else ""
    raise Misdelivery(f"returned {is_}, expected {must}{also}")


def values_of(returned: Any) -> tuple[Any, ...]:
    """The values in a tuple or a list that a function returned; anything else is one value.

    They are read as Python stores them. The methods of a subclass do not run: they could compute the values now, after the
    clock has stopped. A named tuple stores its values like a plain one.
    """
    for kind in (tuple, list):
        if issubclass(type(returned), kind):
            return tuple(kind.__iter__(returned))
    return (returned,)


def _keep_graphs() -> None:
    """Let torch.compile keep the buffers of a graph: with donated buffers it refuses a second backward pass."""
    from torch._functorch import config

    config.donated_buffer = False

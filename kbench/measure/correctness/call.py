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
    """A function returned something else than it must. The message says what, and what was expected."""


class WrongArguments(Exception):
    """A function does not take the arguments that kbench gives it. The message says why, and where it is."""


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
        """Fill the buffers, so that an element that the call leaves unwritten is wrong; `again` with other values."""
        for tensor in self.destinations:
            if not any(tensor is x for x in inputs):
                tensor.fill_(poison_value(tensor.dtype, again))

    def locations(self, inputs: Sequence[Tensor]) -> list[Location]:
        """Where the inputs are, and then the buffers. A call may write into them, but it may not move them."""
        return [location_of(x) for x in (*inputs, *self.destinations)]

    def places(self, output: Any) -> bool:
        """Whether an output lies where the call must put it, and not in new memory."""
        return any(output is tensor for tensor in self.destinations)


ONE_BACKWARD = "its backward pass changes in place what its forward pass saved"
ONE_BACKWARD_REMEDY = "measure it in mode full"
"""The backward pass of such a function works once. Mode full has a forward pass before each of them."""

Passes = tuple[Callable[[], tuple[Any, tuple[Any, ...]]], Callable[..., Any]]
"""Functions for the two passes. The first returns what the forward function returns, and the arguments of the second."""


class Preparer:
    """Prepares calls of a provider for a case. Builds the provider if it is a factory. Raises whatever the provider raises,
    WrongArguments, and Unsupported if it cannot compute gradients."""

    def __init__(self, definition: Definition, provider: Provider, params: Mapping[str, Value]) -> None:
        operator, case = definition.operator, definition.case
        self._definition, self._provider = definition, provider
        self._count = len(operator.inputs)
        self._forward = provider.bind(case, params)
        self._kernel: Callable[..., Any] | None = None  # of the backward pass, or of both
        # the inputs that hold the gradient of an input after the kernel
        self._holds: Mapping[str, str] = {}
        if not provider.factory:
            _check_arguments(self._forward, operator.inputs, provider.out)
        if case.mode == FORWARD:
            return
        self._both_passes = case.mode == FULL and provider.full is not None
        self._saves = None if self._both_passes else provider.bind_saves(case, params)
        if kernel := provider.full if self._both_passes else provider.backward:
            self._kernel, self._holds = kernel.bind(case, params), kernel.mutates
            gradients = [f"d_{name}" for name in operator.output_gradients(case)]
            _check_arguments(self._kernel, [*gradients, *operator.inputs, *(["saved"] if self._saves else [])])
        self._needs_forward = not self._kernel or bool(self._saves) or case.mode == FULL
        in_place = not self._both_passes and (provider.mutates or provider.out)
        if in_place and self._needs_forward and not callable(self._saves):
            raise Unsupported(
                "its forward function works in place or writes into buffers, so kbench computes no gradients with it; return "
                "new tensors, or register a backward kernel with a function as saves=, or a function for both passes (full)"
            )

    def __call__(self, inputs: Sequence[Tensor], shapes: Shapes) -> Call:
        """A call on inputs. The shapes are those of the outputs of the mode, in order. The forward pass runs here in mode
        `backward`, and in the timed call in mode `full`."""
        mode = self._definition.case.mode
        if mode == FORWARD:
            return self._forward_call(inputs, shapes)
        pass_forward, pass_backward = self._kernel_passes(inputs) if self._kernel else self._autograd_passes(inputs)
        if self._both_passes:
            return self._gradient_call(pass_backward, inputs)
        if mode == BACKWARD:
            saved = pass_forward()[1] if self._needs_forward else ()
            return self._gradient_call(partial(pass_backward, *saved), inputs)

        def full() -> tuple[Any, Any]:
            returned, saved = pass_forward()
            return returned, pass_backward(*saved)

        return self._gradient_call(full, inputs)

    def _forward_call(self, inputs: Sequence[Tensor], shapes: Shapes) -> Call:
        operator, outputs, mutates = self._definition.operator, self._definition.outputs, self._provider.mutates
        placed = {
            output.name: torch.empty(shape, dtype=output.dtype, device=inputs[0].device)
            for output, shape in zip(outputs, shapes, strict=True)
            if output.name in self._provider.out
        }
        run = partial(self._forward, *inputs, **placed)
        by_input = dict(zip(operator.inputs, inputs, strict=True))
        placed |= {output: by_input[name] for name, output in mutates.items()}
        call = Call(run, partial(_with_placed, list(operator.outputs), placed), mutates, tuple(placed.values()))
        call.spoil(inputs)
        return call

    def _autograd_passes(self, inputs: Sequence[Tensor]) -> Passes:
        """Differentiates the forward function with autograd. The graph is kept, and nothing is accumulated."""
        operator, called = self._definition.operator, False
        received, named = inputs[self._count :], zip(operator.inputs, inputs[: self._count], strict=True)
        leaves = {name: x.detach().requires_grad_() if name in operator.gradients else x for name, x in named}
        _keep_graphs()

        def pass_forward() -> tuple[Any, tuple[Any, ...]]:
            with torch.enable_grad():
                returned = self._forward(*leaves.values())
            return returned, (self._differentiable(returned, received),)

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
                if called and "modified by an inplace operation" in str(error):
                    raise Unsupported(f"{ONE_BACKWARD}, so it cannot be called twice; {ONE_BACKWARD_REMEDY}") from None
                raise
            called = True
            return gradients

        return pass_forward, pass_backward

    def _differentiable(self, returned: Any, received: Sequence[Tensor]) -> list[Tensor]:
        """The outputs that have gradients. Raises Misdelivery if one of them does not fit its gradient, and Unsupported if
        autograd cannot differentiate it."""
        operator = self._definition.operator
        by_name = self._outputs_by_name(returned)
        names = operator.output_gradients(self._definition.case)
        for name, gradient in zip(names, received, strict=True):
            x = by_name[name]
            if not isinstance(x, Tensor):
                raise Misdelivery(f"returned {type(x).__name__} for {name}, expected a tensor")
            if (x.shape, x.dtype) != (gradient.shape, gradient.dtype):
                is_, must = (f"shape {tuple(y.shape)} and {dtype_name(y.dtype)}" for y in (x, gradient))
                raise Misdelivery(f"returned {is_} for {name}, expected {must}")
            if not x.requires_grad:
                output = f"output {name} of its forward function" if len(names) > 1 else "its forward function"
                raise Unsupported(f"{output} is not differentiable, and the provider has no backward kernel")
        return [by_name[name] for name in names]

    def _kernel_passes(self, inputs: Sequence[Tensor]) -> Passes:
        assert self._kernel
        forward_inputs = inputs[: self._count]
        return partial(self._pass_forward, forward_inputs), partial(
            self._kernel, *inputs[self._count :], *forward_inputs
        )

    def _pass_forward(self, inputs: Sequence[Tensor]) -> tuple[Any, tuple[Any, ...]]:
        """A backward kernel gets nothing from the forward pass, some outputs, or what `saves` returns."""
        if callable(self._saves):
            outputs_and_saved = values_of(self._saves(*inputs))
            if len(outputs_and_saved) != 2:
                raise TypeError(
                    "the function given as saves= must return two values, (outputs, saved), but it returned "
                    f"{plural(len(outputs_and_saved), 'value')}; put several outputs or several saved tensors into a tuple of "
                    "their own: return y, (mean, rstd)"
                )
            return outputs_and_saved[0], (outputs_and_saved[1],)
        returned = self._forward(*inputs)
        if self._saves is None:
            return returned, ()
        by_name = self._outputs_by_name(returned)
        return returned, (tuple(by_name[name] for name in self._saves),)

    def _outputs_by_name(self, returned: Any) -> dict[str, Any]:
        names = tuple(self._definition.operator.outputs)
        return dict(zip(names, _several(names, returned), strict=True))

    def _gradient_call(self, run: Callable[[], Any], inputs: Sequence[Tensor]) -> Call:
        by_name = dict(zip(self._definition.input_names, inputs, strict=True))
        mutates = {name: f"gradient of {gradient}" for name, gradient in self._holds.items()}
        placed = {gradient: by_name[name] for name, gradient in mutates.items()}
        gradients = [f"gradient of {name}" for name in self._definition.operator.gradients]

        def deliver(returned: Any) -> Sequence[Any]:
            if self._definition.case.mode == BACKWARD:
                return _with_placed(gradients, placed, returned)
            passes = values_of(returned)
            if len(passes) != 2:
                raise Misdelivery(f"returned {type(returned).__name__}, expected (outputs, gradients)")
            outputs = self._outputs_by_name(passes[0]).values()
            outputs_and_gradients = [x.detach() if isinstance(x, Tensor) else x for x in outputs]
            return [*outputs_and_gradients, *_with_placed(gradients, placed, passes[1])]

        return Call(run, deliver, mutates, tuple(placed.values()))


def _check_arguments(function: Callable[..., Any], by_position: Iterable[str], by_name: Sequence[str] = ()) -> None:
    """Raises WrongArguments if a function does not take these arguments beside those that are bound to it."""
    bound = function if isinstance(function, partial) else partial(function)
    name = getattr(bound.func, "__name__", str(bound.func))
    if isinstance(bound.func, type):
        instead = f"{name}.apply" if issubclass(bound.func, torch.autograd.Function) else f"{name}()"
        raise WrongArguments(f"{name} is a class; register {instead}")
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):  # written in C
        return
    try:
        signature.bind(*by_position, **dict.fromkeys(by_name))
    except TypeError as error:
        keywords = [*bound.keywords, *by_name]
        lacking = [
            p.name
            for p in signature.parameters.values()
            if p.kind is p.KEYWORD_ONLY and p.default is p.empty and p.name not in by_name
        ]
        advice = f"kbench calls it as {name}({', '.join([*by_position, *(f'{keyword}=...' for keyword in keywords)])})"
        if lacking:
            advice = f"give {lacking[0]} a default, or values in the config"
        raise WrongArguments(f"{name}: {error} at {Path(written_at(bound.func)).name}; {advice}") from None


def _with_placed(names: Sequence[str], placed: Mapping[str, Tensor], returned: Any) -> Sequence[Any]:
    """The values of these names: returned ones, and tensors that hold one afterwards. Raises Misdelivery."""
    remaining = [name for name in names if name not in placed]
    if placed and not remaining and _returns_only(returned, placed.values()):
        return [placed[name] for name in names]
    by_name = {**dict(zip(remaining, _several(remaining, returned, tuple(placed)), strict=True)), **placed}
    return [by_name[name] for name in names]


def _returns_only(returned: Any, destinations: Iterable[Tensor]) -> bool:
    """Whether a function returned nothing or only such tensors, as `torch.add(..., out=y)` does."""
    values = () if returned is None else values_of(returned)
    return all(any(value is tensor for tensor in destinations) for value in values)


def _several(names: Sequence[str], returned: Any, placed: Sequence[str] = ()) -> Sequence[Any]:
    """What a function returned, as one value for each name. A single output is a tensor by itself, or a tuple of one. Raises
    Misdelivery if there are more values or fewer. `placed` are outputs that the function must not return."""
    values = values_of(returned)
    if len(values) == len(names):
        return values
    if isinstance(returned, dict) and len(names) > 1:
        raise Misdelivery(f"returned a dict; return a tuple ({', '.join(names)})")
    is_ = "nothing" if returned is None else plural(len(values), "value")
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

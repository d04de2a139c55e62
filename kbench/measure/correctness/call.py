"""A call of a provider on one set of inputs: what is timed, what it delivers, and what it may change.

A stage prepares a call outside the timed window. A forward call needs little: buffers for the outputs that the provider
writes into. A backward call needs the forward pass, or what the provider's backward kernel saves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from kbench.contract.provider import Provider, Unsupported
from kbench.measure.correctness.definition import Definition
from kbench.results.case import BACKWARD, FORWARD, Value

Shapes = Sequence[tuple[int, ...]]


@dataclass(frozen=True)
class Call:
    """One prepared call.

    run      makes the call; this is what timers time
    deliver  turns what `run` returned into the outputs, in the order of `Definition.outputs`
    mutates  the inputs that the call may change, with the output that each holds afterwards
    held     the tensors that exist before the call and hold an output afterwards: buffers and changed inputs
    """

    run: Callable[[], Any]
    deliver: Callable[[Any], Sequence[Any]] = lambda returned: (returned,)
    mutates: Mapping[str, str] = field(default_factory=dict)
    held: tuple[Tensor, ...] = ()

    def outputs(self, returned: Any) -> Sequence[Any]:
        """The outputs of a call that returned this. Not all of them need be tensors: a provider may return anything."""
        return self.deliver(returned)

    def places(self, output: Any) -> bool:
        """Whether an output lies where the call must put it, and not in new memory."""
        return any(output is tensor for tensor in self.held)


Stage = Callable[[Sequence[Tensor], Shapes], Call]
"""Prepares a call on inputs. The shapes are those of the outputs of the mode, in order."""


def stage_of(definition: Definition, provider: Provider, params: Mapping[str, Value]) -> Stage:
    """The stage of a provider for a case. Builds the provider if it is a factory. Raises whatever the provider raises, and
    Unsupported if it cannot compute gradients."""
    forward = provider.bind(definition.case, params)
    if definition.case.mode == FORWARD:
        return partial(_stage_forward, definition, provider, forward)
    if provider.mutates or provider.out:
        raise Unsupported("works in place or writes into buffers, so it has no gradients")
    if kernel := provider.bind_backward(definition.case, params):
        return partial(_stage_kernel, definition, provider.bind_saves(definition.case, params), forward, kernel)
    return partial(_stage_autograd, definition, forward)


def _stage_forward(
    definition: Definition, provider: Provider, forward: Callable[..., Any], inputs: Sequence[Tensor], shapes: Shapes
) -> Call:
    names = list(definition.operator.outputs)
    wanted = dict(zip(names, zip(shapes, definition.outputs, strict=True), strict=True))
    placed = {
        name: torch.empty(wanted[name][0], dtype=wanted[name][1].dtype, device=inputs[0].device)
        for name in provider.out
    }
    run = partial(forward, *inputs, **placed)
    by_input = dict(zip(definition.operator.inputs, inputs, strict=True))
    placed |= {output: by_input[name] for name, output in provider.mutates.items()}
    if not placed:
        return Call(run, partial(_several, len(names)))

    def deliver(returned: Any) -> Sequence[Any]:
        left = iter(_several(len(names) - len(placed), returned) if len(placed) < len(names) else ())
        return [placed[name] if name in placed else next(left, None) for name in names]

    return Call(run, deliver, provider.mutates, tuple(placed.values()))


def _stage_autograd(
    definition: Definition, forward: Callable[..., Any], inputs: Sequence[Tensor], shapes: Shapes
) -> Call:
    """Differentiates the forward function with autograd. The graph is kept, and nothing is accumulated."""
    operator, count = definition.operator, len(definition.operator.inputs)
    received = inputs[count:]

    def leaves() -> dict[str, Tensor]:
        named = zip(operator.inputs, inputs[:count], strict=True)
        return {name: x.detach().requires_grad_() if name in operator.gradients else x for name, x in named}

    def gradients(outputs: Sequence[Any], given: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        return torch.autograd.grad(outputs, [given[name] for name in operator.gradients], received, retain_graph=True)

    _keep_graphs()
    if definition.case.mode == BACKWARD:
        given = leaves()
        with torch.enable_grad():
            outputs = _differentiable(definition, forward(*given.values()))
        return Call(partial(gradients, outputs, given), tuple)

    given = leaves()

    def full() -> tuple[Any, ...]:
        with torch.enable_grad():
            returned = forward(*given.values())
        return (returned, gradients(_differentiable(definition, returned), given))

    def deliver(returned: Any) -> Sequence[Any]:
        outputs = [x.detach() if isinstance(x, Tensor) else x for x in _several(len(operator.outputs), returned[0])]
        return [*outputs, *returned[1]]

    return Call(full, deliver)


def _differentiable(definition: Definition, returned: Any) -> list[Tensor]:
    """The floating-point outputs. Raises Unsupported if one of them has no gradient."""
    outputs = definition.operator.outputs
    found = _several(len(outputs), returned)
    if len(found) != len(outputs) or not all(isinstance(x, Tensor) for x in found):
        raise TypeError(f"the forward function returned {len(found)} values, expected {', '.join(outputs)}")
    floating = [x for x in found if x.is_floating_point()]
    if not all(x.requires_grad for x in floating):
        raise Unsupported("its forward function is not differentiable, and it registers no backward kernel")
    return floating


def _stage_kernel(
    definition: Definition,
    saves: tuple[str, ...] | Callable[..., Any] | None,
    forward: Callable[..., Any],
    kernel: Callable[..., Any],
    inputs: Sequence[Tensor],
    shapes: Shapes,
) -> Call:
    """Calls a backward kernel. What it saves is computed here in mode `backward`, and in the timed call in mode `full`."""
    operator, count = definition.operator, len(definition.operator.inputs)
    own, received = inputs[:count], inputs[count:]

    def saved(returned: Any) -> tuple[Any, ...]:
        if saves is None:
            return ()
        if callable(saves):
            return (saves(*own),)
        outputs = dict(zip(operator.outputs, _several(len(operator.outputs), returned), strict=True))
        return (tuple(outputs[name] for name in saves),)

    if definition.case.mode == BACKWARD:
        kept = saved(forward(*own) if isinstance(saves, tuple) else None)
        return Call(partial(kernel, *received, *own, *kept), partial(_several, len(operator.gradients)))

    def full() -> tuple[Any, Any]:
        returned = forward(*own)
        return returned, kernel(*received, *own, *saved(returned))

    def deliver(returned: Any) -> Sequence[Any]:
        return [*_several(len(operator.outputs), returned[0]), *_several(len(operator.gradients), returned[1])]

    return Call(full, deliver)


def _several(count: int, returned: Any) -> Sequence[Any]:
    """What a function returned, as a sequence of values. A single output is a tensor by itself."""
    if isinstance(returned, (tuple, list)) and (count > 1 or len(returned) == 1):
        return returned
    return () if count == 0 and returned is None else (returned,)


def _keep_graphs() -> None:
    """Let torch.compile keep the buffers of a graph: with donated buffers it refuses a second backward pass."""
    from torch._functorch import config

    config.donated_buffer = False

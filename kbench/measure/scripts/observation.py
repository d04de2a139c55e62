"""Looks at one call of a closure: what it does beside its computation, which kernels it runs, and how its output compares with
that of another one. Neither is known to be right, so a difference says nothing about who is wrong."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.profiler import profile

from kbench.measure.correctness.call import values_of
from kbench.measure.correctness.definition import dtype_name
from kbench.measure.correctness.elements import ulp
from kbench.measure.correctness.memory import same_values
from kbench.measure.machine.device import Device
from kbench.measure.machine.dynamo import OperatorMode
from kbench.results.vocabulary import NO_TENSORS, Agreement, Noticed

RANDOM_OPERATIONS = re.compile(r"aten::(rand|randn|randint|randperm|normal_?|uniform_?|random_)(_like)?$")
COPY_OPERATIONS = {"aten::clone": 0, "aten::copy_": 1}
"""Operations that copy a tensor, and which of their arguments it is."""

AGREEMENT_ULPS, FLOAT32_ULPS = 2.0, 64.0
"""Two outputs agree if no element differs by more than this many units in the last place of its dtype, plus this many of
float32: what kbench allows an operator that states no tolerance of its own. Whole numbers must be equal."""

PIECE_ELEMENTS = 2**24
"""Outputs are compared in pieces of this size, in float64."""


class _Copies(OperatorMode):
    """Sees a copy of a tensor that a closure holds. Compilers do nothing in a dispatch mode."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        super().__init__()
        self._held, self.copies_input = _places(tensors), False

    def __torch_dispatch__(
        self, function: Any, kinds: Any, arguments: tuple[Any, ...] = (), named: Mapping[str, Any] | None = None
    ) -> Any:
        returned = function(*arguments, **(named or {}))
        if function._schema.name in COPY_OPERATIONS:
            self.copies_input |= _place(arguments[COPY_OPERATIONS[function._schema.name]]) in self._held
        return returned


def _place(tensor: Tensor) -> int:
    """Where the memory of a tensor, or of a view of it, begins. 0 without memory of its own."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return 0


def _places(tensors: Iterable[Tensor]) -> set[int]:
    return {_place(tensor) for tensor in tensors} - {0}


def lies_in(returned: Any, tensors: Iterable[Tensor]) -> bool:
    """Whether a tensor that a closure returned lies in the memory of one that it holds."""
    values = (value for value in values_of(returned) if isinstance(value, Tensor))
    return not _places(values).isdisjoint(_places(tensors))


def observe(
    closure: Callable[[], Any], tensors: Iterable[Tensor], device: Device
) -> tuple[tuple[Noticed, ...], tuple[str, ...] | None]:
    """Call a closure under torch's profiler. Returns what it does beside its computation, and its kernels (see `Closure`).
    `tensors` are those that it holds. The profiler cannot run where the program profiles itself."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # otherwise it logs each start and stop to stderr
    # what torch.profiler is made of: that would import torch's compiler, which takes a second
    profiler = profile(use_device="cuda" if device.type == "cuda" else None, use_kineto=True, acc_events=True)
    try:
        profiler.__enter__()
    except RuntimeError:
        return (), None
    try:
        closure()
        device.synchronize()
    finally:
        profiler.__exit__(None, None, None)
    events = profiler.function_events or []
    operations = [event.name for event in events if event.name.startswith("aten::")]
    kernels = operations
    if device.accelerated:
        kernels = [event.name for event in events if "cuda" in str(event.device_type).lower()]
    noticed = []
    if not COPY_OPERATIONS.keys().isdisjoint(operations):
        with _Copies(tensors) as copies:
            closure()
        noticed += [Noticed.COPIES_INPUT] * copies.copies_input
    if any(name.startswith("Memcpy HtoD") for name in kernels):
        noticed.append(Noticed.COPIES_FROM_HOST)
    if any(RANDOM_OPERATIONS.fullmatch(name) for name in operations):
        noticed.append(Noticed.DRAWS_RANDOM)
    if device.accelerated and "aten::_local_scalar_dense" in operations:
        noticed.append(Noticed.WAITS)
    return tuple(noticed), tuple(kernels)


def copied_tensors(returned: Any) -> list[Tensor] | None:
    """Copies of the tensors that a closure returned; None if it returned anything else than tensors."""
    values = values_of(returned)
    if not values or not all(isinstance(value, Tensor) for value in values):
        return None
    return [value.detach().clone() for value in values]


def agreement(outputs: Sequence[Tensor] | None, baseline: Sequence[Tensor] | None) -> str:
    """How the output of a closure compares with that of the baseline, in words."""
    if outputs is None or baseline is None:
        subject = "it" if outputs is None else "the baseline"
        return f"{Agreement.NOT_COMPARABLE}: {subject} {NO_TENSORS}"
    if len(outputs) != len(baseline):
        return f"{Agreement.NOT_COMPARABLE}: it returns {len(outputs)} tensors, and the baseline {len(baseline)}"
    most_ulps, agrees = 0.0, True
    for output, reference in zip(outputs, baseline, strict=True):
        if output.shape != reference.shape or output.dtype != reference.dtype or output.device != reference.device:
            return f"{Agreement.NOT_COMPARABLE}: it returns {_form(output)}, and the baseline {_form(reference)}"
        if output.is_complex() or output.layout != torch.strided:
            return f"{Agreement.NOT_COMPARABLE}: it returns {_form(output)}"
        ulps, allowed = _difference(output.reshape(-1), reference.reshape(-1)), 0.0
        if output.is_floating_point():
            allowed = AGREEMENT_ULPS + FLOAT32_ULPS * torch.finfo(torch.float32).eps / torch.finfo(output.dtype).eps
        most_ulps, agrees = max(most_ulps, ulps), agrees and ulps <= allowed
    return Agreement.AGREES.value if agrees else f"{Agreement.DIFFERS} by {most_ulps:.3g} ulp"


def _difference(a: Tensor, b: Tensor) -> float:
    """The largest difference of two tensors in units in the last place. Infinite where only one has a NaN. Elements below the
    mean magnitude are measured at that scale: they may be what is left of larger ones that cancel."""
    floating, most_ulps = a.is_floating_point(), 0.0
    scale = float(a.float().abs().nan_to_num(0, 0, 0).mean()) if floating and a.numel() else 0.0
    for piece, other in zip(a.split(PIECE_ELEMENTS), b.split(PIECE_ELEMENTS), strict=True):
        if not piece.numel():
            continue
        x, y = piece.double(), other.double()
        distance = torch.where(same_values(x, y), 0.0, (x - y).abs())
        if floating:
            size = torch.maximum(x.abs(), y.abs()).clamp_min(scale).nan_to_num(0, 0, 0)
            distance = distance / ulp(size, a.dtype)
        most_ulps = max(most_ulps, float(distance.nan_to_num(float("inf")).max()))
    return most_ulps


def _form(x: Tensor) -> str:
    return f"{dtype_name(x.dtype)} {tuple(x.shape)}"

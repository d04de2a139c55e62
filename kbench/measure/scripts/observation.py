"""Looks at one call of a closure: what it does beside its computation, and which kernels it runs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode

from kbench.measure.correctness.call import values_of
from kbench.measure.machine.device import Device
from kbench.results.vocabulary import Noticed

RANDOM_OPERATIONS = re.compile(r"aten::(rand|randn|randint|randperm|normal_?|uniform_?|random_)(_like)?$")
COPY_OPERATIONS = ("aten::clone", "aten::copy_")
READS = "aten::_local_scalar_dense"
NO_WORK = re.compile(
    r"aten::(empty|empty_like|empty_strided|new_empty|as_strided|view|reshape|expand|t|transpose|permute|slice|select|unsqueeze|"
    r"squeeze|detach|detach_|alias|resize_|result_type|to|lift_fresh)$"
)
"""Operations that run no kernel."""


@dataclass(frozen=True)
class Observation:
    """What one call of a closure showed.

    noticed  what it does beside its computation
    kernels  the names of the kernels that it runs on a device, or of torch's operations on a host, in order
    """

    noticed: tuple[Noticed, ...] = ()
    kernels: tuple[str, ...] = ()


class _Copies(TorchDispatchMode):
    """Notes copies of tensors that a closure holds. Only for a second look: compilers do nothing in a dispatch mode."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._held, self.noticed = _places(tensors), set[Noticed]()

    def __torch_dispatch__(
        self, function: Any, kinds: Any, arguments: tuple[Any, ...] = (), named: Mapping[str, Any] | None = None
    ) -> Any:
        returned = function(*arguments, **(named or {}))
        name = function._schema.name
        target, source = arguments[:2] if name == "aten::copy_" else (returned, arguments[0] if arguments else None)
        if isinstance(source, Tensor):
            if name in COPY_OPERATIONS and _place(source) in self._held:
                self.noticed.add(Noticed.COPIES_INPUT)
            if name in ("aten::copy_", "aten::_to_copy") and _is_on_host(source) and not _is_on_host(target):
                self.noticed.add(Noticed.COPIES_FROM_HOST)
        return returned


def _is_on_host(tensor: Any) -> bool:
    return bool(tensor.device.type == "cpu")


def _place(tensor: Tensor) -> int:
    """Where the memory of a tensor begins: the same for all its views. 0 for a tensor without memory of its own."""
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


def observe(closure: Callable[[], Any], tensors: Iterable[Tensor], device: Device) -> Observation:
    """Call a closure under torch's profiler, and look at what it did. `tensors` are those that it closes over. An empty
    observation if the profiler cannot run, as where the program profiles itself."""
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.type == "cuda" else [])]
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # otherwise it logs each start and stop to stderr
    profiler = profile(activities=activities, acc_events=True)  # without it, torch warns that it keeps one cycle only
    try:
        profiler.start()
    except RuntimeError:
        return Observation()
    try:
        closure()
        device.synchronize()
    finally:
        profiler.stop()
    events = profiler.events() or []
    operations = [event.name for event in events if event.name.startswith("aten::")]
    noticed = []
    if any(name in COPY_OPERATIONS for name in operations) or (device.accelerated and "aten::_to_copy" in operations):
        with _Copies(tensors) as copies:
            closure()
        noticed += sorted(copies.noticed)
    if any(RANDOM_OPERATIONS.fullmatch(name) for name in operations):
        noticed.append(Noticed.DRAWS_RANDOM)
    if device.accelerated and READS in operations:
        noticed.append(Noticed.WAITS)
    if device.accelerated:
        kernels = [event.name for event in events if "cuda" in str(event.device_type).lower()]
    else:
        kernels = [name for name in operations if not NO_WORK.fullmatch(name)]
    return Observation(tuple(noticed), tuple(kernels))

"""Global settings of the process that a provider may change, how they are read, and how they are written back."""

from __future__ import annotations

import enum
import gc
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from kbench.measure.tampering.operator_overrides import present_overrides, remove_overrides
from kbench.measure.tampering.streams import STREAMS, StandardStreams, named

WATCHED_VARIABLES = (
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_VISIBLE_DEVICES",
    "MKL_NUM_THREADS",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS",
    "TRITON_INTERPRET",
)
"""Environment variables that change how other providers compute."""

SIGNALS = ("SIGALRM", "SIGINT", "SIGPROF", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGVTALRM")

PRECISIONS = (
    ("generic", "all"),
    *((kind, op) for kind in ("cuda", "mkldnn") for op in ("all", "matmul", "conv", "rnn")),
)
"""Where torch has a setting of its own for the precision of float32 operations."""


UNREADABLE = object()
"""The value of a setting that cannot be asked for: the current stream of a process that has not used its device."""


class Effect(enum.Enum):
    """What a changed setting means. kbench writes every setting back after each step."""

    OWN = "the provider finds it as it left it in its next step, so that it computes as it would by itself"
    SHARED = "nobody keeps it"
    TIMING = "measuring depends on it, so the provider is `tampered`"
    SILENT = "nobody needs to know"


@dataclass(frozen=True)
class ProcessSetting:
    """A global setting. `get` returns a value that can be compared, and `set` writes it.

    switch  a script may change it: its lines run with what they have set, and nobody is told
    advice  what a provider can do instead of changing it
    """

    name: str
    effect: Effect
    get: Callable[[], Any]
    set: Callable[[Any], object]
    switch: bool = False
    advice: str = ""


class Switches:
    """The settings that a script may change."""

    def __init__(self, settings: Sequence[ProcessSetting]) -> None:
        self._settings = [setting for setting in settings if setting.switch]

    def read(self) -> dict[str, Any]:
        return read(self._settings)

    def write(self, values: Mapping[str, Any]) -> None:
        write(self._settings, values)


def present_settings(streams: StandardStreams | None = None) -> list[ProcessSetting]:
    """The settings that this version of torch has, in the order in which they have to be written. The standard streams are
    among them if they are given."""
    found = []
    for setting in (
        *_torch_settings(),
        *_device_settings(),
        *_python_settings(),
        *(_streams(streams) if streams else ()),
        *_random_states(),
    ):
        with suppress(AttributeError, RuntimeError, TypeError, NotImplementedError):
            setting.get()
            found.append(setting)
    return found


def _torch_settings() -> Iterator[ProcessSetting]:
    own = partial(ProcessSetting, effect=Effect.OWN, switch=True)
    yield own(
        "torch.inference_mode", get=torch.is_inference_mode_enabled, set=_set_inference_mode
    )  # before grad_enabled
    yield own("torch.set_default_dtype", get=torch.get_default_dtype, set=torch.set_default_dtype)
    yield own("torch.set_default_device", get=_default_device, set=torch.set_default_device)
    yield own("torch.set_grad_enabled", get=torch.is_grad_enabled, set=torch._C._set_grad_enabled)
    yield own(
        "torch.set_deterministic_debug_mode",
        get=torch.get_deterministic_debug_mode,
        set=torch.set_deterministic_debug_mode,
    )
    for kind in ("cuda", "cpu"):
        yield own(
            f"autocast on {kind}",
            get=partial(torch.is_autocast_enabled, kind),
            set=partial(torch.set_autocast_enabled, kind),
        )
        yield own(
            f"the dtype of autocast on {kind}",
            get=partial(torch.get_autocast_dtype, kind),
            set=partial(torch.set_autocast_dtype, kind),
        )
    yield own("torch.set_float32_matmul_precision", get=_matmul_precision, set=_set_matmul_precision)
    for backend, op in PRECISIONS:
        yield own(
            f"the float32 precision of {backend} {op}",
            get=partial(torch._C._get_fp32_precision_getter, backend, op),
            set=partial(torch._C._set_fp32_precision_setter, backend, op),
        )
    for owner, name in (
        ("cudnn", "benchmark"),
        ("cudnn", "deterministic"),
        ("cudnn", "enabled"),
        ("mkldnn", "enabled"),
        ("cuda.matmul", "allow_fp16_reduced_precision_reduction"),
        ("cuda.matmul", "allow_bf16_reduced_precision_reduction"),
    ):
        yield _attribute(f"torch.backends.{owner}", name, Effect.OWN)
    cuda = torch.backends.cuda
    yield own("torch.backends.cuda.enable_flash_sdp", get=cuda.flash_sdp_enabled, set=cuda.enable_flash_sdp)
    yield own(
        "torch.backends.cuda.enable_mem_efficient_sdp",
        get=cuda.mem_efficient_sdp_enabled,
        set=cuda.enable_mem_efficient_sdp,
    )
    yield own("torch.backends.cuda.enable_math_sdp", get=cuda.math_sdp_enabled, set=cuda.enable_math_sdp)
    yield own("torch.backends.cuda.enable_cudnn_sdp", get=cuda.cudnn_sdp_enabled, set=cuda.enable_cudnn_sdp)
    yield ProcessSetting(
        "torch's operators through torch.library", Effect.TIMING, get=present_overrides, set=remove_overrides
    )
    yield ProcessSetting(
        "torch.set_num_threads", Effect.SHARED, torch.get_num_threads, torch.set_num_threads, switch=True
    )


def _device_settings() -> Iterator[ProcessSetting]:
    timing = partial(ProcessSetting, effect=Effect.TIMING)
    yield timing("the current device", get=_current_device, set=_set_current_device, switch=True)
    yield timing(
        "the current stream",
        get=_current_stream,
        set=_set_current_stream,
        switch=True,
        advice="work on the current stream, or inside `with torch.cuda.stream(...)`, and let the current stream wait for it",
    )
    if "triton.runtime" in sys.modules:
        yield timing("the active driver of Triton", get=_triton_driver, set=_set_triton_driver)
    yield timing(
        "the stack of torch function modes",
        get=_function_modes,
        set=partial(_shorten, torch._C._len_torch_function_stack, torch._C._pop_torch_function_stack, _function_modes),
    )
    yield timing(
        "the stack of torch dispatch modes",
        get=torch._C._len_torch_dispatch_stack,
        set=partial(
            _shorten,
            torch._C._len_torch_dispatch_stack,
            torch._C._pop_torch_dispatch_stack,
            torch._C._len_torch_dispatch_stack,
        ),
    )


def _python_settings() -> Iterator[ProcessSetting]:
    timing, shared = partial(ProcessSetting, effect=Effect.TIMING), partial(ProcessSetting, effect=Effect.SHARED)
    yield timing("sys.settrace", get=sys.gettrace, set=sys.settrace)
    yield timing("sys.setprofile", get=sys.getprofile, set=sys.setprofile)
    yield timing(
        "gc.callbacks", get=lambda: list(gc.callbacks), set=lambda kept: gc.callbacks.__setitem__(slice(None), kept)
    )
    yield shared("gc.isenabled()", get=gc.isenabled, set=lambda on: gc.enable() if on else gc.disable())
    yield shared("the working folder", get=_working_folder, set=_set_working_folder)
    for name in WATCHED_VARIABLES:
        yield shared(
            f"the environment variable {name}", get=partial(os.environ.get, name), set=partial(_set_variable, name)
        )
    for number in (getattr(signal, name) for name in SIGNALS if hasattr(signal, name)):
        yield shared(
            f"the handler of {number.name}", get=partial(signal.getsignal, number), set=partial(_set_handler, number)
        )


def _streams(streams: StandardStreams) -> Iterator[ProcessSetting]:
    for number in STREAMS:
        look, put_right = partial(streams.descriptor, number), partial(streams.put_descriptor_right, number)
        yield ProcessSetting(named(number), Effect.SHARED, look, _without_value(put_right))
    for name in ("stdout", "stderr"):
        look, put_right = partial(streams.object, name), partial(streams.put_object_right, name)
        yield ProcessSetting(f"sys.{name}", Effect.SHARED, look, _without_value(put_right))


def _without_value(put_right: Callable[[], object]) -> Callable[[Any], object]:
    return lambda _: put_right()


def _random_states() -> Iterator[ProcessSetting]:
    """A provider may draw random numbers, as dropout does. Others that draw find the numbers that they would find alone."""
    silent = partial(ProcessSetting, effect=Effect.SILENT)
    yield silent("random", get=random.getstate, set=random.setstate)
    yield silent("torch.random", get=_torch_state, set=lambda state: torch.set_rng_state(_as_tensor(state)))
    yield silent("torch.cuda.random", get=_cuda_state, set=_set_cuda_state)


def _attribute(path: str, name: str, effect: Effect) -> ProcessSetting:
    owner: Any = torch
    for part in path.split(".")[1:]:
        owner = getattr(owner, part)
    return ProcessSetting(
        f"{path}.{name}", effect, partial(getattr, owner, name), partial(setattr, owner, name), switch=True
    )


_entered: list[Any] = []
"""The context of torch's inference mode that `_set_inference_mode` has entered, if any."""


def _set_inference_mode(on: bool) -> None:
    """torch switches it by a context only. Leaving that brings back what autograd was before."""
    while _entered:
        _entered.pop().__exit__(None, None, None)
    if torch.is_inference_mode_enabled() != on:
        context = torch.inference_mode(on)
        context.__enter__()
        _entered.append(context)


def _default_device() -> torch.device | None:
    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return None if context is None else context.device


def _matmul_precision() -> str:
    """Empty where torch refuses to answer, because only its newer settings were used."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return ""


def _set_matmul_precision(precision: str) -> None:
    if precision:
        torch.set_float32_matmul_precision(precision)


def _used() -> bool:
    """Whether this process uses CUDA or ROCm. Asking for its state must not be what makes it do so."""
    return bool(torch.cuda.is_initialized())


def _current_device() -> Any:
    return torch.cuda.current_device() if _used() else UNREADABLE


def _set_current_device(index: Any) -> None:
    torch.cuda.set_device(index)


def _current_stream() -> Any:
    return torch.cuda.current_stream() if _used() else UNREADABLE


def _set_current_stream(stream: Any) -> None:
    torch.cuda.set_stream(stream)


def _triton_driver() -> Any:
    """The driver that `triton.testing.do_bench` flushes the cache with; None for Triton's own."""
    driver = sys.modules["triton.runtime"].driver
    return None if driver._active is driver._default else driver._active


def _set_triton_driver(value: Any) -> None:
    sys.modules["triton.runtime"].driver._active = value


def _function_modes() -> int:
    """The modes that intercept functions of torch, without the one that `torch.set_default_device` enters."""
    return torch._C._len_torch_function_stack() - (_default_device() is not None)


def _shorten(length: Callable[[], int], pop: Callable[[], object], count: Callable[[], int], wanted: int) -> None:
    while length() and count() > wanted:
        pop()


def _working_folder() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109  Path.cwd() takes ten times as long, and every step asks
    except OSError:  # it was deleted
        return None


def _set_working_folder(folder: str | None) -> None:
    if folder is not None:
        os.chdir(folder)


def _set_variable(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def _set_handler(number: signal.Signals, handler: Any) -> None:
    if handler is not None:  # None: it was not set from Python
        signal.signal(number, handler)


def _torch_state() -> bytes:
    return torch.get_rng_state().numpy().tobytes()


def _cuda_state() -> Any:
    return bytes(torch.cuda.get_rng_state().tolist()) if _used() else UNREADABLE


def _set_cuda_state(state: bytes) -> None:
    torch.cuda.set_rng_state(_as_tensor(state))


def _as_tensor(state: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(state), dtype=torch.uint8)


def read(settings: Sequence[ProcessSetting]) -> dict[str, Any]:
    """The present values by name; UNREADABLE for one that cannot be read now."""
    return {setting.name: _value(setting) for setting in settings}


def write(settings: Sequence[ProcessSetting], values: Mapping[str, Any]) -> None:
    """Write the values that are known and differ from the present ones."""
    for setting in settings:
        wanted = values.get(setting.name, UNREADABLE)
        if wanted is not UNREADABLE and _value(setting) != wanted:
            setting.set(wanted)


def _value(setting: ProcessSetting) -> Any:
    try:
        return setting.get()
    except RuntimeError:  # as after a failed call on a device
        return UNREADABLE

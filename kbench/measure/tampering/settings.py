"""The settings of the process that a provider may change: how each is read and written, and what its change means."""

from __future__ import annotations

import enum
import gc
import os
import pickle
import random
import sys
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any

import torch

UNREADABLE = object()
"""The value of a setting that cannot be asked for: this version of torch has no such setting, or the process has not used its
device, or a call on the device has failed."""

NOT_READ = (AttributeError, KeyError, OSError, RuntimeError)
"""What asking for such a setting raises. KeyError: a module was not imported. OSError: the working folder was deleted."""


class Effect(enum.Enum):
    """What a changed setting means. kbench writes every setting back after each step."""

    OWN = "the provider finds it as it left it in its next step, so that it computes as it would by itself"
    SHARED = "nobody keeps it"
    TIMING = "measuring depends on it, so the provider is `tampered`"
    SILENT = "nobody needs to know"


@dataclass(frozen=True)
class Setting:
    """A setting. `get` returns a value that can be compared, and `set` writes it."""

    name: str
    effect: Effect
    get: Callable[[], Any]
    set: Callable[[Any], object]


def read() -> dict[str, Any]:
    return {setting.name: _value(setting) for setting in SETTINGS}


def write(values: Mapping[str, Any]) -> None:
    """Write the values that are known and differ from the present ones."""
    for setting in SETTINGS:
        target = values.get(setting.name, UNREADABLE)
        if target is not UNREADABLE and _value(setting) != target:
            setting.set(target)


def _value(setting: Setting) -> Any:
    try:
        return setting.get()
    except NOT_READ:
        return UNREADABLE


# -- how some settings are read and written

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


def _of_cuda(get: Callable[[], Any]) -> Callable[[], Any]:
    """Asks CUDA or ROCm only if this process uses it: asking must not be what makes it do so."""

    def value() -> Any:
        if not torch.cuda.is_initialized():
            raise RuntimeError("this process does not use a device")
        return get()

    return value


def _triton() -> Any:
    """What has the driver that `triton.testing.do_bench` flushes the cache with."""
    return sys.modules["triton.runtime"].driver


def _driver() -> Any:
    """The active driver; None for Triton's own."""
    return None if _triton()._active is _triton()._default else _triton()._active


def _function_modes() -> int:
    """The modes that intercept functions of torch, without the one that `torch.set_default_device` enters."""
    return torch._C._len_torch_function_stack() - (_default_device() is not None)


def _leave_function_modes(count: int) -> None:
    while torch._C._len_torch_function_stack() and _function_modes() > count:
        torch._C._pop_torch_function_stack()


def _leave_dispatch_modes(count: int) -> None:
    while torch._C._len_torch_dispatch_stack() > count:
        torch._C._pop_torch_dispatch_stack()


def _overrides() -> frozenset[str]:
    """Kernels of torch's own operators that Python code has replaced: `aten/_softmax/CPU`. Those for tensors without memory
    (`Meta`) and of torch.vmap (`FuncTorchBatched`), which torch registers at its first use, are left out."""
    return _names_of_overrides(len(torch.library._impls))


@lru_cache(maxsize=1)
def _names_of_overrides(count: int) -> frozenset[str]:
    """Those among `count` kernels: torch itself registers thousands, so they are not read each time."""
    others = ("/Meta", "/FuncTorchBatched")
    return frozenset(name for name in torch.library._impls if name.startswith("aten/") and not name.endswith(others))


def _remove_overrides(allowed: frozenset[str]) -> None:
    """Remove the kernels that are not `allowed`, with others of the same `torch.library.Library`."""
    added = _overrides() - allowed
    for finalizer, info in list(weakref.finalize._registry.items()):  # type: ignore[attr-defined]
        if info.func is torch.library._del_library and added.intersection(info.args[1]):
            finalizer()


def _set_variable(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def _state(tensor: torch.Tensor) -> bytes:
    return tensor.numpy().tobytes()


def _set_state(set_state: Callable[[torch.Tensor], None], state: bytes) -> None:
    set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))


# -- the settings

_own, _shared = partial(Setting, effect=Effect.OWN), partial(Setting, effect=Effect.SHARED)
_timing, _silent = partial(Setting, effect=Effect.TIMING), partial(Setting, effect=Effect.SILENT)

ATTRIBUTES = (
    *("cudnn.benchmark", "cudnn.deterministic", "cudnn.enabled", "mkldnn.enabled"),
    *("cuda.matmul.allow_fp16_reduced_precision_reduction", "cuda.matmul.allow_bf16_reduced_precision_reduction"),
    *("fp32_precision", "cuda.matmul.fp32_precision"),  # these are new in torch 2.9
    *("cudnn.fp32_precision", "cudnn.conv.fp32_precision", "cudnn.rnn.fp32_precision"),
    *("mkldnn.fp32_precision", "mkldnn.matmul.fp32_precision"),
    *("mkldnn.conv.fp32_precision", "mkldnn.rnn.fp32_precision"),
)
"""Settings that are attributes below `torch.backends`. The general ones come before the special ones, which they change."""

VARIABLES = (
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_VISIBLE_DEVICES",
    "MKL_NUM_THREADS",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS",
    "TRITON_INTERPRET",
)
"""Environment variables that change how other providers compute."""


def _attribute(path: str) -> Setting:
    owner, _, name = f"backends.{path}".rpartition(".")
    return _own(
        f"torch.backends.{path}",
        get=lambda: getattr(attrgetter(owner)(torch), name),
        set=lambda value: setattr(attrgetter(owner)(torch), name, value),
    )


SETTINGS: tuple[Setting, ...] = (
    # inference mode comes before the setting of autograd, which it changes
    _own("torch.inference_mode", get=torch.is_inference_mode_enabled, set=_set_inference_mode),
    _own("torch.set_grad_enabled", get=torch.is_grad_enabled, set=torch._C._set_grad_enabled),
    _own("torch.set_default_device", get=_default_device, set=torch.set_default_device),
    *(
        _own(f"torch.set_{name}", get=getattr(torch, f"get_{name}"), set=getattr(torch, f"set_{name}"))
        for name in ("default_dtype", "deterministic_debug_mode", "float32_matmul_precision")
    ),
    *(
        _own(
            f"{name} on {kind}",
            get=partial(getattr(torch, get), kind),
            set=partial(getattr(torch, set_), kind),
        )
        for kind in ("cuda", "cpu")
        for name, get, set_ in (
            ("autocast", "is_autocast_enabled", "set_autocast_enabled"),
            ("the dtype of autocast", "get_autocast_dtype", "set_autocast_dtype"),
        )
    ),
    *map(_attribute, ATTRIBUTES),
    *(
        _own(
            f"torch.backends.cuda.enable_{kind}_sdp",
            get=getattr(torch.backends.cuda, f"{kind}_sdp_enabled"),
            set=getattr(torch.backends.cuda, f"enable_{kind}_sdp"),
        )
        for kind in ("flash", "mem_efficient", "math", "cudnn")
    ),
    _timing("torch's operators through torch.library", get=_overrides, set=_remove_overrides),
    _timing("the current device", get=_of_cuda(torch.cuda.current_device), set=torch.cuda.set_device),
    _timing("the current stream", get=_of_cuda(torch.cuda.current_stream), set=torch.cuda.set_stream),
    _timing("the active driver of Triton", get=_driver, set=lambda driver: setattr(_triton(), "_active", driver)),
    _timing("the stack of torch function modes", get=_function_modes, set=_leave_function_modes),
    _timing("the stack of torch dispatch modes", get=torch._C._len_torch_dispatch_stack, set=_leave_dispatch_modes),
    _timing("sys.settrace", get=sys.gettrace, set=sys.settrace),
    _timing("sys.setprofile", get=sys.getprofile, set=sys.setprofile),
    _shared("torch.set_num_threads", get=torch.get_num_threads, set=torch.set_num_threads),
    _shared("gc.isenabled()", get=gc.isenabled, set=lambda on: gc.enable() if on else gc.disable()),
    _shared("the working folder", get=os.getcwd, set=os.chdir),
    *(
        _shared(f"the environment variable {name}", get=partial(os.environ.get, name), set=partial(_set_variable, name))
        for name in VARIABLES
    ),
    # a provider may draw random numbers, as dropout does: others that draw find the numbers that they would find alone
    _silent("random", get=random.getstate, set=random.setstate),
    _silent(
        "numpy.random",
        get=lambda: pickle.dumps(sys.modules["numpy"].random.get_state()),
        set=lambda state: sys.modules["numpy"].random.set_state(pickle.loads(state)),
    ),
    _silent("torch.random", get=lambda: _state(torch.get_rng_state()), set=partial(_set_state, torch.set_rng_state)),
    _silent(
        "torch.cuda.random",
        get=_of_cuda(lambda: _state(torch.cuda.get_rng_state())),
        set=partial(_set_state, torch.cuda.set_rng_state),
    ),
)
"""All settings, in the order in which they have to be written."""

EFFECTS = {setting.name: setting.effect for setting in SETTINGS}

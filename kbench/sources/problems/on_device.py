"""Lets code that names a device (`device="cuda"`, `.cuda()`) work on another one, such as a host or tensors without memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

DEVICE_TYPES = ("cuda", "xpu", "npu", "mps", "cpu")
"""The device types that code names."""


class _OnDevice(TorchFunctionMode):
    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is Tensor.cuda or func is Tensor.cpu:
            return args[0].to(self._device)
        if "device" in kwargs:
            kwargs["device"] = self._moved(kwargs["device"])
        if func is Tensor.to:
            args, kwargs = tree_map(self._moved, (args, kwargs))
        return func(*args, **kwargs)

    def _moved(self, value: Any) -> Any:
        if isinstance(value, torch.device) and value.type in DEVICE_TYPES:
            return self._device
        return self._device if isinstance(value, str) and value.partition(":")[0] in DEVICE_TYPES else value


@contextmanager
def on_device(device: torch.device) -> Iterator[None]:
    """Inside, tensors are made on a device, and go there, whatever device the code names."""
    with torch.device(device), _OnDevice(device):
        yield

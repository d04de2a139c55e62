"""Reads the nodes of a CUDA graph through NVIDIA's driver: kernels with their grids and resources, copies and fills."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

import torch

from kbench.kernels import cuda_driver
from kbench.launches.launched_call import DeviceLimits, Kernel, KernelLaunch, MemoryOperation
from kbench.text.printable import REASON_LIMIT, printable

_KERNEL, _MEMCPY, _MEMSET, _CHILD = 0, 1, 2, 4
"""The types of nodes that do something: CUgraphNodeType."""

_STATIC_SHARED, _LOCAL, _REGISTERS = 1, 3, 4
"""CUfunction_attribute."""

_LIMITS = {
    "multiprocessors": 16, "threads": 39, "shared_bytes": 81, "registers": 82, "blocks": 106, "reserved_shared_bytes": 111,
}  # fmt: skip
"""CUdevice_attribute, for the fields of DeviceLimits."""

NAME_CHARACTERS = 300
"""Of the name of a kernel. Templates have names of thousands of characters."""

CodeOf = Callable[[int, str], tuple[str, str]]
"""The code and the origin of a kernel (see `Kernel`), by the driver's handle and its name in the machine code."""


class _KernelParams(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2"""

    _fields_ = [
        ("func", c_void_p), ("grid", c_uint * 3), ("block", c_uint * 3), ("sharedMemBytes", c_uint),
        ("kernelParams", c_void_p), ("extra", c_void_p), ("kern", c_void_p), ("ctx", c_void_p),
    ]  # fmt: skip


class _CopyEnd(ctypes.Structure):
    """One end of a CUDA_MEMCPY3D."""

    _fields_ = [
        ("x", c_size_t), ("y", c_size_t), ("z", c_size_t), ("lod", c_size_t), ("type", c_int), ("host", c_void_p),
        ("device", c_uint64), ("array", c_void_p), ("reserved", c_void_p), ("pitch", c_size_t), ("height", c_size_t),
    ]  # fmt: skip


class _CopyParams(ctypes.Structure):
    """CUDA_MEMCPY3D"""

    _fields_ = [
        ("source", _CopyEnd), ("target", _CopyEnd), ("width", c_size_t), ("height", c_size_t), ("depth", c_size_t),
    ]  # fmt: skip


class _FillParams(ctypes.Structure):
    """CUDA_MEMSET_NODE_PARAMS"""

    _fields_ = [
        ("target", c_uint64), ("pitch", c_size_t), ("value", c_uint), ("elementSize", c_uint),
        ("width", c_size_t), ("height", c_size_t),
    ]  # fmt: skip


def read_graph(graph: int, code_of: CodeOf) -> Iterator[KernelLaunch | MemoryOperation]:
    """What the nodes of a graph do, given by its handle, in the order of their capture, those of graphs inside the graph
    included. Raises RuntimeError if the driver refuses."""
    count = c_size_t()
    _call("cuGraphGetNodes", c_void_p(graph), None, byref(count))
    nodes = (c_void_p * count.value)()
    _call("cuGraphGetNodes", c_void_p(graph), nodes, byref(count))
    for node in nodes:
        kind = c_int()
        _call("cuGraphNodeGetType", c_void_p(node), byref(kind))
        if kind.value == _KERNEL:
            yield _launch(node, code_of)
        elif kind.value == _MEMCPY:
            copy = _CopyParams()
            _call("cuGraphMemcpyNodeGetParams", c_void_p(node), byref(copy))
            yield MemoryOperation("memcpy", copy.width * copy.height * copy.depth)
        elif kind.value == _MEMSET:
            fill = _FillParams()
            _call("cuGraphMemsetNodeGetParams", c_void_p(node), byref(fill))
            yield MemoryOperation("memset", fill.elementSize * fill.width * fill.height)
        elif kind.value == _CHILD:
            child = c_void_p()
            _call("cuGraphChildGraphNodeGetGraph", c_void_p(node), byref(child))
            yield from read_graph(child.value or 0, code_of)


def _launch(node: Any, code_of: CodeOf) -> KernelLaunch:
    params, name, blocks = _KernelParams(), ctypes.c_char_p(), c_int()
    _call("cuGraphKernelNodeGetParams_v2", c_void_p(node), byref(params))
    function = c_void_p(params.func)
    if not params.func:  # a kernel of a library that belongs to no context yet
        _call("cuKernelGetFunction", byref(function), c_void_p(params.kern))
    _call("cuFuncGetName", byref(name), function)

    def attribute(number: int) -> int:
        value = c_int()
        _call("cuFuncGetAttribute", byref(value), c_int(number), function)
        return value.value

    x, y, z = params.block
    error = _driver().cuOccupancyMaxActiveBlocksPerMultiprocessor(
        byref(blocks), function, c_int(x * y * z), c_size_t(params.sharedMemBytes)
    )
    symbol = (name.value or b"").decode("utf-8", "replace")
    code, origin = code_of(function.value or 0, symbol)
    kernel = Kernel(
        name=printable(torch._C._demangle(symbol), NAME_CHARACTERS),
        # as the parent process reads it, or its digest would be another
        symbol=printable(symbol, REASON_LIMIT),
        registers=attribute(_REGISTERS),
        local_bytes=attribute(_LOCAL),
        static_shared_bytes=attribute(_STATIC_SHARED),
        code=code,
        origin=origin,
    )
    grid, block, blocks_per_sm = tuple(params.grid), tuple(params.block), None if error else blocks.value
    return KernelLaunch(kernel, grid, block, params.sharedMemBytes, blocks_per_sm)


def device_limits() -> DeviceLimits:
    """What a multiprocessor of the current device holds. Raises RuntimeError if the driver refuses."""
    device, value = c_int(), c_int()
    _call("cuCtxGetDevice", byref(device))
    limits = {}
    for name, attribute in _LIMITS.items():
        _call("cuDeviceGetAttribute", byref(value), c_int(attribute), device)
        limits[name] = value.value
    return DeviceLimits(**limits)


def _driver() -> ctypes.CDLL:
    driver = cuda_driver.library()
    assert driver  # on NVIDIA devices only
    return driver


def _call(name: str, *arguments: Any) -> None:
    try:
        function = getattr(_driver(), name)
    except AttributeError:
        raise RuntimeError(f"the driver has no function {name}; it needs CUDA 12.3 or newer") from None
    if error := function(*arguments):
        raise RuntimeError(f"{name} failed with CUDA error {error}")

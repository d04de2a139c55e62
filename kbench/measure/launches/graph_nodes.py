"""Reads the nodes of a CUDA graph through NVIDIA's driver: kernels with their grids and resources, copies and fills."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any

from kbench.launches.launched_call import DeviceLimits, MemoryOperation

_KERNEL, _MEMCPY, _MEMSET, _CHILD = 0, 1, 2, 4
"""The types of nodes that do something: CUgraphNodeType."""

_STATIC_SHARED, _LOCAL, _REGISTERS = 1, 3, 4
"""CUfunction_attribute."""


_LIMITS = {
    "multiprocessors": 16, "threads": 39, "shared_bytes": 81, "registers": 82, "blocks": 106, "reserved_shared_bytes": 111,
}  # fmt: skip
"""CUdevice_attribute, for the fields of DeviceLimits."""


@dataclass(frozen=True)
class KernelNode:
    """A launch in a graph.

    function       the driver's handle of the kernel
    symbol         its name in the machine code
    blocks_per_sm  how many of its blocks fit on a multiprocessor at the same time; None if the driver does not say
    """

    function: int
    symbol: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    dynamic_shared_bytes: int
    registers: int
    local_bytes: int
    static_shared_bytes: int
    blocks_per_sm: int | None


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


def read_graph(library: ctypes.CDLL, graph: int) -> Iterator[KernelNode | MemoryOperation]:
    """The nodes of a graph, given by its handle, in the order of their capture, those of graphs inside the graph included.
    `library` is libcuda. Raises RuntimeError if the driver refuses."""
    count = c_size_t()
    _call(library, "cuGraphGetNodes", c_void_p(graph), None, byref(count))
    nodes = (c_void_p * count.value)()
    _call(library, "cuGraphGetNodes", c_void_p(graph), nodes, byref(count))
    for node in nodes:
        kind = c_int()
        _call(library, "cuGraphNodeGetType", c_void_p(node), byref(kind))
        if kind.value == _KERNEL:
            yield _kernel(library, node)
        elif kind.value == _MEMCPY:
            copy = _CopyParams()
            _call(library, "cuGraphMemcpyNodeGetParams", c_void_p(node), byref(copy))
            yield MemoryOperation("memcpy", copy.width * copy.height * copy.depth)
        elif kind.value == _MEMSET:
            fill = _FillParams()
            _call(library, "cuGraphMemsetNodeGetParams", c_void_p(node), byref(fill))
            yield MemoryOperation("memset", fill.elementSize * fill.width * fill.height)
        elif kind.value == _CHILD:
            child = c_void_p()
            _call(library, "cuGraphChildGraphNodeGetGraph", c_void_p(node), byref(child))
            yield from read_graph(library, child.value or 0)


def _kernel(library: ctypes.CDLL, node: Any) -> KernelNode:
    params, name, blocks = _KernelParams(), ctypes.c_char_p(), c_int()
    _call(library, "cuGraphKernelNodeGetParams_v2", c_void_p(node), byref(params))
    function = c_void_p(params.func)
    if not params.func:  # a kernel of a library that belongs to no context yet
        _call(library, "cuKernelGetFunction", byref(function), c_void_p(params.kern))
    _call(library, "cuFuncGetName", byref(name), function)

    def attribute(number: int) -> int:
        value = c_int()
        _call(library, "cuFuncGetAttribute", byref(value), c_int(number), function)
        return value.value

    x, y, z = params.block
    error = library.cuOccupancyMaxActiveBlocksPerMultiprocessor(
        byref(blocks), function, c_int(x * y * z), c_size_t(params.sharedMemBytes)
    )
    return KernelNode(
        function=function.value or 0,
        symbol=(name.value or b"").decode("utf-8", "replace"),
        grid=tuple(params.grid),
        block=tuple(params.block),
        dynamic_shared_bytes=params.sharedMemBytes,
        registers=attribute(_REGISTERS),
        local_bytes=attribute(_LOCAL),
        static_shared_bytes=attribute(_STATIC_SHARED),
        blocks_per_sm=None if error else blocks.value,
    )


def device_limits(library: ctypes.CDLL) -> DeviceLimits:
    """What a multiprocessor of the current device holds. Raises RuntimeError if the driver refuses."""
    device, value = c_int(), c_int()
    _call(library, "cuCtxGetDevice", byref(device))
    limits = {}
    for name, attribute in _LIMITS.items():
        _call(library, "cuDeviceGetAttribute", byref(value), c_int(attribute), device)
        limits[name] = value.value
    return DeviceLimits(**limits)


def _call(library: ctypes.CDLL, name: str, *arguments: Any) -> None:
    try:
        function = getattr(library, name)
    except AttributeError:
        raise RuntimeError(f"the driver has no function {name}; it needs CUDA 12.3 or newer") from None
    if error := function(*arguments):
        raise RuntimeError(f"{name} failed with CUDA error {error}")

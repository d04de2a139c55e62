"""Captures calls in a CUDA graph. A capture that fails leaves neither its memory nor its state behind."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from packaging.version import Version

CLEANS_UP_SINCE = (2, 14)
"""Since this version, torch cleans up after a capture that fails.

Earlier versions keep the memory of such a capture until the process ends. From then on, they also release less of their other
memory: https://github.com/pytorch/pytorch/pull/190348. Versions up to 2.11 at least go on as if the capture were under way:
until another capture ends well, they draw no random numbers and replay no graph:
https://github.com/pytorch/pytorch/issues/171263."""

Pool = tuple[int, int]
"""The name by which torch knows the memory of a graph."""


class Capture:
    """A capture. Once it has ended well, `empty` says whether nothing was launched on its stream."""

    empty = False


@contextmanager
def on_stream(stream: torch.cuda.Stream) -> Iterator[None]:
    """Work on this stream, after what the current one has to do, and before what that does later."""
    present = torch.cuda.current_stream()
    stream.wait_stream(present)
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        torch.cuda.set_stream(present)  # a capture that fails does not leave its stream
    present.wait_stream(stream)


@contextmanager
def captured(graph: torch.cuda.CUDAGraph) -> Iterator[Capture]:
    """Capture in this graph what is launched on the current stream meanwhile. No other thread can end the capture.

    `torch.cuda.graph` would first collect garbage in older versions of torch, which takes a tenth of a second or more.
    """
    # garbage may hold a graph or an event of CUDA; freeing it ends the capture
    with without_garbage_collection():
        pool: Any = torch.cuda.graph_pool_handle()
        graph.capture_begin(pool=pool, capture_error_mode="thread_local")
        capture = Capture()
        try:
            yield capture
        except BaseException:
            with suppress(RuntimeError):  # it would say only that the capture has failed
                _end(graph, pool)
            raise
        capture.empty = _end(graph, pool)


def _end(graph: torch.cuda.CUDAGraph, pool: Pool) -> bool:
    """Whether nothing was launched. Raises RuntimeError if the capture has failed."""
    try:
        return _ended_empty(graph)
    except RuntimeError:
        if not torch.version.hip and Version(torch.__version__).release < CLEANS_UP_SINCE:
            if not _releases_itself(graph):
                _release(pool)
            _capture_nothing()
        raise


def _releases_itself(graph: torch.cuda.CUDAGraph) -> bool:
    """Whether the graph releases its memory: the capture ended well, but the launch cannot be prepared."""
    try:
        graph.pool()
    except RuntimeError:
        return False
    return True


def _ended_empty(graph: torch.cuda.CUDAGraph) -> bool:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        graph.capture_end()
    return any("Graph is empty" in str(warning.message) for warning in caught)


def _capture_nothing() -> None:
    """Tell torch's generator of random numbers that no capture is under way."""
    graph = torch.cuda.CUDAGraph()
    with suppress(RuntimeError):
        graph.capture_begin(capture_error_mode="thread_local")
        _ended_empty(graph)


def _release(pool: Pool) -> None:
    """What torch leaves out when a capture fails: no allocation belongs to the graph any more, and the graph does not need
    its memory. torch frees the memory once its tensors are gone."""
    device = torch.cuda.current_device()
    with suppress(RuntimeError):  # torch 2.12 has done it already
        torch._C._cuda_endAllocateToPool(device, pool)
    torch._C._cuda_releasePool(device, pool)


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Python collects no garbage meanwhile."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()

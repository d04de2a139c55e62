"""Captures calls in a CUDA graph. A capture that fails leaves no memory behind."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from packaging.version import Version

RELEASES_FAILED_CAPTURES = (2, 14)
"""Since this version, torch releases the memory of a capture that fails. Earlier versions keep it until the process ends, and
release less of their other memory from then on: https://github.com/pytorch/pytorch/pull/190348."""

Pool = tuple[int, int]
"""The name by which torch knows the memory of a graph."""


@contextmanager
def captured(graph: torch.cuda.CUDAGraph) -> Iterator[None]:
    """Capture in this graph what is launched on the current stream meanwhile. No other thread can end the capture.

    `torch.cuda.graph` would first collect garbage in older versions of torch, which takes a tenth of a second or more.
    """
    with without_garbage_collection():  # garbage may hold a graph or an event of CUDA; freeing it ends the capture
        pool: Any = torch.cuda.graph_pool_handle()
        graph.capture_begin(pool=pool, capture_error_mode="thread_local")
        try:
            yield
        except BaseException:
            with suppress(RuntimeError):  # it would say only that the capture has failed
                _end(graph, pool)
            raise
        _end(graph, pool)


def _end(graph: torch.cuda.CUDAGraph, pool: Pool) -> None:
    try:
        graph.capture_end()
    except RuntimeError:
        if not torch.version.hip and Version(torch.__version__).release < RELEASES_FAILED_CAPTURES:
            _release(pool)
        raise


def _release(pool: Pool) -> None:
    """What torch leaves out when a capture fails: no allocation belongs to the graph any more, and the graph does not need
    its memory. torch frees the memory once its tensors are gone."""
    device = torch.cuda.current_device()
    with suppress(RuntimeError, AttributeError):  # torch 2.12 has done it already, and 2.8 has another name for it
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

"""Records what a call launches, and how much memory it allocates, with two calls that nobody times.

The call is captured in a CUDA graph, which the driver can read: each kernel with its grid and resources, each copy and fill.
Nothing of the graph runs. A profiler uses CUPTI, which stays active and may change the times of later calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import torch

from kbench.launches.launched_call import DeviceLimits, KernelLaunch, LaunchedCall, MemoryOperation
from kbench.measure.launches.graph_nodes import device_limits, read_graph
from kbench.measure.launches.machine_code import MachineCode, TritonKernels
from kbench.measure.machine.capture import captured, on_stream
from kbench.measure.machine.device import Device, drop_locals
from kbench.text.exception_text import message

Prepare = Callable[[], Callable[[], Any]]
"""Prepares a call on the current stream. Returns what makes it."""


@dataclass(frozen=True)
class Recorded:
    """What is known of a call.

    launched    what it launches; None if that is not known
    peak_bytes  the memory that it holds at most, beyond what was allocated before it; None if that is not known
    fault       why `launched` is not known
    code_files  the files of this machine with the machine code of its kernels, by digest
    """

    launched: LaunchedCall | None = None
    peak_bytes: int | None = None
    fault: str = ""
    code_files: Mapping[str, str] = field(default_factory=dict)


class LaunchRecorder:
    """Records calls on a device. Make it before any plug-in, to learn of all kernels that Triton loads."""

    def __init__(self, device: Device) -> None:
        self._device, self._triton = device, TritonKernels()
        self.works = device.type == "cuda" and not torch.version.hip
        if self.works:
            self._triton.watch()

    @cached_property
    def limits(self) -> DeviceLimits:
        """What a multiprocessor of the device holds. Raises RuntimeError."""
        return device_limits()

    @cached_property
    def _stream(self) -> torch.cuda.Stream:
        return torch.cuda.Stream()

    def record(self, prepare: Prepare, packages: Sequence[str] = ()) -> Recorded:
        """Make a call once to see its memory, and capture it once. `packages` are modules that the provider needs beside torch.

        Not every call can be captured: the result says why. Raises RuntimeError if the device no longer answers.
        """
        peak = None
        try:
            peak = peak_bytes(prepare)
            graph = capture(prepare, self._stream)
        except Exception as error:  # noqa: BLE001  the provider's code may raise anything
            fault = f"the call cannot be captured in a CUDA graph: {message(error)}"
            drop_locals(error)
            if not self._device.healthy():
                raise RuntimeError(fault) from None
            self._device.release()
            return Recorded(peak_bytes=peak, fault=fault)
        try:
            machine_code = MachineCode(self._triton, packages)
            launched = launched_call(read_graph(graph.raw_cuda_graph(), cache(machine_code.of)))
            _ = self.limits  # asked for here, so that a driver that does not answer costs no row
            return Recorded(launched, peak, code_files=machine_code.files)
        except Exception as error:  # noqa: BLE001  the row is complete without its kernels, whatever goes wrong here
            return Recorded(peak_bytes=peak, fault=message(error))
        finally:
            graph.reset()


def peak_bytes(prepare: Prepare) -> int:
    """The memory in bytes that a call holds at most, beyond what torch had allocated before it."""
    call = prepare()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    returned = call()
    peak = torch.cuda.max_memory_allocated()
    del returned
    return peak - before


def capture(prepare: Prepare, stream: torch.cuda.Stream) -> torch.cuda.CUDAGraph:
    """A graph of one call, which was never run. The call is prepared on the stream of the capture, because autograd runs a
    backward pass on the stream of its forward pass."""
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with on_stream(stream):
        call = prepare()
        call()  # what happens at the first call on a stream must not happen during the capture
        torch.cuda.synchronize()
        with captured(graph):
            call()
    return graph


def launched_call(operations: Iterable[KernelLaunch | MemoryOperation]) -> LaunchedCall:
    """A call that does these. Those that are alike are counted."""
    counted = [replace(operation, times=times) for operation, times in Counter(operations).items()]
    launches = tuple(operation for operation in counted if isinstance(operation, KernelLaunch))
    return LaunchedCall(launches, tuple(operation for operation in counted if isinstance(operation, MemoryOperation)))

"""The graph timer: many calls, captured in a CUDA graph over rotated buffers, are replayed as one launch.

It is for kernels that are too short for events. There is no launch between the calls of a replay, so the time of a call is
the time of the replay divided by the number of calls. The gap between two kernels of a graph is about a microsecond.

Cold means that a call finds none of its data in the last-level cache. The calls rotate over sets of buffers whose inputs and
outputs fill the cache three times. So a buffer has been displaced from the cache when its turn comes again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from itertools import cycle, islice
from math import ceil
from typing import Any

import torch

from kbench.contract.provider import Unsupported
from kbench.measure.machine.capture import captured, on_stream
from kbench.measure.machine.device import out_of_memory
from kbench.measure.timing.timer import Before, Run, Sample, Samples, Timer
from kbench.text.exception_text import message

MIN_REPLAYS = 5

CACHE_FILLS = 3
"""How many times rotated buffers fill the last-level cache."""

ASSUMED_CACHE_BYTES = 256 * 1024**2
"""The size of the cache, if the device does not report it."""

MIN_CALLS, MAX_CALLS = 20, 2048
"""The fewest calls in a CUDA graph, which share the cost of launching it, and the most. Tiny cases may not fill the cache."""

AFFORDABLE_BYTES = 2**30
"""If the buffers of MIN_CALLS calls take at most this many bytes, every call has buffers of its own. A provider could otherwise
compute one of the calls on the same buffers, and return copies for the others."""

NOTHING_LAUNCHED = (
    "launches nothing on torch's current stream, so a CUDA graph of it is empty; if it launches kernels, launch them on the "
    "stream that torch.cuda.current_stream() or at::cuda::getCurrentCUDAStream() returns"
)

SPIN_MS = 0.2
"""The device is kept busy this long before a timed replay, so that the replay is queued in time."""


class GraphTimer(Timer):
    """Times contenders by replaying graphs, for a cold cache over rotated buffers."""

    name = "graph"

    def sets(self, call_bytes: int) -> int:
        """See Timer."""
        if self.cache == "warm":
            return 1
        least = MIN_CALLS if MIN_CALLS * call_bytes <= AFFORDABLE_BYTES else 2
        return min(max(least, ceil(self._fill_bytes / max(call_bytes, 1)) + 1), MAX_CALLS)

    @property
    def _fill_bytes(self) -> int:
        """The bytes of rotated buffers together, so that no call finds its own in the cache."""
        return CACHE_FILLS * (self.device.cache_bytes or ASSUMED_CACHE_BYTES)

    def cold(self, call_bytes: int) -> bool:
        """See Timer. False if MAX_CALLS calls do not fill the cache."""
        return self.cache == "cold" and self.sets(call_bytes) * call_bytes >= self._fill_bytes

    def preparing(self) -> AbstractContextManager[object]:
        """See Timer. Autograd runs a backward pass on the stream of its forward pass."""
        return on_stream(self._stream) if self.device.type == "cuda" else nullcontext()

    @cached_property
    def _stream(self) -> torch.cuda.Stream:
        return torch.cuda.Stream()

    def ready(self, runs: Sequence[Run], launch_ms: float | None, before: Before = None) -> Sample:
        """See Timer. Captures the calls in turn; raises Unsupported for a call that cannot be captured."""
        if self.device.type != "cuda":
            raise Unsupported(
                f"`timer: graph` needs a CUDA or ROCm device, and this machine has {self.device.type}; use `timer: do_bench`"
            )
        calls = max(len(runs), MIN_CALLS)
        graph = self._captured(runs, calls)

        def sample(warmup_ms: float, rep_ms: float) -> Samples:
            replay_ms = self._replay(graph, before)()
            for _ in range(int(warmup_ms / replay_ms)):
                if before:
                    before()
                graph.replay()
            replays = [self._replay(graph, before) for _ in range(max(MIN_REPLAYS, int(rep_ms / replay_ms)))]
            return Samples([elapsed_ms() / calls for elapsed_ms in replays])

        return sample

    def _replay(self, graph: torch.cuda.CUDAGraph, before: Before) -> Callable[[], float]:
        """Queue a replay. The host does not wait for its end: it prepares the next one meanwhile. The function that is returned
        waits, and says how long the replay took, in ms."""
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        if before:
            before()
        if self.cache == "cold":
            self.device.drop_kept_lines()
        if self.device.spin:
            self.device.spin(SPIN_MS)
        start.record()
        graph.replay()
        end.record()

        def ms() -> float:
            end.synchronize()
            elapsed_ms: float = start.elapsed_time(end)
            return max(elapsed_ms, 1e-6)

        return ms

    def _captured(self, runs: Sequence[Run], calls: int) -> torch.cuda.CUDAGraph:
        """A graph of `calls` calls that rotate over the buffers, as outputs do."""
        with on_stream(self._stream):
            for _ in range(3):  # lazy initialisation must not happen during the capture
                runs[0]()
        torch.cuda.synchronize()
        # torch can return no memory to the driver during a capture, which may need it
        self.device.release()
        graph = torch.cuda.CUDAGraph()
        try:
            with on_stream(self._stream), captured(graph) as capture:
                outputs: deque[Any] = deque(maxlen=len(runs))
                for run in islice(cycle(runs), calls):
                    outputs.append(run())
        except Unsupported:
            raise
        except Exception as error:  # whatever the provider does that a capture forbids
            if out_of_memory(error):
                raise
            raise Unsupported(f"cannot be captured in a CUDA graph: {message(error)}") from None
        if capture.empty:
            raise Unsupported(NOTHING_LAUNCHED)
        return graph

"""The graph timer: many calls, captured in a CUDA graph over rotated buffers, are replayed as one launch.

It is for kernels that are too short for events. There is no launch between the calls of a replay, so the time of a call is
the time of the replay divided by the number of calls. The gap between two kernels of a graph is about a microsecond.

Cold means that a call finds none of its data in the last-level cache. The calls rotate over sets of buffers whose inputs and
outputs fill the cache three times. So a buffer has been displaced from the cache when its turn comes again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import cycle, islice
from typing import Any

import torch

from kbench.contract.memory import MIN_CALLS, fill_bytes, rotated_sets
from kbench.contract.provider import Unsupported
from kbench.measure.machine.device import Device, capture_alone, out_of_memory
from kbench.measure.timing.timer import Sample

MIN_REPLAYS = 5

SPIN_MS = 0.2
"""The device is kept busy this long before a timed replay, so that the replay is queued in time."""


@dataclass(frozen=True)
class GraphTimer:
    """Times contenders by replaying graphs. `cache` is `cold` (rotated buffers) or `warm` (always the same buffers)."""

    device: Device
    cache: str

    name = "graph"
    replays = True
    prefill_ms = 0.0  # a replay is one launch, which is not part of a call

    def sets(self, call_bytes: int) -> int:
        """See Timer."""
        if self.cache == "warm":
            return 1
        return rotated_sets(call_bytes, self.device.cache_bytes)

    def cold(self, call_bytes: int) -> bool:
        """See Timer. False if MAX_CALLS calls do not fill the cache."""
        return self.cache == "cold" and self.sets(call_bytes) * call_bytes >= fill_bytes(self.device.cache_bytes)

    def calls(self, samples: int, sets: int) -> int:
        """See Timer. The first replay tells how many are needed."""
        return (samples + 1) * max(sets, MIN_CALLS)

    @contextmanager
    def staging(self) -> Iterator[None]:
        """See Timer. Calls are prepared on the stream of the capture, because autograd runs a backward pass on the stream of
        its forward pass."""
        if self.device.type != "cuda":
            yield
            return
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            yield
        torch.cuda.current_stream().wait_stream(self._stream)

    @cached_property
    def _stream(self) -> torch.cuda.Stream:
        return torch.cuda.Stream()

    def ready(
        self, runs: Sequence[Callable[[], Any]], launch_ms: float | None, before: Callable[[], None] | None = None
    ) -> Sample:
        """See Timer. Captures the calls in turn; raises Unsupported for a call that cannot be captured."""
        if self.device.type != "cuda":
            raise Unsupported(
                f"`timer: graph` needs a CUDA or ROCm device, and this machine has {self.device.type}; use `timer: do_bench`"
            )
        calls = max(len(runs), MIN_CALLS)
        graph = _capture(runs, calls, self._stream)
        return partial(self._samples, graph, calls, before)

    def empty(self) -> Sample:
        """Empty kernels, one after another. The gap between two kernels is all that this timer adds to a call."""
        return self.ready([self.device.empty_call], None)

    def _samples(
        self,
        graph: torch.cuda.CUDAGraph,
        calls: int,
        before: Callable[[], None] | None,
        warmup_ms: float,
        rep_ms: float,
    ) -> list[float]:
        first = self._replay_ms(graph, before)
        for _ in range(int(warmup_ms / first)):
            if before:
                before()
            graph.replay()
        replays = max(MIN_REPLAYS, int(rep_ms / first))
        return [self._replay_ms(graph, before) / calls for _ in range(replays)]

    def _replay_ms(self, graph: torch.cuda.CUDAGraph, before: Callable[[], None] | None) -> float:
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        if before:
            before()
        if self.cache == "cold":
            self.device.drop_kept_lines()
        if self.device.spin:
            self.device.spin(SPIN_MS)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        elapsed_ms: float = start.elapsed_time(end)
        return max(elapsed_ms, 1e-6)


def _capture(runs: Sequence[Callable[[], Any]], calls: int, stream: torch.cuda.Stream) -> torch.cuda.CUDAGraph:
    """A graph of `calls` calls that rotate over the buffers. An output lives until the turn of its buffers comes again, so
    outputs rotate as inputs do."""
    present = torch.cuda.current_stream()
    stream.wait_stream(present)
    with torch.cuda.stream(stream):
        for _ in range(3):  # lazy initialisation must not happen during the capture
            runs[0]()
    present.wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with capture_alone(), torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            outputs: deque[Any] = deque(maxlen=len(runs))
            for run in islice(cycle(runs), calls):
                outputs.append(run())
    except Unsupported:
        raise
    except Exception as error:  # whatever the provider does that a capture forbids
        if out_of_memory(error):
            raise
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise Unsupported(f"cannot be captured in a CUDA graph: {lines[0][:200]}") from None
    finally:
        torch.cuda.set_stream(present)  # a capture that fails does not leave its stream
    return graph

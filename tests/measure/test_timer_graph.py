"""The graph timer where no graph can be made, and cases with many sets of buffers. On a device: its times beside those of
events."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from in_process import case_run, measured
from torch import Tensor

import kbench
from kbench.contract.operator import Operator
from kbench.contract.provider import Unsupported
from kbench.contract.tensor import Tensor as Declared
from kbench.measure.case import CaseInputs
from kbench.measure.contender import Contender
from kbench.measure.correctness.inputs import SharedInputs
from kbench.measure.timing.graph import GraphTimer
from kbench.measure.timing.timer import Run, Sample, Samples

SETS = 50


@pytest.fixture
def said() -> list[str]:
    """What the stand-in for a device was told, in order."""
    return []


@pytest.fixture
def timer(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> GraphTimer:
    """On a stand-in for a device, which captures nothing and takes 1 ms for a replay."""
    stream = SimpleNamespace(wait_stream=lambda other: None)

    class Graph:
        def capture_begin(self, pool: tuple[int, int], capture_error_mode: str) -> None:
            said.append(f"begin {capture_error_mode}")

        def capture_end(self) -> None:
            said.append("end")

        def replay(self) -> None:
            said.append("replay")

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            self.elapsed_time = lambda end: 1.0

        def record(self) -> None: ...

        def synchronize(self) -> None:
            said.append("wait")

    for name in ("Stream", "current_stream"):
        monkeypatch.setattr(torch.cuda, name, lambda: stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda of: nullcontext())
    monkeypatch.setattr(torch.cuda, "set_stream", lambda stream: None)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 1))
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    device = SimpleNamespace(type="cuda", release=lambda: said.append("release"), spin=None)
    return GraphTimer(device, "warm")  # type: ignore[arg-type]


def after_three_calls(error: Exception) -> Callable[[], None]:
    """A function that fails when it is captured, after the calls that come before that."""
    calls = [0]

    def call() -> None:
        calls[0] += 1
        if calls[0] > 3:
            raise error

    return call


def test_memory_that_runs_out_in_a_capture_is_no_refusal(timer: GraphTimer) -> None:
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate"):
        timer.ready([after_three_calls(torch.OutOfMemoryError("Tried to allocate 20.00 GiB"))], None)


def test_what_a_capture_forbids_is_declined(timer: GraphTimer) -> None:
    with pytest.raises(Unsupported, match="cannot be captured in a CUDA graph: operation not permitted"):
        timer.ready([after_three_calls(RuntimeError("operation not permitted\nmore"))], None)


def test_a_call_that_launches_nothing_is_declined(timer: GraphTimer, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(graph: object) -> None:
        warnings.warn("The CUDA Graph is empty. This usually means that ...", stacklevel=1)

    monkeypatch.setattr(torch.cuda.CUDAGraph, "capture_end", end)
    with pytest.raises(Unsupported, match="launches nothing on torch's current stream, so a CUDA graph of it is empty"):
        timer.ready([lambda: None], None)


def test_python_collects_no_garbage_during_a_capture(timer: GraphTimer) -> None:
    collects: list[bool] = []
    timer.ready([lambda: collects.append(gc.isenabled())], None)
    assert collects[:3] == [True] * 3, "the calls ahead of the capture"
    assert set(collects[3:]) == {False}
    with pytest.raises(Unsupported):
        timer.ready([after_three_calls(RuntimeError("operation not permitted"))], None)
    assert gc.isenabled()


def test_the_host_prepares_a_replay_while_the_one_before_runs(timer: GraphTimer, said: list[str]) -> None:
    sample = timer.ready([lambda: None], None, lambda: said.append("inputs"))
    said.clear()
    assert sample(0.0, 6.0).ms == [1.0 / 20] * 6
    assert said == ["inputs", "replay", "wait"] + ["inputs", "replay"] * 6 + ["wait"] * 6


class Rotating:
    """Times nothing, and rotates over SETS sets of buffers."""

    name, replays, prefill_ms = "graph", True, 0.0

    def __init__(self) -> None:
        self.runs: list[int] = []

    def sets(self, call_bytes: int) -> int:
        return SETS

    def cold(self, call_bytes: int) -> bool:
        return True

    def calls(self, samples: int, sets: int) -> int:
        return samples * sets

    def staging(self) -> nullcontext[None]:
        return nullcontext()

    def ready(self, runs: Sequence[Run], launch_ms: float | None, before: Callable[[], None] | None = None) -> Sample:
        self.runs.append(len(runs))

        def sample(warmup_ms: float, rep_ms: float) -> Samples:
            if before:
                before()
            for run in runs:
                run()
            return Samples([1.0])

        return sample

    def empty(self) -> Sample:
        return self.ready([lambda: None], None)


def test_only_the_first_set_of_the_inputs_is_written_after_the_last_round(monkeypatch: pytest.MonkeyPatch) -> None:
    run = case_run(kbench.operator("softmax"), ["torch-native", "torch-eager"], M=4, N=8)
    run.timer = timer = Rotating()
    timed: list[Tensor] = []
    check, time_rounds = run.check_again, run.time_rounds

    def remember(contenders: Sequence[Contender], shared: SharedInputs) -> None:
        timed.extend(tensors[0] for tensors in shared.sets)
        time_rounds(contenders, shared)

    def spoil(contender: Contender, inputs: CaseInputs) -> None:
        if contender is run.contenders[0]:
            for x in timed:
                x.fill_(7)
        check(contender, inputs)

    monkeypatch.setattr(run, "time_rounds", remember)
    monkeypatch.setattr(run, "check_again", spoil)
    assert [row.status for row in run.run()] == ["ok"] * 5
    assert sorted(timer.runs) == [1, SETS, SETS, SETS, SETS] and len(timed) == SETS
    assert all((x == 7).all() for x in timed[1:]), "the checks use the first set"


def test_every_call_of_a_graph_has_buffers_of_its_own_if_memory_allows() -> None:
    device = SimpleNamespace(type="cuda", cache_bytes=50 * 2**20)
    cold = GraphTimer(device, "cold")  # type: ignore[arg-type]
    assert [cold.sets(mb * 2**20) for mb in (1, 10, 50, 100, 1000)] == [151, 20, 20, 3, 2]
    assert GraphTimer(device, "warm").sets(2**20) == 1  # type: ignore[arg-type]


@pytest.mark.gpu
def test_on_a_device_it_agrees_with_events_and_refuses_a_call_that_waits() -> None:
    twice = Operator(
        "graph-waits",
        axes=("M", "N"),
        inputs={"x": Declared("M", "N")},
        outputs={"y": Declared("M", "N")},
        reference=lambda x: x * 2,
    )
    twice.provider("honest")(lambda x: x * 2)
    twice.provider("waits")(lambda x: x * 2 if x.sum().item() < 1e30 else x.clone())
    events, graph = (
        measured(twice, timer=timer, cache="cold", rounds=3, rep_ms=20, dtype="float32", M=8192, N=8192)
        for timer in ("do_bench", "graph")
    )
    assert graph["waits"].status == "unsupported"
    assert "cannot be captured in a CUDA graph" in graph["waits"].reason
    assert events["waits"].ms and events["honest"].ms and graph["honest"].ms
    assert events["honest"].ms * 0.8 < graph["honest"].ms < events["honest"].ms * 1.05

"""What a case does with the recorded kernels of its providers. The recorder needs a device, so a stand-in records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from in_process import case_run, matrices
from torch import Tensor

from kbench import Operator
from kbench.launches.launched_call import DeviceLimits, Kernel, KernelLaunch, LaunchedCall
from kbench.measure.launches.recorder import LaunchRecorder, Recorded
from kbench.measure.machine.device import Device
from kbench.protocol import CallRecorded
from kbench.results.row import Row

CALL = LaunchedCall((KernelLaunch(Kernel("k", "k", 32, 0, 0, "c0de", "test"), (1, 1, 1), (32, 1, 1), 0, 4, 2),))


LIMITS = DeviceLimits(132, 2048, 65536, 233472, 32, 1024)


class Stand(LaunchRecorder):
    """Records what it is told to, after it has made the call."""

    def __init__(self, found: Recorded | Exception) -> None:
        super().__init__(Device())
        self.limits = LIMITS
        self.works, self.found, self.seen = True, found, list[Any]()

    def record(self, prepare: Callable[[], Any], packages: Sequence[str] = ()) -> Recorded:
        run = prepare()
        self.seen.append(run.args[0].clone())
        run()
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


@pytest.fixture
def double(no_operators: None) -> Operator:
    operator = matrices("double", lambda x: x * 2)

    @operator.provider("in-place", mutates={"x": "y"})
    def in_place(x: Tensor) -> None:
        x.mul_(2)

    @operator.provider("plain")
    def plain(x: Tensor) -> Tensor:
        return x * 2

    return operator


def rows(operator: Operator, recorder: LaunchRecorder, *, kernels: bool = True) -> tuple[dict[str, Row], list[Any]]:
    """The rows by provider, and the messages of the worker."""
    sent: list[Any] = []
    run = case_run(operator, M=4, N=8)
    run.settings = run.settings.model_copy(update={"kernels": kernels})
    run.steps.emit = sent.append
    run.recorder = recorder if kernels else None
    return {row.provider: row for row in run.run()}, sent


def test_rows_have_what_was_recorded_and_controls_do_not(double: Operator) -> None:
    recorder = Stand(Recorded(CALL, peak_bytes=4096))
    found, sent = rows(double, recorder)
    for name in ("plain", "in-place"):
        assert (found[name].kernels, found[name].code, found[name].peak_bytes) == (2, CALL.code, 4096)
        assert found[name].status.value == "ok" and not found[name].reason
    assert found["copy"].kernels is None and found["repeat"].code == ""
    assert [each for each in sent if isinstance(each, CallRecorded)] == [CallRecorded(CALL, LIMITS)] * 2
    first, second = recorder.seen
    assert first.equal(second), "each is recorded on the inputs as they were at first, not on what another has left"


def test_a_call_that_cannot_be_recorded_keeps_its_time_and_says_why(double: Operator) -> None:
    found, sent = rows(double, Stand(Recorded(peak_bytes=7, fault="the call cannot be captured")))
    row = found["plain"]
    assert row.status.value == "ok" and row.ms and row.kernels is None and row.code == "" and row.peak_bytes == 7
    assert row.reason == "its kernels are not known: the call cannot be captured"
    assert not any(isinstance(each, CallRecorded) for each in sent)

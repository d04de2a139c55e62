"""What other processes did to the host while a case was measured."""

from __future__ import annotations

from types import SimpleNamespace

import psutil
import pytest

from kbench.measure.machine import other_load


class Host:
    """A host with four cores, of which this process may use two, with a clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.busy, self.own = [1.0, 1.0, 1.0, 1.0], 1.0

    def tick(self, seconds: float, *, busy_s: float, own_s: float, elsewhere_s: float = 0.0) -> None:
        """Time passes: the cores of this process were busy for so long, of which it used a part itself."""
        self.now, self.own = self.now + seconds, self.own + own_s
        self.busy[0] += busy_s
        self.busy[3] += elsewhere_s

    def cpu_times(self, percpu: bool) -> list[SimpleNamespace]:
        other = dict.fromkeys(other_load.BUSY, 0.0)
        return [SimpleNamespace(**other | {"system": seconds}, idle=77.0) for seconds in self.busy]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    made = Host()
    monkeypatch.setattr(psutil, "cpu_times", made.cpu_times)
    monkeypatch.setattr(psutil.Process, "cpu_affinity", lambda process: [0, 1])
    monkeypatch.setattr(other_load, "_own_s", lambda: made.own)
    monkeypatch.setattr(other_load.time, "monotonic", lambda: made.now)
    return made


def test_what_others_use_is_what_is_left(host: Host) -> None:
    meter = other_load.OtherLoad()
    host.tick(2, busy_s=3, own_s=1, elsewhere_s=9)
    assert meter.cores() == 1.0


def test_nothing_is_said_where_nothing_is_counted(host: Host) -> None:
    meter = other_load.OtherLoad()
    host.tick(2, busy_s=0, own_s=1)
    assert meter.cores() is None
    host.tick(0.01, busy_s=1, own_s=1)
    assert other_load.OtherLoad().cores() is None, "too short to tell"


def test_the_time_of_ended_children_is_that_of_this_process() -> None:
    before = other_load._own_s()
    psutil.Popen(["sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"]).wait(60)
    assert other_load._own_s() - before >= 0.05

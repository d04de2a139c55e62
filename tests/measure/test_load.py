"""What other processes did to the host while a case was measured."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest

from kbench.measure.machine import other_load
from kbench.results.reader import read_results

ROOT = Path(__file__).parents[2]
TICK = os.sysconf("SC_CLK_TCK")


class Host:
    """A /proc of our own, with a clock."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now = folder, 0.0
        self.busy: dict[int, int] = dict.fromkeys(os.sched_getaffinity(0), 0)

    def tick(self, seconds: float, *, busy_s: float, own_s: float, elsewhere_s: float = 0.0) -> None:
        """Time passes: the cores were busy for so long altogether, of which this process used a part."""
        self.now += seconds
        core = min(self.busy)
        self.busy[core] += round(busy_s * TICK)
        lines = ["cpu  0 0 0 0 0 0 0 0 0 0"]
        lines += [f"cpu{n} {ticks} 0 0 77 5 0 0 0 0 0" for n, ticks in self.busy.items()]
        lines += [f"cpu{max(self.busy) + 1} {round(elsewhere_s * TICK)} 0 0 0 0 0 0 0 0 0", "intr 12"]
        (self.folder / "stat").write_text("\n".join(lines))
        self.process(os.getpid(), own_s)

    def process(self, pid: int, seconds: float, session: int | None = None) -> None:
        (self.folder / str(pid)).mkdir(exist_ok=True)
        session = os.getsid(0) if session is None else session
        fields = ["R", "1", "1", str(session), *["0"] * 7, str(round(seconds * TICK)), "0", "0", "0"]
        (self.folder / str(pid) / "stat").write_text(f"{pid} (a b) c) " + " ".join(fields))


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    made = Host(tmp_path)
    monkeypatch.setattr(other_load, "PROC", tmp_path)
    monkeypatch.setattr("kbench.measure.machine.other_load.time.monotonic", lambda: made.now)
    made.tick(0, busy_s=1, own_s=1)
    return made


def test_what_others_use_is_what_is_left(host: Host) -> None:
    meter = other_load.OtherLoad()
    host.tick(2, busy_s=3, own_s=2)
    assert meter.cores() == pytest.approx(1.0, abs=0.01)


def test_own_children_and_cores_one_may_not_use_do_not_count(host: Host) -> None:
    meter = other_load.OtherLoad()
    host.process(999_999_991, 0.5)
    host.process(999_999_992, 7, session=-5)  # of another session
    host.tick(2, busy_s=2, own_s=2.5, elsewhere_s=9)
    assert meter.cores() == 0


def test_nothing_is_said_where_nothing_is_counted(host: Host) -> None:
    meter = other_load.OtherLoad()
    host.tick(2, busy_s=0, own_s=1)
    assert meter.cores() is None
    meter = other_load.OtherLoad()
    host.tick(0.01, busy_s=1, own_s=1)
    assert meter.cores() is None, "too short to tell"


@pytest.mark.parametrize("text", ["", "cpu0 x y", "cpu0 1", "\0"])
def test_a_strange_file_is_no_error(host: Host, text: str) -> None:
    (host.folder / "stat").write_text(text)
    meter = other_load.OtherLoad()
    host.now += 5
    assert meter.cores() is None


def test_files_from_before_the_column_are_read(tmp_path: Path) -> None:
    rows = pd.read_csv(ROOT / "results" / "h200" / "softmax-ladder.csv", dtype=str)
    rows.drop(columns="other_cores").to_csv(tmp_path / "older.csv", index=False)
    assert {row.other_cores for row in read_results(tmp_path / "older.csv").rows} == {None}

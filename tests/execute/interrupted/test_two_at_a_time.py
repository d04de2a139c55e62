"""Two runs on a device: one measures, the other waits or leaves."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pandas as pd
import pytest
from common import Kbench
from ended_runs import FAKE, ON_LINUX, SWEEP, marked, new_folder, run
from fake_executor import FakeMachine

pytestmark = ON_LINUX


@pytest.mark.slow
def test_the_second_run_on_a_device_waits_or_leaves(tmp_path: Path) -> None:
    folder = new_folder(tmp_path, "run", SWEEP)
    other = folder / "other"
    one_case = ("--out", str(other), "--set", "N=64", "--sessions", "1")
    with run(folder, program=FAKE, case_s=600) as first:
        marked(first, folder / "measuring")
        with run(folder, *one_case, "--no-wait", program=FAKE) as second:
            assert second.wait() == 3
        assert f"is in use by process {first.process.pid} since 20" in second.stderr
        assert "(kbench run sweep.yaml --no-plot)" in second.stderr
        assert not (other / "sweep.csv").exists()
        with run(folder, *one_case, "--only", "torch-native", program=FAKE) as second:
            assert second.says(f"in use by process {first.process.pid}")
            assert not (other / "sweep.csv").exists()
            first.process.kill()  # a dead holder does not block
            assert second.wait() == 0, second.stderr
    assert list(pd.read_csv(other / "sweep.csv").provider) == ["torch-native", "copy", "empty", "repeat"]


def test_what_measures_nothing_takes_no_lock(
    kbench: Kbench, fake_machine: FakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = tmp_path / "locks"
    locks.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(locks))
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    assert kbench("run", "sweep.yaml", "--dry-run", "--no-wait").returncode == 0
    assert not list(locks.iterdir())
    assert kbench("run", "sweep.yaml", "--no-plot").returncode == 0
    assert not list(locks.iterdir()), "the lock goes with the run"

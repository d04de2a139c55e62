"""Workers that are killed from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from pathlib import Path

import pandas as pd
import pytest
from common import Kbench
from ended_runs import HANG, HANGS, ON_LINUX

pytestmark = ON_LINUX


@pytest.fixture
def hangs(kbench: Kbench, tmp_path: Path) -> Kbench:
    """Run a sweep while another thread kills each worker that hangs, up to `times` workers. Returns the program's output."""

    def run(provider: str, times: int) -> subprocess.CompletedProcess[str]:
        (tmp_path / "sweep.yaml").write_text(HANG.replace("[torch-native, hangs]", f"[torch-native, {provider}]"))
        (tmp_path / "hangs.py").write_text(HANGS)
        marker, ended = tmp_path / "hanging", threading.Event()

        def kill() -> None:
            killed = ""
            for _ in range(times):
                while not marker.exists() or (found := marker.read_text()) in ("", killed):
                    if ended.wait(0.01):
                        return
                os.kill(int(found), signal.SIGKILL)
                killed = found

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            return kbench("run", "sweep.yaml", "--no-plot")
        finally:
            ended.set()
            killer.join()

    return run


@pytest.mark.slow
def test_a_worker_that_is_killed_from_outside_costs_nobody_a_row(hangs: Kbench, tmp_path: Path) -> None:
    done = hangs("hangs-once", 1)
    assert done.returncode == 0, done.stderr
    assert "the worker was killed by SIGKILL while building" in done.stderr and "trying once more" in done.stderr
    rows = pd.read_csv(tmp_path / "results" / "sweep.csv")
    assert list(rows.provider) == ["torch-native", "hangs-once", "copy", "empty", "repeat"]
    assert (rows.status == "ok").all()


@pytest.mark.slow
def test_a_provider_that_gets_its_worker_killed_twice_is_blamed(hangs: Kbench, tmp_path: Path) -> None:
    done = hangs("hangs", 2)
    assert done.returncode == 1, done.stderr
    assert "trying once more" in done.stderr
    rows = pd.read_csv(tmp_path / "results" / "sweep.csv").set_index("provider")
    assert rows.loc["torch-native"].status == "ok"
    assert rows.loc["hangs"].status == "crashed" and "SIGKILL" in rows.loc["hangs"].reason

"""A signal ends a run, its worker and what that has started, and the run says how to go on."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from ended_runs import FAKE, ON_LINUX, SWEEP, ended, hanging, left_in, marked, new_folder, run

pytestmark = ON_LINUX


@pytest.mark.slow
def test_a_signal_during_worker_startup_ends_the_run(tmp_path: Path) -> None:
    folder = new_folder(tmp_path, "run", SWEEP)
    with run(folder) as started:
        while started.worker() is None:
            time.sleep(0.01)
        time.sleep(0.3)
        assert ended(started, "TERM") == 130, started.stderr
    assert "Traceback" not in started.stderr and "interrupted" in started.stderr
    assert left_in(folder) == [] and not (folder / "results" / "sweep.csv").exists()


@pytest.mark.slow
def test_a_signal_while_judge_checks_ends_it_its_worker_and_what_that_has_started(tmp_path: Path) -> None:
    folder = new_folder(tmp_path, "judge", SWEEP)
    with run(folder, command=("judge", "hangs.py", "--against", "sweep.yaml", "--provider", "hangs")) as started:
        hanging(started, folder)
        assert ended(started, "INT", times=3) == 130, started.stderr
    assert "Traceback" not in started.stderr
    assert left_in(folder) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["HUP", "QUIT"])
def test_a_signal_ends_the_run_and_it_says_how_to_go_on(tmp_path: Path, name: str) -> None:
    folder = new_folder(tmp_path, "run", SWEEP)
    with run(folder, "--only", "torch-native,cuda", program=FAKE, case_s=600) as started:
        marked(started, folder / "measuring")
        assert ended(started, name) == 130, started.stderr
    assert "continue with: kbench run sweep.yaml --no-plot --only torch-native,cuda --resume" in started.stderr
    assert "Traceback" not in started.stderr
    environment = json.loads((folder / "results" / "sweep.env.json").read_text())
    assert environment["interrupted"] is True and environment["finished_at"]

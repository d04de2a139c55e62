"""`kbench bisect`: what it leaves alone, and what it leaves behind if it is ended from outside."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from bisections import ROW, bisect, found, history, step
from common import run_kbench
from planted_repository import CONFIG, Machine, git, hanging, has_ended, state

HANGING_BISECT = ("bisect", "--good", "c0", "--bad", "c8", CONFIG, "--row", ROW)


@pytest.mark.slow
def test_uncommitted_work_and_a_bisect_of_the_user_stay(tmp_path: Path, temporary: Path, machine: Machine) -> None:
    repository = history(tmp_path / "r", step(0.1, 2, 4))
    git(repository, "bisect", "start", "c4", "c0")
    (repository / "cost").write_text("9.0")
    git(repository, "add", "cost")
    (repository / "cost").write_text("8.0")
    (repository / "new file").write_text("untracked")
    assert found(bisect(repository, last=4)) == "c2"
    assert "git bisect start" in git(repository, "bisect", "log")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "sessions"), [("SIGINT", 0), ("SIGTERM", 9), ("SIGHUP", 16)])
def test_a_signal_leaves_nothing(tmp_path: Path, temporary: Path, name: str, sessions: int) -> None:
    """In the first session, in the first step, and in a later one."""
    repository = history(tmp_path / "r", step(0.1, 5, 8))
    before = state(repository)
    process = hanging(repository, tmp_path / "mark", *HANGING_BISECT, sessions=sessions)
    assert state(repository) != before
    process.send_signal(getattr(signal, name))
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 130 and "Traceback" not in errors, errors
    assert "interrupted; the results of the steps that had ended, if any, are in results/bisect" in errors
    assert state(repository) == before
    assert has_ended(int((tmp_path / "mark").read_text()))


@pytest.mark.slow
def test_the_next_one_removes_what_sigkill_left(tmp_path: Path, temporary: Path, machine: Machine) -> None:
    repository = history(tmp_path / "r", step(0.1, 5, 8))
    before = state(repository)
    killed = hanging(repository, tmp_path / "mark", *HANGING_BISECT, sessions=16)
    killed.kill()
    killed.communicate()
    assert state(repository) != before
    done = run_kbench(["ab", "c0", "c1", CONFIG], repository)
    assert done.stderr.count("removed what a killed kbench left behind") == 1
    assert state(repository) == before
    assert has_ended(int((tmp_path / "mark").read_text())), "the child outlives its parent"

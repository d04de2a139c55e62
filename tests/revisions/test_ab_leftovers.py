"""`kbench ab`, ended from outside or beside another: what it leaves, removes, and lets be."""

from __future__ import annotations

import shutil
import signal
import threading
from pathlib import Path

import pytest
from ab_command import AB, ab
from common import run_kbench
from planted_repository import CONFIG, Machine, git, hanging, has_ended, state

from kbench.comparison.options import CompareOptions
from kbench.revisions.measure import RevisionOptions, measure_revisions
from kbench.revisions.session import alone_in


def test_two_at_once_do_not_share_a_folder(repository: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one waits. Otherwise each would compare results of the other one."""
    monkeypatch.chdir(repository)
    out = Path("results/shared")
    lines: list[str] = []
    has_it, waits = threading.Event(), threading.Event()

    def note(line: str) -> None:
        lines.append(line)
        if "is in use by" in line:
            assert not machine.sides
            waits.set()

    def other() -> None:
        with alone_in(out, note):
            has_it.set()
            waits.wait(30)

    thread = threading.Thread(target=other)
    thread.start()
    assert has_it.wait(30)
    measure_revisions(RevisionOptions("old", None, Path(CONFIG), out=out), CompareOptions(), note)
    thread.join()
    [line] = [line for line in lines if "is in use by" in line]
    assert line.startswith("results/shared is in use by ")
    assert "waiting for it to end" in line
    assert machine.sides


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_leaves_nothing(repository: Path, tmp_path: Path, name: str) -> None:
    before = state(repository)
    process = hanging(repository, tmp_path / "mark", *AB)
    assert state(repository) != before
    process.send_signal(getattr(signal, name))
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 130 and "Traceback" not in errors, errors
    assert "interrupted; the sessions that had ended, if any, are in results/ab" in errors
    assert state(repository) == before
    assert has_ended(int((tmp_path / "mark").read_text()))


@pytest.mark.slow
def test_the_next_one_removes_what_sigkill_left_but_nothing_that_is_in_use(
    repository: Path, machine: Machine, tmp_path: Path
) -> None:
    before = state(repository)
    killed = hanging(repository, tmp_path / "mark", *AB)
    living = hanging(repository, tmp_path / "other mark", *AB, "--out", "results/living")
    killed.kill()
    killed.communicate()
    assert has_ended(int((tmp_path / "mark").read_text())), "the child outlives its parent"
    done = run_kbench(["ab", "old", CONFIG], repository)
    assert done.stderr.count("removed what a killed kbench left behind") == 1
    assert git(repository, "worktree", "list").count("kbench-revisions-") == 2  # those of the living one
    living.terminate()
    living.communicate(timeout=60)
    assert state(repository) == before


@pytest.mark.slow
def test_a_worktree_of_the_user_stays_also_if_its_folder_is_gone(
    repository: Path, machine: Machine, tmp_path: Path
) -> None:
    git(repository, "worktree", "add", "-q", "--detach", str(tmp_path / "elsewhere"))
    shutil.rmtree(tmp_path / "elsewhere")  # such as a drive that is not mounted
    ab(repository, "old", CONFIG)
    assert "elsewhere" in git(repository, "worktree", "list")

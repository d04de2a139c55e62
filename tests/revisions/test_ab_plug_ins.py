"""`kbench ab`: plug-ins of each revision, and files that change during the measurement."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from ab_command import ab
from common import run_kbench
from planted_repository import CONFIG, Machine, commit, git

from kbench.execute.existing_results import refusal_error
from kbench.revisions import session
from kbench.revisions.child import Ended


def test_edits_during_the_measurement_are_said(
    repository: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The working tree is measured where it is. Its later sessions would measure other code than the first."""
    (repository / "my.log").write_text("")

    def run(command: Sequence[str], folder: Path, *rest: Any, **more: Any) -> Ended:
        ended = machine.run(command, folder, *rest, **more)
        (repository / "my.log").write_text("x" * len(machine.sides))  # of another program, and untracked
        if len(machine.sides) == 2:
            (repository / "cost").write_text("1.3")
        if len(machine.sides) == 4:
            git(repository, "checkout", "-q", "cost")
        return ended

    assert "was edited" not in ab(repository, "old", CONFIG).stderr
    monkeypatch.setattr(session, "run_child", run)
    machine.sides.clear()
    said = " ".join(run_kbench(["ab", "old", CONFIG], repository).stderr.split())
    assert "warning: the working tree was edited while kbench measured it (cost), so its sessions may have run" in said
    machine.sides.clear()
    done = run_kbench(["ab", "old", "slow", CONFIG], repository)
    assert done.returncode == 0 and "was edited" not in done.stderr  # both are checked out elsewhere


def test_a_plug_in_that_changes_during_the_measurement_ends_it(
    repository: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = str(refusal_error(Path("/tmp/removed.csv"), ["the code of busy has changed"]))

    def run(command: Sequence[str], *rest: Any, **more: Any) -> Ended:
        return Ended(2, "", f"error: {refusal}\n") if "--append" in command else machine.run(command, *rest, **more)

    monkeypatch.setattr(session, "run_child", run)
    done = ab(repository, "old", CONFIG)
    said = " ".join(done.stderr.split())
    assert done.returncode == 2 and "the code of busy has changed" in said
    assert "error: the working tree has changed since its first session; change nothing until the command ends" in said


def test_a_plug_in_that_a_revision_lacks_is_named_before_earlier_results_are_moved(
    repository: Path, machine: Machine
) -> None:
    assert ab(repository, "old", CONFIG).returncode == 0
    (repository / "new.py").write_text("")  # not committed
    done = ab(repository, "old", CONFIG, "--plugin", "new.py")
    assert done.returncode == 2
    assert "--plugin new.py: old (" in done.stderr and "has no such file; name a base that has it" in done.stderr
    assert len(list((repository / "results" / "ab").glob("base*.csv"))) == 1


def test_plug_ins_come_from_each_revision_and_shapes_are_the_same_for_both(
    repository: Path, machine: Machine, tmp_path: Path
) -> None:
    (repository / "bench" / "cost").write_text("1.0")
    outside = tmp_path / "outside.py"
    for plugin in (repository / "mine.py", repository / "bench" / "too.py", outside):
        plugin.write_text("")
    commit(repository, 1.0)
    more = ("--plugin", "../mine.py", "--plugin", repository / "bench" / "too.py", "--plugin", outside)
    done = run_kbench(["ab", "main", "sweep", *more, "--shapes", "s.csv"], repository / "bench")
    assert done.returncode == 0, done.stderr
    assert f"{outside}: lies outside of the repository, so all revisions measure the same file" in done.stderr
    for command in machine.commands:
        plugins = [after for word, after in pairwise(command) if word == "--plugin"]
        assert plugins == ["../mine.py", "too.py", str(outside)]  # from the folder `bench` of the revision
        assert command[command.index("--shapes") + 1] == str(repository / "bench" / "s.csv")

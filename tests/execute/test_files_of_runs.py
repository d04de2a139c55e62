"""The files of a run: whole cases, earlier files moved aside, one that somebody removes comes back, locks, the revision."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from planted_repository import git

from kbench.errors import Busy
from kbench.execute.environment_record import find_revision
from kbench.execute.lock import hold, results_lock
from kbench.execute.writer import Writer
from kbench.results.case import Case
from kbench.results.environment import Environment, Git
from kbench.results.reader import read_results
from kbench.results.row import Row


def row(n: int) -> Row:
    return Row(Case("softmax", {"M": 16, "N": n}, "float32"), "torch-native", ms=0.1)


def begun(folder: Path) -> Writer:
    """A writer that has written two cases."""
    writer = Writer(folder / "results" / "s.csv", ("M", "N")).begin()
    writer.write_environment(Environment(env_id="e"))
    writer.write([row(1)])
    writer.write([row(2)])
    return writer


def sizes(path: Path) -> list[object]:
    """The N of every row."""
    return [row.case.axes["N"] for row in read_results(path).rows]


def test_ctrl_c_in_the_middle_of_a_case_leaves_whole_cases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, notes: list[str]
) -> None:
    writer = begun(tmp_path)

    def interrupted(file: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            writer.write([row(3)])
    assert sizes(writer.path) == [1, 2]
    writer.write([row(4)])
    assert sizes(writer.path) == [1, 2, 4] and notes == []


def test_a_results_file_has_one_lock_for_all_links_and_where_none_can_be_taken_the_run_goes_on(
    tmp_path: Path, notes: list[str]
) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    one, other = (hold(results_lock(folder / "s.csv"), "s.csv", wait=False) for folder in (tmp_path, tmp_path / "link"))
    with one, pytest.raises(Busy, match=f"s.csv is in use by process {os.getpid()}"), other:
        pass
    with hold(tmp_path, "the host", wait=False):
        pass
    assert [note.partition(" (")[0] for note in notes] == ["cannot tell whether another run uses the host"]


# -- what is recorded of the code


def test_the_revision_is_that_of_the_folder_of_the_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_revision(tmp_path) is None
    git(tmp_path, "init", "-q")
    (tmp_path / "s.yaml").write_text("operator: softmax")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    commit = git(tmp_path, "rev-parse", "HEAD").strip()
    assert find_revision(tmp_path) == Git(commit=commit, dirty=False)
    (tmp_path / "s.yaml").write_text("operator: gelu")
    assert find_revision(tmp_path) == Git(commit=commit, dirty=True)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_revision(tmp_path) is None

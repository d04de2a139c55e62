"""The files of a run: whole cases, earlier files moved aside, one that somebody removes comes back, locks, the revision."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from kbench.execute.environment_record import find_revision
from kbench.execute.lock import hold, results_lock
from kbench.execute.writer import Writer
from kbench.results.case import Case
from kbench.results.environment import Environment, Git
from kbench.results.reader import read_results
from kbench.results.row import Row


def row(n: int) -> Row:
    return Row(Case("softmax", {"M": 16, "N": n}, "float32"), "torch-native", ms=0.1)


def begun(folder: Path) -> tuple[Writer, list[str]]:
    """A writer that has written two cases, and a list of its notes from here on."""
    notes: list[str] = []
    writer = Writer(folder / "results" / "s.csv", ("M", "N"))
    writer.note = notes.append
    writer.write_environment(Environment(env_id="e"))
    writer.write([row(1)])
    writer.write([row(2)])
    return writer, notes


def sizes(path: Path) -> list[object]:
    """The N of every row."""
    return [row.case.axes["N"] for row in read_results(path).rows]


def test_rows_go_into_a_file_that_an_editor_saved_meanwhile(tmp_path: Path) -> None:
    writer, _ = begun(tmp_path)
    (tmp_path / "saved").write_text(writer.path.read_text().replace("torch-native", "mine", 1))
    (tmp_path / "saved").replace(writer.path)
    writer.write([row(3)])
    assert [row.provider for row in read_results(writer.path).rows] == ["mine", "torch-native", "torch-native"]


def test_ctrl_c_in_the_middle_of_a_case_leaves_whole_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, notes = begun(tmp_path)

    def interrupted(file: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            writer.write([row(3)])
    assert sizes(writer.path) == [1, 2]
    writer.write([row(4)])
    assert sizes(writer.path) == [1, 2, 4] and notes == []


# -- locks


def unused(line: str) -> None:
    raise AssertionError(f"nothing to say, and it says {line}")


def test_all_links_to_a_results_file_have_one_lock_beside_it(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert results_lock(tmp_path / "link" / "s.csv") == tmp_path / ".s.csv.lock"
    with hold(results_lock(tmp_path / "s.csv"), "s.csv", wait=False, note=unused):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


def test_where_no_lock_can_be_taken_the_run_goes_on_with_a_note(tmp_path: Path) -> None:
    notes: list[str] = []
    with hold(tmp_path, "the host", wait=False, note=notes.append):
        pass
    [note] = notes
    assert "cannot tell whether another run uses the host" in note


# -- what is recorded of the code


def test_the_revision_is_that_of_the_folder_of_the_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(*words: str) -> str:
        identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        return subprocess.run(
            ["git", *identity, "-C", tmp_path, *words], check=True, capture_output=True, text=True
        ).stdout

    assert find_revision(tmp_path) is None
    ask("init", "-q")
    (tmp_path / "s.yaml").write_text("operator: softmax")
    ask("add", ".")
    ask("commit", "-q", "-m", "one")
    commit = ask("rev-parse", "HEAD").strip()
    assert find_revision(tmp_path) == Git(commit=commit, dirty=False)
    (tmp_path / "s.yaml").write_text("operator: gelu")
    assert find_revision(tmp_path) == Git(commit=commit, dirty=True)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_revision(tmp_path) is None

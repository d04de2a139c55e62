"""Results files during a run: whole cases only, earlier files moved aside, and a file that somebody removes comes back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kbench.errors import ResultsError
from kbench.execute.writer import Writer, check_writable
from kbench.results.case import Case
from kbench.results.environment import Environment
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


def test_what_cannot_be_written_is_said_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    (tmp_path / "folder.csv").mkdir()
    for path, what in ((tmp_path / "taken" / "s.csv", "is not a folder"), (tmp_path / "folder.csv", "is a folder")):
        with pytest.raises(ResultsError, match=what):
            check_writable(path)

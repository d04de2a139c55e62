"""`kbench history add`, and what may lie in the folder of a history."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jsonschema
import pytest
from common import NO_FILES, Kbench, make_no_file
from history.nights import Night, history, results
from making import row, write_rows

from kbench.errors import ResultsError
from kbench.history.judge_history import judge_history
from kbench.history.options import HistoryOptions
from kbench.history.storage.adding import add_results
from kbench.history.storage.folder import read_files, read_history
from kbench.history.storage.stored_run import stored_schema
from kbench.results.case import Case
from kbench.results.row import Row


def points(folder: Path) -> list[int]:
    return [len(each.series.points) for each in judge_history(folder, HistoryOptions()).series]


def test_a_file_is_added_once(kbench: Kbench, tmp_path: Path) -> None:
    results(tmp_path / "nightly.csv", 0, Night())
    first = kbench("history", "add", "nightly.csv", "history")
    assert first.returncode == 0 and first.stderr == "added 9 readings to history\n"
    [path] = (tmp_path / "history").iterdir()
    assert first.stdout == f"history/{path.name}\n"
    again = kbench("history", "add", "nightly.csv", "history")
    assert (again.returncode, again.stdout) == (0, "")
    assert again.stderr == "history has all 9 readings of nightly.csv already; nothing was added\n"
    assert list((tmp_path / "history").iterdir()) == [path]


def test_sessions_that_were_appended_are_added_alone(kbench: Kbench, tmp_path: Path) -> None:
    path = results(tmp_path / "nightly.csv", 0, Night())
    add_results(path, tmp_path / "history")
    before = path.read_text()
    results(path, 0, Night(sessions=2))
    later = [line for line in path.read_text().splitlines()[1:] if line not in before and ",1,ok," in line]
    path.write_text(before + "\n".join(later) + "\n")
    done = kbench("history", "add", "nightly.csv", "history")
    assert done.stderr == "added 9 readings to history; it had the other 9 already\n"


def test_a_row_that_stands_twice_in_a_file_is_refused(tmp_path: Path) -> None:
    path = results(tmp_path / "nightly.csv", 0, Night())
    path.write_text(path.read_text() + path.read_text().splitlines()[1] + "\n")
    with pytest.raises(ResultsError, match="is also on line 2; delete one of the two lines"):
        add_results(path, tmp_path / "history")
    assert not (tmp_path / "history").exists()


def test_what_is_stored_has_the_documented_format(tmp_path: Path) -> None:
    folder = history(tmp_path, 1, lambda number: Night(statuses={"mine": "wrong"}))
    [path] = folder.iterdir()
    stored = json.loads(path.read_text())
    jsonschema.validate(stored, stored_schema())
    assert (
        stored["schema"] == "kbench.history/1" and stored["source"] == "nightly.csv" and stored["baseline"] == "torch"
    )
    assert stored["environments"]["e1"]["packages.torch"] == "2.9.0"
    wrong = [reading for reading in stored["readings"] if reading["status"] == "wrong"]
    assert len(wrong) == 3 and all("ms" not in reading for reading in wrong)


def test_the_order_in_which_files_are_added_does_not_matter(tmp_path: Path) -> None:
    for number in (2, 0, 1):
        add_results(results(tmp_path / "nightly.csv", number, Night()), tmp_path / "history")
    for name, path in zip("cab", sorted((tmp_path / "history").iterdir()), strict=True):
        path.rename(path.with_name(f"{name}.history.json"))
    commits = [run.commit for run in read_history(tmp_path / "history").runs]
    assert commits == [f"{number:040x}" for number in range(3)]


def test_many_processes_may_add_at_once(tmp_path: Path) -> None:
    """The same file, and files with common readings: nothing is lost or counted twice."""
    paths = [results(tmp_path / f"night{number}.csv", number, Night()) for number in range(4)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda path: add_results(path, tmp_path / "history"), paths * 4))
    assert len(list((tmp_path / "history").iterdir())) == 4
    assert points(tmp_path / "history") == [4] * 6


def test_readings_that_two_files_share_count_once(tmp_path: Path) -> None:
    path = results(tmp_path / "nightly.csv", 0, Night())
    add_results(path, tmp_path / "history")
    path.rename(tmp_path / "renamed.csv")
    add_results(tmp_path / "renamed.csv", tmp_path / "other")
    for other in (tmp_path / "other").iterdir():
        other.rename(tmp_path / "history" / other.name)
    assert len(list((tmp_path / "history").iterdir())) == 2
    assert points(tmp_path / "history") == [1] * 6


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"schema": "kbench.history/1"}',
        '{"schema": "other/1"}',
        "[]",
        "null",
        '{"a": 1' + "," * 99,
        "\0\0",
        "[" * 100_000,
    ],
    ids=["empty", "half", "no readings", "another schema", "a list", "null", "commas", "zeros", "deep"],
)
def test_a_damaged_file_is_named_and_the_others_are_read(kbench: Kbench, tmp_path: Path, text: str) -> None:
    history(tmp_path, 2)
    (tmp_path / "history" / "damaged.history.json").write_text(text)
    done = kbench("history", "check", "history")
    assert done.returncode == 0 and "2 runs from 2026-09-01 to 2026-09-02" in done.stdout
    assert "warning: history/damaged.history.json: not a file of a history folder" in done.stderr
    assert "restore the file or delete it" in done.stderr and "Traceback" not in done.stderr


def test_a_file_that_was_cut_off_anywhere_is_named(tmp_path: Path) -> None:
    [path] = history(tmp_path, 1).iterdir()
    whole = path.read_bytes()
    for end in range(0, len(whole) - 1, 97):
        path.write_bytes(whole[:end])
        found = read_files(path.parent)
        assert found.runs == () and len(found.notes) == 1
        with pytest.raises(ResultsError, match="no file of a history here can be read"):
            read_history(path.parent)


@pytest.mark.parametrize("kind", NO_FILES)
def test_what_is_no_file_is_named(tmp_path: Path, kind: str) -> None:
    folder = history(tmp_path, 1)
    make_no_file(folder / "strange.history.json", kind)
    found = read_history(folder)
    assert len(found.runs) == 1 and len(found.notes) == 1 and "strange.history.json: cannot be read" in found.notes[0]


def test_a_half_written_file_and_files_of_others_are_no_part_of_the_history(tmp_path: Path) -> None:
    folder = history(tmp_path, 1)
    (folder / ".20260901-nightly.json.abc.tmp").write_text("{")
    (folder / ".hidden.history.json").write_text("{")
    (folder / "README.md").write_text("our history")
    (folder / "softmax.env.json").write_text("{}")
    (folder / "pictures").mkdir()
    found = read_history(folder)
    assert len(found.runs) == 1 and found.notes == ()


NEWER = (
    r"a different history format from the one that this kbench reads, which is kbench\.history/1; "
    r"use the kbench that wrote it, or a newer one"
)


def test_a_later_version_of_the_format_is_not_misread(tmp_path: Path) -> None:
    [path] = history(tmp_path, 1).iterdir()
    path.write_text(path.read_text().replace("kbench.history/1", "kbench.history/2"))
    with pytest.raises(ResultsError, match=NEWER):
        read_history(path.parent)


def test_hostile_text_becomes_printable(kbench: Kbench, tmp_path: Path) -> None:
    [path] = history(tmp_path, 1, lambda number: Night(statuses={"mine": "wrong"})).iterdir()
    stored = json.loads(path.read_text())
    for reading in stored["readings"]:
        reading["provider"], reading["reason"] = "mi\x1b[31mne\n::error::x", "\u202eabc\n::set-output name=a::b"
    path.write_text(json.dumps(stored))
    done = kbench("history", "check", "history")
    assert done.returncode in (0, 3)
    assert "\x1b" not in done.stdout and "\u202e" not in done.stdout
    assert not any(line.startswith("::") for line in (done.stdout + done.stderr).splitlines())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("a,b\n1,2\n", "not a kbench results file"),
        ("header only", "the file has no row of any provider"),
    ],
)
def test_a_file_without_results_is_refused(kbench: Kbench, tmp_path: Path, text: str, message: str) -> None:
    path = results(tmp_path / "nightly.csv", 0, Night())
    path.write_text(path.read_text().splitlines()[0] + "\n" if text == "header only" else text)
    done = kbench("history", "add", "nightly.csv", "history")
    assert done.returncode == 2 and message in done.stderr
    assert not (tmp_path / "history").exists()


def test_other_columns_and_other_operators_lie_in_one_folder(kbench: Kbench, tmp_path: Path) -> None:
    folder = history(tmp_path, 2)
    case = Case("rmsnorm", {"T": 64, "eps": 1e-5, "causal": True, "mode": "forward"}, "float32")
    other = write_rows(tmp_path / "rms.csv", [Row(case, "torch", ms=1.0, device="NVIDIA H200")], tuple(case.axes))
    lines = other.read_text().splitlines()
    other.write_text("\n".join([f"{lines[0]},added_by_us", f"{lines[1]},1"]) + "\n")
    assert kbench("history", "add", "rms.csv", "history").returncode == 0
    done = kbench("history", "check", "history", "--where", "T=64,eps<1e-4,causal=true")
    assert "3 runs from 2026-09-01" in done.stdout and "1 series with 1 point" in done.stdout
    assert "6 series with 12 points" in kbench("history", "check", "history", "--where", "N>=1").stdout
    assert "7 series with 13 points" in kbench("history", "check", "history", "--where", "mode=forward").stdout
    assert folder.is_dir()


def test_results_without_an_environment_file_are_added_and_the_command_says_so(kbench: Kbench, tmp_path: Path) -> None:
    write_rows(tmp_path / "a.csv", [row()])
    done = kbench("history", "add", "a.csv", "history")
    assert done.returncode == 0 and "warning: a.env.json: no such file" in done.stderr
    assert kbench("history", "check", "history").returncode == 0


@pytest.mark.parametrize("what", ["missing", "a file", "empty"])
def test_a_folder_without_a_history_is_an_error(kbench: Kbench, tmp_path: Path, what: str) -> None:
    path = tmp_path / "history"
    if what == "a file":
        path.write_text("x")
    elif what == "empty":
        path.mkdir()
    done = kbench("history", "check", "history")
    said = {"missing": "no such folder", "a file": "not a folder", "empty": "no history here"}[what]
    assert (
        done.returncode == 2
        and said in done.stderr
        and "`kbench history add RESULTS.csv DIR` makes a history" in done.stderr
    )


def test_a_place_that_cannot_be_written_is_an_error(kbench: Kbench, tmp_path: Path) -> None:
    results(tmp_path / "nightly.csv", 0, Night())
    (tmp_path / "file").write_text("")
    assert "file: not a folder" in kbench("history", "add", "nightly.csv", "file").stderr
    done = kbench("history", "add", "nightly.csv", "file/below")
    assert done.returncode == 2 and "cannot be written" in done.stderr
    assert kbench("history", "add", "nightly.csv", "history", "--machine", "a\nb").returncode == 2


def test_a_full_disk_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = results(tmp_path / "nightly.csv", 0, Night())

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ResultsError, match="No space left on device"):
        add_results(path, tmp_path / "history")
    assert list((tmp_path / "history").iterdir()) == []

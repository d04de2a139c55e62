"""Results files that another program changes during a run: no measured row is lost, and none of its changes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kbench.errors import ResultsError
from kbench.execute import writer as writers
from kbench.execute.writer import Writer, check_writable, move_aside
from kbench.results.case import Case
from kbench.results.row import Row


def row(n: int) -> Row:
    return Row(Case("softmax", {"M": 16, "N": n}, "float32"), "torch-native", ms=0.1)


def begun(folder: Path) -> tuple[Writer, list[str]]:
    """A writer that has written two cases, and a list of its notes from here on."""
    notes: list[str] = []
    writer = Writer(folder / "results" / "s.csv", ("M", "N"))
    writer.note = notes.append
    writer.write_environment({"env_id": "e"})
    writer.write([row(1)])
    writer.write([row(2)])
    return writer, notes


def sizes(path: Path) -> list[str]:
    """The N of every row."""
    lines = path.read_text().splitlines()
    assert lines[0].startswith("operator,provider")
    return [line.split(",")[4] for line in lines[1:]]


def removed(folder: Path) -> None:
    (folder / "s.csv").unlink()


def folder_removed(folder: Path) -> None:
    shutil.rmtree(folder)


def renamed(folder: Path) -> None:
    (folder / "s.csv").rename(folder / "mine.csv")


@pytest.mark.parametrize("change", [removed, folder_removed, renamed])
@pytest.mark.parametrize("late", [False, True])
def test_a_file_that_has_gone_is_written_again(tmp_path: Path, change: Callable[[Path], None], late: bool) -> None:
    writer, notes = begun(tmp_path)
    folder = tmp_path / "results"
    if late:  # after the last case
        writer.write([row(3)])
        change(folder)
        writer.check()
    else:
        change(folder)
        writer.write([row(3)])
    assert sizes(folder / "s.csv") == ["1", "2", "3"]
    assert (folder / "s.env.json").read_text() == '{\n  "env_id": "e"\n}\n'
    assert notes == [
        f"{folder}/s.csv: another program removed or renamed it during the run; all rows were written again"
    ]
    writer.write([row(4)])
    assert sizes(folder / "s.csv") == ["1", "2", "3", "4"] and len(notes) == 1
    if change is renamed:
        assert sizes(folder / "mine.csv") == ["1", "2", "3"][: 3 if late else 2]


def truncated(path: Path) -> None:
    os.truncate(path, 0)


def edited(path: Path) -> None:
    path.write_text(path.read_text().replace("torch-native", "what-i-want"))


def replaced_by_an_editor(path: Path) -> None:
    new = path.with_name("new")
    new.write_text(path.read_text().replace("softmax", "softMAX"))
    new.replace(path)


def extended(path: Path) -> None:
    with path.open("a") as file:
        file.write("softmax,mine,\n")


@pytest.mark.parametrize("change", [truncated, edited, replaced_by_an_editor, extended])
def test_a_file_that_was_changed_is_moved_aside(tmp_path: Path, change: Callable[[Path], None]) -> None:
    writer, notes = begun(tmp_path)
    change(writer.path)
    theirs = writer.path.read_bytes()
    writer.write([row(3)])
    assert sizes(writer.path) == ["1", "2", "3"]
    [aside] = [path for path in writer.path.parent.glob("*.csv") if path != writer.path]
    assert aside.read_bytes() == theirs and aside.with_suffix(".env.json").exists()
    assert notes == [
        f"{writer.path}: another program changed it during the run; the changed file is now {aside}, "
        "and all rows were written again"
    ]
    writer.write([row(4)])
    assert sizes(writer.path) == ["1", "2", "3", "4"] and len(notes) == 1


def test_a_file_that_goes_while_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, notes = begun(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", lambda file: writer.path.unlink())
        writer.write([row(3)])
    writer.check()
    assert sizes(writer.path) == ["1", "2", "3"] and len(notes) == 1


def test_a_copy_or_a_new_date_is_no_change(tmp_path: Path) -> None:
    writer, notes = begun(tmp_path)
    os.utime(writer.path, (1, 1))
    writer.write([row(3)])
    shutil.copy(writer.path, tmp_path / "copy")
    (tmp_path / "copy").replace(writer.path)
    writer.write([row(4)])
    assert sizes(writer.path) == ["1", "2", "3", "4"] and notes == []
    assert sorted(path.name for path in writer.path.parent.iterdir()) == ["s.csv", "s.env.json"]


def test_a_continued_file_is_put_back_whole(tmp_path: Path) -> None:
    first, _ = begun(tmp_path)
    first.close()
    torn = first.path.stat().st_size
    with first.path.open("a") as file:
        file.write("softmax,torch-na")
    writer = Writer(first.path, ("M", "N"), keep=torn)
    writer.write([row(3)])
    first.path.unlink()
    writer.write([row(4)])
    assert sizes(first.path) == ["1", "2", "3", "4"]


def test_where_nothing_can_be_put_back_the_rows_go_to_the_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writers.tempfile, "gettempdir", lambda: str(tmp_path))
    writer, _ = begun(tmp_path)
    folder_removed(writer.path.parent)
    writer.path.parent.write_text("a file where the folder was")
    with pytest.raises(ResultsError, match="the rows measured so far are in ") as caught:
        writer.write([row(3)])
    assert sizes(Path(str(caught.value).rpartition(" ")[2])) == ["1", "2", "3"]
    assert str(writer.path.parent.read_text()) == "a file where the folder was"


def test_ctrl_c_in_the_middle_of_a_case_leaves_whole_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, notes = begun(tmp_path)

    def interrupted(file: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            writer.write([row(3)])
    writer.check()
    writer.write([row(4)])
    assert sizes(writer.path) == ["1", "2", "4"] and notes == []


def test_a_users_file_with_the_name_of_a_temporary_one(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    other = tmp_path / "somebodys"
    other.write_text("theirs")
    (folder / "s.csv.tmp").write_text("mine")
    (folder / "s.env.json.tmp").symlink_to(other)
    begun(tmp_path)
    assert (folder / "s.csv.tmp").read_text() == "mine" and other.read_text() == "theirs"


@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_a_process_that_dies_anywhere_leaves_the_earlier_results_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Whenever it is killed, the earlier CSV and its environment file have matching names."""

    class Died(BaseException):
        pass

    writer, _ = begun(tmp_path)
    writer.close()
    earlier, count = writer.path.read_bytes(), 0

    def counted(name: str) -> Callable[..., None]:
        real = getattr(os, name)

        def call(*arguments: object, **options: object) -> None:
            nonlocal count
            count += 1
            if count == step:
                raise Died
            real(*arguments, **options)

        return call

    for name in ("link", "rename", "replace"):
        monkeypatch.setattr(os, name, counted(name))
    try:
        again = Writer(writer.path, ("M", "N"))
        again.write_environment({"env_id": "later"})
    except Died:
        pass
    pairs = [
        path.with_suffix(".env.json").read_text()
        for path in writer.path.parent.glob("s*.csv")
        if path.read_bytes() == earlier
    ]
    assert any('"env_id": "e"' in text for text in pairs)


def test_a_link_to_earlier_results_is_moved_and_not_followed(tmp_path: Path) -> None:
    writer, _ = begun(tmp_path)
    kept = tmp_path / "kept.csv"
    writer.path.rename(kept)
    writer.path.symlink_to(kept)
    again = Writer(writer.path, ("M", "N"))
    assert sizes(kept) == ["1", "2"] and sizes(writer.path) == [] and not writer.path.is_symlink()
    assert again.moved[0].is_symlink()


def test_a_loop_of_links_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.symlink_to(path)
    with pytest.raises(ResultsError, match=r"s\.csv: cannot be read \(Too many levels of symbolic links\)"):
        check_writable(path)
    assert len(move_aside(path)) == 1

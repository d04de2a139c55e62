"""Locks: one run at a time, whatever another program has written into a lock file."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from kbench.errors import Busy
from kbench.execute import lock
from kbench.execute.lock import acquire_lock, acquire_results_lock, file_key, lock_open_results

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no locks on Windows")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(lock.tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path


@contextmanager
def somebody_holds(path: Path, content: bytes) -> Iterator[None]:
    path.write_bytes(content)
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def unused(line: str) -> None:
    raise AssertionError(f"nothing to say, and it says {line}")


CONTENTS = {
    "nothing": b"",
    "a list": b"[1, 2]",
    "a number": b"7",
    "null": b"null",
    "a word": b'"kbench"',
    "an empty object": b"{}",
    "a command that is a number": b'{"pid": 1, "since": 3, "command": 4}',
    "no number of a process": b'{"pid": "1", "since": "today"}',
    "a truth": b'{"pid": true, "since": "today"}',
    "a number of 400 digits": b'{"pid": 1' + 400 * b"0" + b', "since": "today"}',
    "a number of 5,000 digits": b'{"pid": 1' + 5000 * b"0" + b', "since": "today"}',
    "brackets": 100_000 * b"[",
    "escapes": b'{"pid": 4194305, "since": "\\u001b]0;owned\\nerror: you lose"}',
    "lone surrogates": b'{"pid": 4194305, "since": "\\ud800"}',
    "60 KB": json.dumps({"pid": 4194305, "since": 60_000 * "x"}).encode(),
    "bytes": bytes(range(256)),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_whatever_the_holder_wrote_is_one_printable_line(folder: Path, name: str) -> None:
    path = folder / "kbench-cpu.lock"
    with (
        somebody_holds(path, CONTENTS[name]),
        pytest.raises(Busy) as caught,
        acquire_lock("cpu", "a \x1b[2Jhost", wait=False, note=unused),
    ):
        pass
    line = str(caught.value)
    assert line.isprintable() and len(line) < 400 and "is in use by " in line
    assert path.read_bytes() == CONTENTS[name]


def test_the_holder_is_named_and_its_command_is_not_in_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["kbench", "run", "s.yaml", "--scheduler", "tls://host:8786"])
    with acquire_lock("cpu", "the host", wait=False, note=unused):
        written = json.loads((folder / "kbench-cpu.lock").read_text())
        assert set(written) == {"pid", "since"} and written["pid"] == os.getpid()
        with (
            pytest.raises(Busy, match=rf"process {os.getpid()} since {written['since'][:10]}"),
            acquire_lock("cpu", "the host", wait=False, note=unused),
        ):
            pass


def test_the_command_is_read_where_the_system_tells_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = "python3\0-m\0kbench\0run\0s.yaml\0--scheduler\0tls://host:8786\0"
    monkeypatch.setattr(lock.files, "read_bytes", lambda path, limit: words.encode())
    path = folder / "kbench-cpu.lock"
    with (
        somebody_holds(path, b'{"pid": 1, "since": "x"}'),
        pytest.raises(Busy) as caught,
        acquire_lock("cpu", "it", wait=False, note=unused),
    ):
        pass
    assert "(kbench run s.yaml --scheduler tls://host:8786)" in str(caught.value)


def test_a_run_that_waits_says_how_not_to_wait_only_if_the_command_can(folder: Path) -> None:
    notes: list[str] = []
    path = folder / "kbench-cpu.lock"
    path.write_bytes(b"")
    for hint in ("", "; with --no-wait kbench fails at once"):
        with path.open("rb") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            threading.Timer(0.2, fcntl.flock, (other, fcntl.LOCK_UN)).start()
            with acquire_lock("cpu", "the host", wait=True, note=notes.append, hint=hint):
                pass
    plain, hinted = notes
    assert plain.endswith("waiting for it to end (Ctrl-C gives up)")
    assert hinted.endswith("waiting for it to end (Ctrl-C gives up; with --no-wait kbench fails at once)")


def test_a_run_that_waits_never_blocks_where_a_signal_could_not_end_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python runs a handler only between calls, so one that comes just before a blocking flock() would wait for its end."""
    flags: list[int] = []
    honest = fcntl.flock

    def flock(file: int, operation: int) -> None:
        flags.append(operation)
        if len(flags) == 3:
            signal.raise_signal(signal.SIGINT)
        honest(file, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    path = folder / "kbench-cpu.lock"
    path.write_bytes(b"")
    with path.open("rb") as other:
        honest(other, fcntl.LOCK_EX)
        with pytest.raises(KeyboardInterrupt), acquire_lock("cpu", "the host", wait=True, note=lambda line: None):
            pass
    assert set(flags) == {fcntl.LOCK_EX | fcntl.LOCK_NB} and len(flags) == 3


def test_a_lock_file_of_a_results_file_is_deleted_and_the_lock_still_holds(folder: Path) -> None:
    """Every `kbench ab` and `bisect` has paths of its own, so their lock files would become ever more."""
    key = file_key(folder / "s.csv")
    inside: list[int] = []

    def hold() -> None:
        with acquire_lock(key, "s.csv", wait=True, note=lambda line: None):
            inside.append(1)
            time.sleep(0.005)
            assert len(inside) == 1
            inside.pop()

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(hold) for _ in range(40)]:
            done.result(timeout=60)
    assert not list(folder.iterdir())


@pytest.mark.parametrize("kind", ["hard link", "link", "FIFO", "folder"])
def test_what_is_no_lock_file_is_left_alone(folder: Path, kind: str) -> None:
    somebodys = folder / "somebodys"
    somebodys.write_text("theirs")
    path = folder / "kbench-cpu.lock"
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        os.link(somebodys, path) if kind == "hard link" else path.symlink_to(somebodys)
    notes: list[str] = []
    with acquire_lock("cpu", "the host", wait=False, note=notes.append):
        assert somebodys.read_text() == "theirs"
    [note] = notes
    assert "cannot tell whether another run uses the host" in note and somebodys.read_text() == "theirs"


def test_a_results_file_is_locked_whatever_the_temporary_folders_are(folder: Path) -> None:
    path = folder / "s.csv"
    path.write_text("rows")
    with acquire_results_lock(path, wait=False, note=unused):
        with (
            pytest.raises(Busy, match=r"s\.csv is in use by another kbench run"),
            acquire_results_lock(path, wait=False, note=unused),
        ):
            pass
        assert path.read_text() == "rows"
    with path.open("ab") as mine:
        lock_open_results(mine.fileno())
        with pytest.raises(Busy), acquire_results_lock(path, wait=False, note=unused):
            pass
    with (
        acquire_results_lock(path, wait=False, note=unused),
        acquire_results_lock(folder / "new.csv", wait=False, note=unused),
    ):
        pass

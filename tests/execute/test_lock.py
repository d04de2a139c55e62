"""Locks: one run at a time on a device and on a results file."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from filelock import FileLock

from kbench.execute.lock import hold, results_lock


def unused(line: str) -> None:
    raise AssertionError(f"nothing to say, and it says {line}")


def test_a_run_that_waits_says_how_not_to_wait(tmp_path: Path) -> None:
    notes: list[str] = []
    with ThreadPoolExecutor(1) as thread:
        other = FileLock(tmp_path / "cpu.lock", thread_local=False)
        thread.submit(other.acquire).result()
        threading.Timer(0.2, other.release).start()
        with hold(tmp_path / "cpu.lock", "the host", wait=True, note=notes.append):
            assert "in use by another kbench run; waiting for it to end" in notes[0] and "--no-wait" in notes[0]


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

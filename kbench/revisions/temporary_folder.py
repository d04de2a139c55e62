"""The temporary folder of `kbench ab`, with worktrees and environments, and what removes it.

The folder has two small files. `lock` is locked while the process that uses the folder lives; the kernel releases the lock
also after SIGKILL. `repository` names the repository. The next `kbench ab` in that repository removes
folders that nobody locks. Without locks (Windows) it removes none.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kbench import interrupts
from kbench.revisions.repository import Repository

FOLDER_PREFIX = "kbench-revisions-"


@contextmanager
def temporary_folder(repository: Repository) -> Iterator[Path]:
    """A new folder. At the end, it is removed with all worktrees in it, also after a signal."""
    folder: Path | None = None
    lock = -1
    try:
        with interrupts.held_back():
            folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX)).resolve()
            lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
            _try_lock(lock)
            (folder / "repository").write_bytes(os.fsencode(repository.common))
        yield folder
    finally:
        try:
            _clean(repository, folder, lock)
        except KeyboardInterrupt:  # it came before the signals were held back
            _clean(repository, folder, lock)
            raise


def _clean(repository: Repository, folder: Path | None, lock: int) -> None:
    with interrupts.held_back():
        if folder is not None:
            _remove(repository, folder)
        if lock >= 0:
            with suppress(OSError):
                os.close(lock)


def remove_stale(repository: Repository, note: Callable[[str], None]) -> None:
    """Remove what killed processes left of this repository."""
    if sys.platform == "win32":
        return
    found = {folder.parent for folder in repository.worktrees() if folder.parent.name.startswith(FOLDER_PREFIX)}
    found |= {
        folder
        for folder in Path(tempfile.gettempdir()).resolve().glob(f"{FOLDER_PREFIX}*")
        if _is_of(folder, repository)
    }
    for folder in sorted(found):
        if folder.exists():
            try:
                lock = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            except OSError:  # another user's, or not made by kbench
                continue
            try:
                if not _try_lock(lock):
                    continue
                with interrupts.held_back():
                    _remove(repository, folder)
            finally:
                os.close(lock)
        else:
            _forget(repository, folder)
        note(f"removed what a killed kbench left behind: {folder}")


def _remove(repository: Repository, folder: Path) -> None:
    """Delete the folder, and then git's entries of the worktrees in it."""
    shutil.rmtree(folder, onerror=_make_writable_and_retry)
    _forget(repository, folder)


def _forget(repository: Repository, folder: Path) -> None:
    for worktree in repository.worktrees():
        if worktree.parent == folder:
            repository.forget_worktree(worktree)


def _make_writable_and_retry(remove: Callable[..., object], path: str, error: object) -> None:
    """A build may leave folders without write permission. What still cannot be deleted stays."""
    with suppress(OSError):
        Path(path).parent.chmod(0o700)
        remove(path)


def _is_of(folder: Path, repository: Repository) -> bool:
    try:
        return (folder / "repository").read_bytes() == os.fsencode(repository.common)
    except OSError:
        return False


def _try_lock(file: int) -> bool:
    """Lock an open file. False if another process holds the lock, or the file system has none."""
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True

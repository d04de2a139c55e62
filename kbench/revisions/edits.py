"""Notices edits of the working tree while it is measured. It is measured where it is, so later sessions run the edited code."""

from __future__ import annotations

from pathlib import Path

from kbench.revisions.repository import Repository


class Edits:
    """The tracked files of a working tree that changed since this object was made, except those in the folder `results`.

    Untracked files are left out: some are logs that other programs write.
    """

    def __init__(self, repository: Repository, results: Path) -> None:
        self.repository, self.results = repository, results.resolve()
        self.commit = repository.commit("HEAD")
        self.before = self._states()
        self.found: set[str] = set()

    def look(self) -> None:
        """Add the files that differ now."""
        now = self._states()
        self.found |= {name for name in self.before.keys() | now.keys() if self.before.get(name) != now.get(name)}

    def _states(self) -> dict[str, tuple[int, int] | None]:
        """The size in bytes and the time in ns of the last change of each file that differs from the commit. None: it is
        deleted."""
        paths = {name: self.repository.top / name for name in self.repository.differing(self.commit)}
        return {name: _state(path) for name, path in paths.items() if not path.is_relative_to(self.results)}


def _state(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns

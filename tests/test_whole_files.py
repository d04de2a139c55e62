"""Files that are replaced whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kbench import files
from kbench.errors import ResultsError


def test_a_full_disk_leaves_the_older_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    path.write_text("older")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ResultsError, match=r"report.html: cannot be written \(No space left on device\); choose"):
        files.replace(path, "newer")
    assert path.read_text() == "older"
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_a_link_is_followed_and_the_permissions_are_kept(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("older")
    target.chmod(0o640)
    (tmp_path / "link").symlink_to(target)
    files.replace(tmp_path / "link", "newer")
    assert (tmp_path / "link").is_symlink()
    assert target.read_text() == "newer"
    assert target.stat().st_mode & 0o777 == 0o640

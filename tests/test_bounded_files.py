"""Bounded reads, and files that are replaced whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kbench import files
from kbench.results.stamps import digest


def test_a_fifo_without_a_writer_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(files.Unreadable, match="not a regular file"):
        files.read_bytes(tmp_path / "fifo", 100)


@pytest.mark.parametrize("name", ["/dev/zero", "/dev/null"])
def test_a_device_is_refused(name: str) -> None:
    with pytest.raises(files.Unreadable, match="not a regular file"):
        files.read_bytes(Path(name), 100)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"folder|directory"):
        files.read_bytes(tmp_path, 100)


def test_a_file_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(3 << 30)
    with pytest.raises(files.Unreadable, match="longer than 2 MiB"):
        files.read_bytes(path, 2 << 20)


def test_a_full_disk_leaves_the_older_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    path.write_text("older")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        files.replace(path, "newer")
    assert path.read_text() == "older"
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_links_and_files_with_the_names_of_old_temporaries_stay_as_they_are(tmp_path: Path) -> None:
    other = tmp_path / "somebodys"
    other.write_text("theirs")
    (tmp_path / "s.csv.tmp").symlink_to(other)
    files.replace(tmp_path / "s.csv", "rows")
    assert (tmp_path / "s.csv").read_text() == "rows"
    assert other.read_text() == "theirs"


def test_a_link_is_followed_and_the_permissions_are_kept(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("older")
    target.chmod(0o640)
    (tmp_path / "link").symlink_to(target)
    files.replace(tmp_path / "link", "newer")
    assert (tmp_path / "link").is_symlink()
    assert target.read_text() == "newer"
    assert target.stat().st_mode & 0o777 == 0o640


def test_writing_to_a_fifo_that_nobody_reads_is_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="No such device"):
        files.replace(tmp_path / "fifo", "text")


def test_source_files_of_any_kind_can_be_hashed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "latin.py").write_bytes("# -*- coding: latin-1 -*-\n# é\n".encode("latin-1"))
    assert files.source_text(tmp_path / "fifo") == files.source_text(tmp_path / "missing") == ""
    digests = {digest(files.source_text(tmp_path / name)) for name in ("fifo", "latin.py")}
    assert len(digests) == 2

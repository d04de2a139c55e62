"""What a script writes while its times are made up goes to a scratch folder."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from kbench.sources.scripts.shielded_files import shielded


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_nothing_is_made_before_a_script_writes(tmp_path: Path, temporary: Path) -> None:
    """A script that ends its process, as os._exit does, leaves nothing behind."""
    with shielded(tmp_path / "work"):
        assert list(temporary.iterdir()) == []


def test_what_a_script_writes_is_read_back_and_then_gone(tmp_path: Path, temporary: Path) -> None:
    (tmp_path / "work").mkdir()
    file = tmp_path / "work" / "a.txt"
    file.write_text("before")
    with shielded(tmp_path / "work"):
        file.write_text("after")
        assert file.read_text() == "after" and len(list(temporary.iterdir())) == 1
    assert file.read_text() == "before" and list(temporary.iterdir()) == []


@pytest.mark.timeout(60)
def test_a_script_may_be_the_first_to_ask_for_the_temporary_folder(tmp_path: Path) -> None:
    """tempfile holds a lock while it looks for its folder, and removes a file that it has written there."""
    (tmp_path / "work").mkdir()
    look = (
        "import tempfile; from pathlib import Path; from kbench.sources.scripts.shielded_files import shielded\n"
        "assert tempfile.tempdir is None\n"
        "with shielded(Path('work')):\n"
        "    Path('work/a.txt').write_text('after')\n"
        "    tempfile.mkdtemp()\n"
    )
    ended = subprocess.run([sys.executable, "-c", look], cwd=tmp_path, timeout=30, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr

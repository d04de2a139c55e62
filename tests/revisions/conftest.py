from __future__ import annotations

from pathlib import Path

import pytest
from planted_repository import CONFIG, SWEEP, Machine, commit, git

from kbench.revisions import side


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the test's own for temporary files, so that it can be checked that none are left."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture
def repository(tmp_path: Path, temporary: Path) -> Path:
    """A repository with the tags `old` (1 ms) and `slow` (1.05 ms). The working tree is at `slow`."""
    folder = tmp_path / "a repository"
    (folder / "bench").mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / CONFIG).write_text(SWEEP)
    (folder / ".gitignore").write_text("results/\n")
    commit(folder, 1.0)
    git(folder, "tag", "old")
    commit(folder, 1.05)
    git(folder, "tag", "slow")
    return folder


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(side, "run_process", machine.run)
    return machine

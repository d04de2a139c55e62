"""kbench finds the revision without running programs that the repository names, and without changing the repository."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from kbench.execute import git_revision


def ask(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    command = ["git", *identity, "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one file, whose settings name programs that leave a trace."""
    folder = tmp_path / "repository"
    folder.mkdir()
    ask(folder, "init", "-q")
    (folder / "s.yaml").write_text("operator: softmax\n")
    (folder / ".gitattributes").write_text("*.yaml filter=evil\n")
    ask(folder, "add", ".")
    ask(folder, "commit", "-q", "-m", "one")
    program = tmp_path / "program.sh"
    program.write_text(f"#!/bin/sh\necho $0 $@ >> {tmp_path}/ran\ncat\n")
    program.chmod(0o755)
    for name in ("core.fsmonitor", "filter.evil.clean", "filter.evil.smudge", "core.sshCommand", "core.pager"):
        ask(folder, "config", name, str(program))
    hooks = folder / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-index-change", "fsmonitor-watchman", "reference-transaction"):
        (hooks / name).write_text(program.read_text())
        (hooks / name).chmod(0o755)
    return folder


def test_no_program_of_the_repository_runs_and_the_index_stays(repository: Path, tmp_path: Path) -> None:
    os.utime(repository / "s.yaml", (1, 1))  # git has to read it, and would like to write that into the index
    index = repository / ".git" / "index"
    before = (index.stat().st_ino, index.stat().st_mtime_ns, index.read_bytes())
    (repository / ".git" / "index.lock").write_text("")  # its user is at work
    found = git_revision.find_revision(repository)
    assert found == {"commit": ask(repository, "rev-parse", "HEAD"), "dirty": False}
    assert not (tmp_path / "ran").exists()
    assert before == (index.stat().st_ino, index.stat().st_mtime_ns, index.read_bytes())
    (repository / "s.yaml").write_text("operator: gelu\n")
    assert git_revision.find_revision(repository) == {"commit": ask(repository, "rev-parse", "HEAD"), "dirty": True}
    assert not (tmp_path / "ran").exists()


def test_outside_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert git_revision.find_revision(tmp_path) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_revision.find_revision(tmp_path) is None


@pytest.mark.slow
def test_a_git_that_hangs_is_ended_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "git"
    slow.write_text(f"#!/bin/sh\n/bin/sleep 54321 &\necho $! > {tmp_path}/child\nwait\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_revision.find_revision(tmp_path, timeout_s=1) is None
    child = int((tmp_path / "child").read_text())
    for _ in range(50):
        try:
            state = Path(f"/proc/{child}/stat").read_text().split()[2]
        except FileNotFoundError:
            return
        if state == "Z":
            return
        time.sleep(0.1)
    raise AssertionError(f"process {child} is still there: {state}")

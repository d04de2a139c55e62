"""What a run records about its machine and its user."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kbench.execute.environment_record import find_revision
from kbench.results.environment import Git


def test_the_revision_is_that_of_the_folder_of_the_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(*words: str) -> str:
        identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        return subprocess.run(
            ["git", *identity, "-C", tmp_path, *words], check=True, capture_output=True, text=True
        ).stdout

    assert find_revision(tmp_path) is None
    ask("init", "-q")
    (tmp_path / "s.yaml").write_text("operator: softmax")
    ask("add", ".")
    ask("commit", "-q", "-m", "one")
    commit = ask("rev-parse", "HEAD").strip()
    assert find_revision(tmp_path) == Git(commit=commit, dirty=False)
    (tmp_path / "s.yaml").write_text("operator: gelu")
    assert find_revision(tmp_path) == Git(commit=commit, dirty=True)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_revision(tmp_path) is None

"""Runs `kbench ab` for tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

from common import run_kbench
from planted_repository import CONFIG, state

AB = ("ab", "old", "slow", CONFIG)


def ab(repository: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """Run `kbench ab` in the repository, and check that it changes and leaves nothing."""
    before = state(repository)
    done = run_kbench(["ab", *words], repository)
    assert state(repository) == before
    assert "Traceback" not in done.stderr and "bug" not in done.stderr
    return done

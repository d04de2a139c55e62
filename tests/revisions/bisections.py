"""What the tests of `kbench bisect` share: histories with a planted change, a stand-in for the build, and the command."""

from __future__ import annotations

import subprocess
from pathlib import Path

from common import run_kbench
from planted_repository import CONFIG, SWEEP, make_history, state

from kbench.revisions.side import BuildFailed, RevisionSide

ROW = "provider=triton,N=64"

COMMITS = 64


class Builds:
    """Stands in for the build. `built` lists the commits that it built, `failed` those that it could not build."""

    def __init__(self) -> None:
        self.built: list[Path] = []
        self.failed: list[Path] = []

    def build(self, side: RevisionSide, command: str, *more: object) -> RevisionSide:
        if (side.root / "broken").exists():
            self.failed.append(side.root)
            raise BuildFailed(f"{side.name}: the build {command!r} failed: exit code 1")
        self.built.append(side.root)
        return side


def history(
    folder: Path,
    costs: list[float],
    broken: tuple[int, ...] = (),
    fails: tuple[int, ...] = (),
    garbage: tuple[int, ...] = (),
) -> Path:
    """A repository with a commit for each cost. Commit 0 is the good revision."""
    commits = []
    for number, cost in enumerate(costs):
        files = {"cost": str(cost), "number": str(number), CONFIG: SWEEP, ".gitignore": "results/\n"}
        files |= {"broken": "x"} if number in broken else {}
        files |= {"fails": "bench.py:1: no kernel"} if number in fails else {}
        files |= {"garbage": "x"} if number in garbage else {}
        commits.append(files)
    make_history(folder, commits)
    return folder


def step(size: float, at: int, count: int = COMMITS) -> list[float]:
    """The costs of a good revision and of `count` later commits. Commit `at` has the change."""
    return [1 + size * (number >= at) for number in range(count + 1)]


def bisect(repository: Path, *words: object, last: int = COMMITS) -> subprocess.CompletedProcess[str]:
    """Run `kbench bisect` in the repository, and check that it changes and leaves nothing."""
    before = state(repository)
    arguments = ["--good", "c0", "--bad", f"c{last}", CONFIG, "--row", ROW, *words]
    done = run_kbench(["bisect", *arguments], repository)
    assert state(repository) == before
    assert "Traceback" not in done.stderr and "bug" not in done.stderr, done.stderr
    return done


def found(done: subprocess.CompletedProcess[str]) -> str:
    """The subject of the commit that was found."""
    assert done.returncode == 0, done.stdout + done.stderr
    first = done.stdout.splitlines()[0]
    assert first.startswith(("first slower commit: ", "first faster commit: ")), first
    return first.split()[4]

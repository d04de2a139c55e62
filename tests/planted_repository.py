"""A repository whose commits have planted costs, and a stand-in for the child that measures them.

The stand-in reads its time in ms from the file `cost` of a revision.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from common import ROOT
from making import row, write_rows

from kbench.results.row import Row
from kbench.results.vocabulary import Role
from kbench.revisions.process import Ended, run_process

CONFIG = "bench/sweep.yaml"
SWEEP = "operator: softmax\nsweep: {M: 8, N: 64, dtype: float32}\nproviders: [triton]\n"
SIZES = (64, 128, 256, 512, 1024, 2048)


def git(folder: Path, *words: str) -> str:
    person = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")
    done = subprocess.run(["git", *person, *words], cwd=folder, check=True, capture_output=True, text=True, timeout=60)
    return done.stdout


def commit(folder: Path, cost: float) -> None:
    (folder / "cost").write_text(str(cost))
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", f"cost {cost}")


class Machine:
    """Stands in for the child that measures. `sides` lists the folders that it measured, in turn."""

    def __init__(self) -> None:
        self.sides: list[Path] = []
        self.environments: list[Mapping[str, str]] = []
        self.commands: list[Sequence[str]] = []
        self.rows: dict[Path, list[Row]] = {}

    def run(self, command: Sequence[str], folder: Path, environment: Mapping[str, str], limit_s: float) -> Ended:
        if "--out" not in command:  # a build
            return run_process(command, folder, environment, limit_s)
        self.sides.append(folder)
        self.environments.append(environment)
        self.commands.append(command)
        out = Path(command[list(command).index("--out") + 1])
        cost = float((folder / "cost").read_text())
        definition = (folder / "definition").read_text() if (folder / "definition").exists() else "c0ffee"
        out.mkdir(exist_ok=True)
        rows = self.rows.setdefault(out, [])
        number = len(rows) // (2 * len(SIZES))
        assert ("--append" in command) is (number > 0)
        noise = 1 + 0.001 * (len(self.sides) * 7 % 5 - 2)
        same = {"session": number, "case_hash": definition}
        rows += [row(n, cost * noise, **same) for n in SIZES]
        rows += [row(n, noise, "copy", role=Role.CONTROL, **same) for n in SIZES]
        (out / "sweep.csv").unlink(missing_ok=True)
        write_rows(out / "sweep.csv", rows)
        (out / "sweep.env.json").write_text("{}")
        return Ended(0, "", "")


def state(repository: Path) -> dict[str, object]:
    """Everything that kbench must leave as it is: the files, the index, the refs and the worktrees."""
    paths = [path for path in repository.rglob("*") if not {"results", "objects"} & {*path.parts} and path.is_file()]
    return {str(path.relative_to(repository)): path.read_bytes() for path in paths} | {
        "worktrees": git(repository, "worktree", "list"),
        "temporary": sorted(path.name for path in Path(os.environ["TMPDIR"]).glob("kbench-ab-*")),
    }


HANGING = f"""
import os, sys
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "tests")!r}]
from kbench import interrupts
interrupts.raise_on_signals()
from kbench.revisions import side
side.KBENCH = ["-c", "import os, time; open(os.environ['MARK'], 'w').write(str(os.getpid())); time.sleep(60)"]
from kbench.cli import main
main()
"""


def hanging(repository: Path, mark: Path, *words: str) -> subprocess.Popen[str]:
    """A `kbench` whose child has begun to measure and does not end by itself."""
    process = subprocess.Popen(
        [sys.executable, "-c", HANGING, *words],
        cwd=repository,
        env={**os.environ, "MARK": str(mark)},
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not (mark.exists() and mark.read_text()) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert mark.exists(), process.communicate()[1]
    return process


def has_ended(pid: int) -> bool:
    """A process without a parent that waits for it can stay as a zombie, which has ended too."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return True
        if stat.rpartition(")")[2].split()[0] in "ZX":
            return True
        time.sleep(0.02)
    return False

"""A repository whose commits have planted costs, and a stand-in for the child that measures them.

The stand-in reads its time in ms from the file `cost` of a revision.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from common import ROOT
from making import row, write_rows

from kbench.results.row import Row
from kbench.results.vocabulary import Role
from kbench.revisions.child import Ended

CONFIG = "bench/sweep.yaml"
SWEEP = "operator: softmax\nsweep: {M: 8, N: 64, dtype: float32}\nproviders: [triton]\n"
SPIN = (
    "operator: spin\nplugins: [spin.py]\nsweep: {N: 64, dtype: float32}\nproviders: [busy]\n"
    "measure: {rounds: 3, rep_ms: 5, warmup_ms: 1}\n"
)
"""A config of PLUGIN."""

PLUGIN = """
import time
import torch
from cost import MS
import kbench

spin = kbench.Operator(
    "spin",
    axes=("N",),
    inputs={"x": kbench.Tensor("N")},
    outputs={"y": kbench.Tensor("N")},
    reference=lambda x: x * 2,
    tolerance=4,
)


@spin.provider("busy")
def busy(x):
    end = time.perf_counter() + MS / 1e3
    y = x * 2
    while time.perf_counter() < end:
        pass
    return y
"""
"""A provider that takes as long as the module `cost` says."""

SIZES = (64, 128, 256, 512, 1024, 2048)


def git(folder: Path, *words: str) -> str:
    person = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")
    done = subprocess.run(["git", *person, *words], cwd=folder, check=True, capture_output=True, text=True, timeout=60)
    return done.stdout


def commit(folder: Path, cost: float) -> None:
    (folder / "cost").write_text(str(cost))
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", f"cost {cost}")


def make_history(folder: Path, commits: Sequence[Mapping[str, str]]) -> None:
    """A repository with a commit for each mapping from file names to contents. Tags c0, c1, ... name the commits."""
    git(folder.parent, "init", "-q", "-b", "main", str(folder))
    lines = []
    for number, files in enumerate(commits):
        lines += ["commit refs/heads/main", "committer a <a@b> 1700000000 +0000", f"data {len(str(number)) + 1}"]
        lines += [f"c{number}", "deleteall"]
        for name, text in files.items():
            lines += [f"M 644 inline {name}", f"data {len(text)}", text]
        lines += ["", f"reset refs/tags/c{number}", "from refs/heads/main", ""]
    stream = "\n".join(lines) + "\n"
    subprocess.run(["git", "fast-import", "--quiet"], cwd=folder, input=stream, text=True, check=True, timeout=60)
    git(folder, "reset", "-q", "--hard")


class Machine:
    """Stands in for the child that measures. `sides` lists the folders that it measured, in turn.

    noise    standard deviation of a session, as a share; None for a small fixed pattern
    drawn    the seed of the noise
    """

    def __init__(self, noise: float | None = None, seed: int = 0) -> None:
        self.sides: list[Path] = []
        self.environments: list[Mapping[str, str]] = []
        self.commands: list[Sequence[str]] = []
        self.rows: dict[Path, list[Row]] = {}
        self.noise, self.random = noise, random.Random(seed)

    def run(
        self, command: Sequence[str], folder: Path, environment: Mapping[str, str], limit_s: float, *, leash: bool
    ) -> Ended:
        self.sides.append(folder)
        self.environments.append(environment)
        self.commands.append(command)
        if (folder / "fails").exists():
            return Ended(2, "", f"error: {(folder / 'fails').read_text()}")
        out = Path(command[list(command).index("--out") + 1])
        cost = float((folder / "cost").read_text())
        definition = (folder / "definition").read_text() if (folder / "definition").exists() else "c0ffee"
        sets = [word.partition("=")[2] for word in command if word.startswith("N=")]
        sizes = [int(size) for size in sets[0].split(",")] if sets else SIZES
        rows = self.rows.setdefault(out, [])
        number = len(rows) // (2 * len(sizes))
        assert ("--append" in command) is (number > 0)
        noise = 1 + (0.001 * (len(self.sides) * 7 % 5 - 2) if self.noise is None else self.random.gauss(0, self.noise))
        same = {"session": number, "case_hash": definition}
        rows += [row(n, cost * noise, **same) for n in sizes]
        rows += [row(n, noise, "copy", role=Role.CONTROL, **same) for n in sizes]
        (out / "sweep.csv").unlink(missing_ok=True)
        write_rows(out / "sweep.csv", rows)
        if (folder / "garbage").exists():
            (out / "sweep.csv").write_text("other,columns\n1,2\n")
        (out / "sweep.env.json").write_text("{}")
        return Ended(0, "", "")


def state(repository: Path) -> dict[str, object]:
    """Everything that kbench must leave as it is: the files, the index, the refs and the worktrees."""
    paths = [path for path in repository.rglob("*") if "results" not in path.parts and path.is_file()]
    return {str(path.relative_to(repository)): path.read_bytes() for path in paths} | {
        "worktrees": git(repository, "worktree", "list"),
        "temporary": sorted(path.name for path in Path(os.environ["TMPDIR"]).glob("kbench-revisions-*")),
    }


HANGING = f"""
import os, sys
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "tests")!r}]
from kbench import interrupts
interrupts.raise_on_signals()
from kbench.revisions import session
from planted_repository import Machine
machine, run_child = Machine(), session.run_child

def run(command, folder, environment, limit_s, *, leash):
    child = machine.run if len(machine.sides) < int(os.environ["SESSIONS"]) else run_child
    return child(command, folder, environment, limit_s, leash=leash)

session.run_child = run
session.CHILD_ARGUMENTS = ["-c", "import os; open(os.environ['MARK'], 'w').write(str(os.getpid())); os.read(0, 1)"]
from kbench.cli import main
main()
"""


def hanging(repository: Path, mark: Path, *words: str, sessions: int = 0) -> subprocess.Popen[str]:
    """A `kbench` that has measured some sessions, and whose next child has begun to measure and does not end by itself."""
    process = subprocess.Popen(
        [sys.executable, "-c", HANGING, *words],
        cwd=repository,
        env={**os.environ, "MARK": str(mark), "SESSIONS": str(sessions)},
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

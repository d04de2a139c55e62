"""Runs that are interrupted: a resumed run has the rows of an undisturbed one."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from ended_runs import FAKE, IDENTITY, ON_LINUX, SWEEP, Run, identities, left_in, new_folder, run

from kbench.results import table

pytestmark = ON_LINUX


KINDS = ["INT", "TERM", "KILL", "HUP"] * 3


@pytest.mark.slow
def test_interrupting_at_random_moments_changes_no_row(tmp_path: Path) -> None:
    """Interrupt, resume, interrupt ... to the end. A run that ends before it is interrupted ends a chain, and the next
    begins another."""
    reference, folder = (new_folder(tmp_path, name, SWEEP) for name in ("reference", "chain"))
    with run(reference, program=FAKE, case_s=0) as whole:
        assert whole.wait() == 0, whole.stderr
    wanted = identities(reference)
    assert len(wanted) == 2 * 3 * (3 + 3)

    seed = random.Random(20)
    counts = []
    for kind in seed.sample(KINDS, len(KINDS)):
        with run(folder, "--resume", program=FAKE) as started:
            if seed.random() > 0.2:
                started.says("softmax on ")
            else:
                started.listens()
            with suppress(subprocess.TimeoutExpired):
                started.process.wait(timeout=seed.random() * 6 * 0.1)
            strike(started, kind)
            code = started.wait()
        counts.append(check_readable(folder, wanted))
        if code == 0:
            assert counts[-1] == len(wanted)
            shutil.rmtree(folder / "results")
        else:
            assert code == (-signal.SIGKILL if kind == "KILL" else 130), started.stderr
    with run(folder, "--resume", program=FAKE, case_s=0) as last:
        assert last.wait() == 0, last.stderr
    assert identities(folder) == wanted
    # most moments fall into a run, not before its first row or after its last
    assert sum(0 < count < len(wanted) for count in counts) >= 3, counts


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [["worker"], ["worker", "INT"], ["KILL"]], ids=["worker", "worker and INT", "KILL"])
def test_interrupting_a_run_and_its_worker_changes_no_row_and_leaves_no_process(
    tmp_path: Path, kinds: list[str]
) -> None:
    folder = new_folder(tmp_path, "run", SWEEP)
    with run(folder, "--only", "torch-native", "--sessions", "1") as started:
        assert started.says("[1/3]"), started.stderr
        for kind in kinds:
            strike(started, kind)
        code = started.wait()
    deadline = time.monotonic() + 30
    while left_in(folder) and time.monotonic() < deadline:
        assert kinds == ["KILL"], f"{kinds} has left {left_in(folder)}"
        time.sleep(0.05)
    assert left_in(folder) == []
    assert code == {"worker": 0, "INT": 130, "KILL": -signal.SIGKILL}[kinds[-1]], started.stderr
    found = [(row[4], row[1], row[8]) for row in identities(folder)]
    rows = ("torch-native", "copy", "empty", "repeat")
    wanted = [(n, name, "ok") for n in (64, 100, 128) for name in rows]
    assert found == wanted[: len(found)] and len(found) >= len(rows)
    assert len(found) == len(wanted) or code != 0


def check_readable(folder: Path, wanted: list[list[Any]]) -> int:
    """Check that the file can be read, and that its rows are the first of the wanted ones. Returns their number."""
    path = folder / "results" / "sweep.csv"
    if not path.exists():
        return 0
    rows = table.read_results(path)
    assert rows[IDENTITY].astype({"M": int, "N": int}).values.tolist() == wanted[: len(rows)]
    return len(rows)


def strike(target: Run, kind: str) -> None:
    if kind != "worker":
        target.process.send_signal(getattr(signal, f"SIG{kind}"))  # nothing happens when it has ended
    elif pid := target.worker():
        os.kill(pid, signal.SIGKILL)

"""Runs that are interrupted: a resumed run has the rows of an undisturbed one."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from ended_runs import FAKE, IDENTITY, ON_LINUX, SWEEP, identities, new_folder, run

from kbench.results.frame import frame_of
from kbench.results.reader import read_results

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
            started.process.send_signal(getattr(signal, f"SIG{kind}"))  # nothing happens when it has ended
            code = started.wait()
        counts.append(check_readable(folder, wanted))
        if code == 0:
            assert counts[-1] == len(wanted)
            shutil.rmtree(folder / "results")
        else:
            assert code in ((-signal.SIGKILL,) if kind == "KILL" else (130, -signal.SIGINT)), started.stderr
    with run(folder, "--resume", program=FAKE, case_s=0) as last:
        assert last.wait() == 0, last.stderr
    assert identities(folder) == wanted
    # most moments fall into a run, not before its first row or after its last
    assert sum(0 < count < len(wanted) for count in counts) >= 3, counts


def check_readable(folder: Path, wanted: list[list[Any]]) -> int:
    """Check that the file can be read, and that its rows are the first of the wanted ones. Returns their number."""
    path = folder / "results" / "sweep.csv"
    if not path.exists():
        return 0
    rows = frame_of(read_results(path))
    assert rows[IDENTITY].astype({"M": int, "N": int}).values.tolist() == wanted[: len(rows)]
    return len(rows)

"""`kbench run --resume` and `--append` at the command line: a run is cut short, continued, and lengthened."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
from common import Kbench
from fake_executor import FakeMachine, Provider

SWEEP = """
operator: softmax
sweep: {M: 16, N: [64, 100], dtype: float32}
providers: [torch-native, torch-eager, PROVIDER]
baseline: torch-native
measure: {warmup_ms: 1, rep_ms: 2, rounds: 1}
"""

IDENTITY = ["operator", "provider", "params", "M", "N", "dtype", "role", "session", "status"]


def identities(path: Path) -> list[list[Any]]:
    return pd.read_csv(path, keep_default_na=False)[IDENTITY].values.tolist()


def test_resume_and_append(kbench: Kbench, fake_machine: FakeMachine, write_config, tmp_path: Path) -> None:
    fake_machine.providers["mine"] = Provider(source_hash="first")
    path = write_config(SWEEP.replace("PROVIDER", "mine"))
    csv, beside = tmp_path / "results" / "sweep.csv", tmp_path / "results" / "sweep.env.json"

    done = kbench("run", path, "--append", "--no-plot")
    assert done.returncode == 2 and f"{Path('results/sweep.csv')}: no such file" in done.stderr
    assert kbench("run", path, "--append", "--resume").returncode == 2

    # nothing to resume: a fresh run
    done = kbench("run", path, "--resume", "--no-plot", "--sessions", 1)
    assert done.returncode == 0, done.stderr
    whole, wanted = csv.read_bytes(), identities(csv)
    assert len(wanted) == 12

    # complete: says so, measures nothing
    done = kbench("run", path, "--resume", "--no-plot")
    assert done.returncode == 0 and "nothing left to measure" in done.stderr
    assert "time in us" in done.stdout and fake_machine.finished == 2
    assert csv.read_bytes() == whole and "continued" not in json.loads(beside.read_text())

    # cut within the second case
    kept = b"".join(whole.splitlines(keepends=True)[:7])
    csv.write_bytes(whole[: len(kept) + 100])
    done = kbench("run", path, "--resume", "--no-plot")
    assert done.returncode == 0, done.stderr
    assert "sweep.csv:8: the incomplete case that begins here" in done.stderr
    assert csv.read_bytes().startswith(kept) and identities(csv) == wanted
    assert len(list(csv.parent.iterdir())) == 2 and fake_machine.finished == 3

    # two more sessions
    whole = csv.read_bytes()
    done = kbench("run", path, "--append", "--sessions", 2, "--no-plot")
    assert done.returncode == 0, done.stderr
    assert csv.read_bytes().startswith(whole)
    assert identities(csv) == [[*r[:7], n, r[8]] for n in range(3) for r in wanted]
    environment = json.loads(beside.read_text())
    assert environment["measure"]["sessions"] == 3 and environment["interrupted"] is False
    assert [entry["command"][3:] for entry in environment["continued"]] == [
        ["--resume", "--no-plot"],
        ["--append", "--sessions", "2", "--no-plot"],
    ]
    assert {"date", "git"} <= set(environment["continued"][0])

    # a plug-in that was edited, and a setting that was: refused, and nothing is touched
    fake_machine.providers["mine"] = Provider(source_hash="faster now")
    before = csv.read_bytes(), beside.read_bytes()
    done = kbench("run", path, "--append", "--no-plot")
    assert done.returncode == 2 and "the code of mine has changed" in done.stderr
    assert len([line for line in done.stderr.splitlines() if line.startswith("error")]) == 1
    done = kbench("run", path, "--append", "--no-plot", "--set", "rep_ms=3")
    assert done.returncode == 2 and "rep_ms was 2.0 and is now 3" in done.stderr
    assert (csv.read_bytes(), beside.read_bytes()) == before


def test_the_exit_code_of_a_resumed_run_counts_what_was_there(
    kbench: Kbench, fake_machine: FakeMachine, write_config
) -> None:
    path = write_config(SWEEP.replace("PROVIDER", "zeros"))
    assert kbench("run", path, "--no-plot").returncode == 1
    done = kbench("run", path, "--no-plot", "--resume")
    assert done.returncode == 1 and "zeros: wrong" in done.stdout and fake_machine.finished == 2

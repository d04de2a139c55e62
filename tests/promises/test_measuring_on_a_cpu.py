"""A run on a machine without an accelerator: how long it takes, what it writes, and what it says."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest

from promises.outside import Kbench, MadeOnce, providers_of, rows_of, run_kbench, write_results

PLUGIN = """
import kbench

tiny = kbench.Operator(
    "tiny",
    axes=("M", "N"),
    inputs={"x": kbench.Tensor("M", "N")},
    outputs={"y": kbench.Tensor("M", "N")},
    reference=lambda x: x.abs(),
    rows="M",
)


@tiny.provider("torch-native")
def native(x):
    return x.abs()


@tiny.provider("mine")
def mine(x):
    for _ in range(3):
        y = x.abs()
    return y
"""

CONFIG = """
operator: tiny
plugins: [tiny.py]
sweep: {M: 64, N: [1000, 4096], dtype: float32}
providers: [torch-native, mine]
measure: {rounds: 3, warmup_ms: 5, rep_ms: 15}
"""

MOST_CPU_S = 12
"""Of a whole run with a cold cache, with the start of two programs and the import of torch. A flush of a last-level cache of
480 MiB alone took 25 s."""


@pytest.fixture
def measured(made_once: MadeOnce) -> Path:
    import torch

    if torch.accelerator.is_available():
        pytest.skip("this machine measures an accelerator")

    def make(folder: Path) -> None:
        (folder / "tiny.py").write_text(PLUGIN)
        (folder / "tiny.yaml").write_text(CONFIG)
        ended = run_kbench("run", "tiny.yaml", "--no-plot", folder=folder)
        assert ended.code == 0, ended.text
        (folder / "progress.txt").write_text(ended.err)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        ended = run_kbench("run", "tiny.yaml", "--no-plot", "--set", "cache=cold", "--out", "cold", folder=folder)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert ended.code == 0, ended.text
        spent_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        (folder / "spent.json").write_text(json.dumps(spent_s))

    return made_once("cpu", make)


def test_calls_on_a_cpu_are_warm_unless_the_config_says_cold(measured: Path) -> None:
    assert {row["cache"] for row in rows_of(measured / "results" / "tiny.csv")} == {"warm"}
    assert {row["cache"] for row in rows_of(measured / "cold" / "tiny.csv")} == {"cold"}


def test_a_warm_cache_on_a_cpu_raises_no_flag(measured: Path) -> None:
    assert not [row for row in providers_of(measured / "results" / "tiny.csv") if "l2-resident" in row["flags"]]


def test_two_tiny_cases_take_seconds_also_where_the_cache_is_large_and_flushed(measured: Path) -> None:
    assert json.loads((measured / "spent.json").read_text()) < MOST_CPU_S


def test_times_have_no_digits_beyond_a_picosecond(measured: Path) -> None:
    for row in rows_of(measured / "results" / "tiny.csv"):
        times = [row[name] for name in ("ms", "ms_p20", "ms_p80", "ms_min", "build_ms")]
        for cell in [*times, *row["round_ms"].split(";")]:
            assert not cell or round(float(cell), 9) == float(cell), cell


def test_progress_gives_times_and_leaves_the_winner_to_the_summary(measured: Path) -> None:
    lines = [line for line in (measured / "progress.txt").read_text().splitlines() if line.startswith("[")]
    assert len(lines) == 2 and all(" us" in line and "torch-native" in line for line in lines)
    assert not [line for line in lines if "fastest" in line]


def test_why_says_that_a_row_was_measured_on_a_cpu(kbench: Kbench, measured: Path) -> None:
    ended = kbench("why", measured / "results" / "tiny.csv", "--row", "provider=mine,N=1000")
    assert ended.code == 0 and "it was measured on a CPU" in ended.out
    assert "possible reasons" not in ended.out


def test_a_run_that_names_no_fastest_says_how_to_measure_more(kbench: Kbench, folder: Path) -> None:
    rounds = {"torch-native": "1.0;1.3;0.9", "mine": "1.1;0.95;1.2"}
    rows = [
        {"provider": name, "ms": 1.0 + 0.1 * (name == "mine"), "round_ms": text, "gbps": 10, "speedup": 1}
        for name, text in rounds.items()
    ]
    repeat = {
        "provider": "repeat",
        "role": "control",
        "ms": 1.02,
        "round_ms": "1.02;1.28;0.93",
        "gbps": 10,
        "speedup": 1,
    }
    path = write_results(folder / "unclear.csv", [*rows, repeat])
    ended = kbench("show", path)
    assert ended.code == 0 and "--append --sessions 2" in ended.out
    assert "0.91x?" in ended.out  # an unclear ratio is marked

"""The lines of a script's plot: called once, alive while they are timed, paired closure by closure, and told true times."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest

from promises.outside import QUICK, Kbench, MadeOnce, Row, folder_of, kept, providers_of, rows_of, run_process

SCRIPT = """
import ctypes
import time
import weakref

import torch
import triton

print("the script begins")


def plot(name, lines, x_vals=(256, 1024), ylabel="GB/s"):
    return triton.testing.perf_report(
        triton.testing.Benchmark(
            x_names=["N"], x_vals=list(x_vals), line_arg="provider", line_vals=lines, line_names=lines, plot_name=name,
            ylabel=ylabel, args={},
        )
    )


@plot("pointers", ["once", "twice"])
def pointers(N, provider):
    with open("called.txt", "a") as log:
        print(provider, N, file=log)
    x, y = torch.ones(N), torch.zeros(N)
    lives, source, target, size = weakref.ref(x), x.data_ptr(), y.data_ptr(), 4 * N

    def closure():  # it has no tensor, as a kernel that is given an array of pointers
        assert lives() is not None, "the frame of the line is gone"
        for _ in range(1 + (provider == "twice")):
            ctypes.memmove(target, source, size)

    ms, low, high = triton.testing.do_bench(closure, quantiles=[0.5, 0.2, 0.8])
    assert low <= high and bool((y == 1).all())
    gbps = lambda ms: 2 * size * 1e-6 / ms
    return gbps(ms), gbps(high), gbps(low)


@plot("several", ["torch", "mine"], ylabel="ms")
def several(N, provider):
    x = torch.randn(N, requires_grad=True)
    forward = torch.exp if provider == "torch" else lambda x: torch.exp(x).neg().neg()
    first = triton.testing.do_bench(lambda: forward(x))
    y, dy, dirty = forward(x), torch.ones(N), []

    def backward():
        dirty.append(x.grad is not None)
        y.backward(dy, retain_graph=True)

    second = triton.testing.do_bench(backward, grad_to_none=[x])
    assert sum(dirty) < len(dirty) / 10, "gradients are not cleared before each timed call"
    return first + second


@plot("tuned", ["torch", "tuned"], x_vals=(64,), ylabel="ms")
def tuned(N, provider):
    x = torch.randn(N)
    if provider == "torch":
        return triton.testing.do_bench(lambda: torch.relu(x))

    def slow():
        time.sleep(0.01)
        return torch.relu(x)

    candidates = {"slow": slow, "fast": lambda: torch.relu(x)}
    best = min(candidates, key=lambda name: triton.testing.do_bench(candidates[name]))
    print("the tuner picks", best)

    picks = []

    def tunes_itself():
        if not picks:
            picks.append(min(candidates, key=lambda name: triton.testing.do_bench(candidates[name], warmup=1, rep=1)))
        assert picks == ["fast"]
        return candidates[picks[0]]()

    triton.testing.do_bench(tunes_itself)
    return triton.testing.do_bench(candidates[best])


@plot("caught", ["fails", "after"], x_vals=(64,), ylabel="ms")
def caught(N, provider, kind=0):
    if provider == "after":
        return triton.testing.do_bench(lambda: torch.ones(N) + 1)
    try:
        return triton.testing.do_bench(lambda: torch.ones(N) @ torch.ones(N + 1))
    except RuntimeError:
        return 7.5


for each in (pointers, several, tuned, caught):
    frame = each.run(print_data=True, save_path=".", return_df=True)
assert frame.iloc[0, 1] == 7.5, frame
for kind in (3, "auto"):
    caught.run(kind=kind)
raise SystemExit("no more to do")
"""

HANGS = """
import time

import torch
import triton


@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["N"], x_vals=[8, 16], line_arg="provider", line_vals=["torch", "builds", "times"],
        line_names=["torch", "builds", "times"], plot_name="hangs", ylabel="ms", args={},
    )
)
def benchmark(N, provider):
    if provider == "builds" and N == 16:
        time.sleep(1000)
    x, calls = torch.ones(N), []

    def closure():
        calls.append(1)
        if provider == "times" and N == 16:
            time.sleep(1000)
        return x + 1

    return triton.testing.do_bench(closure, warmup=1, rep=1)


frame = benchmark.run(return_df=True)
print("torch at 8:", frame.iloc[0, 1], "builds at 16:", frame.iloc[-1, 2])
"""


@pytest.fixture(scope="module")
def measured(made_once: MadeOnce) -> Path:
    command = ("run", "bench.py", *QUICK, "--no-plot")
    return folder_of(made_once, "script-lines", {"bench.py": SCRIPT}, *command, run=run_process)


def own_table(folder: Path, plot: str) -> list[Row]:
    """The table that Triton writes for the script."""
    with (folder / f"{plot}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_script_runs_once_and_each_line_once_at_each_point_and_its_frame_lives_while_it_is_timed(
    measured: Path,
) -> None:
    assert kept(measured).out.count("the script begins") == 1
    called = (measured / "called.txt").read_text().splitlines()
    assert called == ["once 256", "twice 256", "once 1024", "twice 1024"]
    rows = providers_of(measured / "results" / "pointers.csv")
    assert [(row["provider"], row["status"]) for row in rows] == [("once", "ok"), ("twice", "ok")] * 2


def test_the_table_of_the_script_has_the_numbers_of_the_rows(measured: Path) -> None:
    rows = {(row["N"], row["provider"]): row for row in providers_of(measured / "results" / "pointers.csv")}
    table = own_table(measured, "pointers")
    assert [float(line["N"]) for line in table] == [256, 1024]
    for line in table:
        for provider in ("once", "twice"):
            row = rows[line["N"].partition(".")[0], provider]
            assert float(row["counted"]) == 8 * int(row["N"])
            assert float(line[f"{provider} (GB/s)"]) == pytest.approx(float(row["achieved_gbps"]), rel=1e-4)
    assert "pointers:" in kept(measured).out and (measured / "pointers.png").exists()


def test_a_line_that_times_several_closures_is_paired_closure_by_closure(measured: Path) -> None:
    rows = {
        (row["N"], row["provider"], row["params"]): row for row in providers_of(measured / "results" / "several.csv")
    }
    assert len(rows) == 8 and "calls that do different work" in kept(measured).out
    for N in ("256", "1024"):
        for call in ("call=1", "call=2"):
            torch, mine = rows[N, "torch", call], rows[N, "mine", call]
            assert torch["status"] == mine["status"] == "ok"
            assert float(torch["speedup"]) == 1
            assert float(mine["speedup"]) == pytest.approx(float(torch["ms"]) / float(mine["ms"]))
        assert rows[N, "mine", "call=1"]["agreement"] == "agrees"
    for line in own_table(measured, "several"):
        for provider in ("torch", "mine"):
            ms = sum(float(rows[line["N"].partition(".")[0], provider, f"call={call}"]["ms"]) for call in (1, 2))
            assert float(line[f"{provider} (ms)"]) == pytest.approx(ms, abs=2e-6)


def test_a_tuner_in_a_line_or_in_a_closure_gets_true_times(measured: Path) -> None:
    assert "the tuner picks fast" in kept(measured).out
    rows = [row for row in providers_of(measured / "results" / "tuned.csv") if row["provider"] == "tuned"]
    assert [row["params"] for row in rows] == [f"call={number}" for number in (1, 2, 3, 4)]
    assert {row["status"] for row in rows} == {"ok"}
    slow, *others = (float(row["ms"]) for row in rows)
    assert slow > 2 > max(others)


def test_what_a_closure_raises_is_raised_in_the_script_and_is_the_reason_of_its_row(measured: Path) -> None:
    fails, after = providers_of(measured / "results" / "caught.csv")
    assert fails["status"] == "error" and "bench.py" in fails["reason"] and not fails["ms"]
    assert after["status"] == "ok" and after["agreement"] == "", "there is no output to compare it with"


def test_a_number_and_a_word_for_the_same_argument_are_in_two_files(measured: Path) -> None:
    files = ("caught-2.csv", "caught-3.csv")
    assert [{row["kind"] for row in rows_of(measured / "results" / file)} for file in files] == [{"3"}, {"auto"}]


def test_how_a_script_ends_is_said_and_what_it_has_measured_is_kept(measured: Path) -> None:
    ended = kept(measured)
    assert ended.code == 1 and "no more to do" in ended.err and "Traceback" not in ended.err
    assert {row["role"] for row in rows_of(measured / "results" / "pointers.csv")} == {"provider", "control"}


def test_a_line_that_never_returns_costs_its_own_row(folder: Path) -> None:
    (folder / "bench.py").write_text(HANGS)
    limits = ("--set", "build_timeout_s=6", "--set", "timeout_s=6")
    ended = run_process("run", "bench.py", *QUICK, *limits, "--no-plot", folder=folder)
    assert ended.code == 1
    rows = {(row["provider"], row["N"]): row for row in providers_of(folder / "results" / "hangs.csv")}
    failed = {line: row["status"] for line, row in rows.items() if row["status"] != "ok"}
    assert len(rows) == 6 and failed == {("builds", "16"): "timeout", ("times", "16"): "timeout"}
    assert f"torch at 8: {rows['torch', '8']['ms']} builds at 16: nan" in ended.out


KILLED = """
import os
import pathlib
import signal
import time

import torch
import triton

LAST = pathlib.Path("calls.txt")  # how many calls the closure has in all


@triton.testing.perf_report(
    triton.testing.Benchmark(["N"], [8, 16, 32, 64], "provider", LINES := ["a", "raises", "c"], LINES, "killed", {})
)
def benchmark(N, provider):
    x, calls = torch.ones(N), []
    if provider == "c":
        return triton.testing.do_bench(lambda: x + 1, warmup=1, rep=1)
    if provider == "raises":
        raise ValueError("no closure")

    def closure():
        calls.append(1)
        time.sleep(0.002)
        if N > 8 and len(calls) == int(LAST.read_text()) - (N == 32):
            os.kill(os.getpid(), signal.SIGKILL)
        return x + 1

    ms = triton.testing.do_bench(closure, warmup=1, rep=1)
    LAST.write_text(str(len(calls)))
    return ms


benchmark.run()
"""


def test_a_baseline_that_dies_when_it_is_timed_once_more_costs_its_own_row_and_is_tried_twice(
    folder: Path, kbench: Kbench
) -> None:
    """Of its last two calls, one is that of the control `repeat`. No row is there twice."""
    (folder / "bench.py").write_text(KILLED)
    ended = kbench("run", "bench.py", *QUICK, "--set", "rounds=1", "--no-plot")
    assert ended.code == 1 and "Traceback" not in ended.err
    assert ended.err.count("starting the script again") == 2
    rows = providers_of(folder / "results" / "killed.csv")
    of_baseline = {"8": "ok", "16": "crashed", "32": "crashed", "64": "crashed"}
    assert [(row["N"], row["provider"], row["status"]) for row in rows] == [
        (N, *line) for N in of_baseline for line in (("a", of_baseline[N]), ("raises", "error"), ("c", "ok"))
    ]
    assert [row["N"] for row in rows if "not tried again" in row["reason"]] == ["64"]


def test_exec_measures_the_lines_of_a_plot_beside_each_other(folder: Path, kbench: Kbench) -> None:
    (folder / "bench.py").write_text(HANGS.replace("1000", "0").replace("[8, 16]", "[8]"))
    ended = kbench("exec", "--", sys.executable, "bench.py")
    assert ended.code == 0, ended.err
    rows = rows_of(folder / "results" / "hangs.csv")
    assert [row["provider"] for row in rows] == ["torch", "builds", "times", "empty", "repeat"]
    assert all(row["agreement"] == "agrees" for row in rows if row["provider"] in ("builds", "times"))
    assert {row["N"] for row in rows} == {"8"}


@pytest.mark.parametrize("option", ["--resume", "--dry-run", "--only=torch", "--set=N=3"])
def test_an_option_that_needs_a_plan_is_refused_for_a_script(folder: Path, kbench: Kbench, option: str) -> None:
    (folder / "bench.py").write_text(HANGS)
    ended = kbench("run", "bench.py", option)
    assert ended.code == 2 and "script" in ended.err and not (folder / "results").exists()

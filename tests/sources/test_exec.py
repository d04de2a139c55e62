"""`kbench exec` and `kbench.do_bench`: calls of do_bench that are measured where a program makes them."""

from __future__ import annotations

import csv
import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from common import Kbench

from kbench.measure.scripts.closures import label_of

pytest.importorskip("triton")


def rows_of(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / "results" / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


TIMES_IN_THREADS = """
import threading
import torch
from kbench import do_bench
x = torch.ones(100)
threads = [threading.Thread(target=lambda: do_bench(lambda: x.sum(), rep=2, warmup=1)) for _ in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@pytest.mark.slow
def test_threads_that_measure_at_the_same_time_wait_for_each_other(kbench: Kbench, tmp_path: Path) -> None:
    (tmp_path / "bench.py").write_text(TIMES_IN_THREADS)
    run = kbench("exec", "--", sys.executable, "bench.py")
    assert run.returncode == 0, run.stderr
    rows = rows_of(tmp_path, "bench")
    assert {row["session"] for row in rows} == {"0"} and [row["status"] for row in rows] == ["ok"] * 6


TIMES_IN_A_HELPER = """
import torch
from kbench import do_bench
x = torch.ones(100)
def bench(fn):
    do_bench(fn, rep=1, warmup=1)
for _ in range(2):
    bench(lambda: x.sum())
    bench(lambda: x.abs())
bench(torch.nn.functional.relu.__get__(x))
"""


@pytest.mark.slow
def test_calls_of_a_helper_are_told_apart_by_where_the_closures_are_written(kbench: Kbench, tmp_path: Path) -> None:
    (tmp_path / "helps.py").write_text(TIMES_IN_A_HELPER)
    run = kbench("exec", "--", sys.executable, "helps.py")
    assert run.returncode == 0, run.stderr
    rows = [(row["provider"], row["order"]) for row in rows_of(tmp_path, "helps")]
    assert rows == [(f"helps.py:{line}", order) for order in "12" for line in (8, 9)] + [("helps.py:6 relu", "1")]
    assert "of copy" not in run.stdout and "ulp" not in run.stdout, "columns that say nothing are left out"
    assert "kbench does not know which calls of do_bench do the same work" in run.stdout
    assert "acc_events" not in run.stderr, "what torch's profiler warns of is no business of the program"


# With threads of torch's own, a fork can hang.
FORKS_AND_FAILS = """
import os; os.environ["OMP_NUM_THREADS"] = "1"; import torch
from kbench import do_bench
x = torch.ones(100)
do_bench(lambda: x + 1, rep=1, warmup=1)
child = os.fork()
do_bench(lambda: x * 2, rep=1, warmup=1)
if not child:
    os._exit(0)
os.wait()
try:
    do_bench(lambda: torch.ones(2) + torch.ones(3))
except RuntimeError:
    pass
else:
    raise AssertionError("the program must see the exception")
"""


@pytest.mark.slow
def test_a_fork_is_a_session_and_a_call_that_raises_is_a_row_with_the_reason(kbench: Kbench, tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(FORKS_AND_FAILS)
    run = kbench("exec", "--", sys.executable, "odd.py")
    assert run.returncode == 0, run.stderr
    rows = [(row["provider"], row["session"], row["order"], row["status"]) for row in rows_of(tmp_path, "odd")]
    assert sorted(rows) == [
        ("odd.py:12 ones", "0", "1", "error"),
        ("odd.py:5", "0", "1", "ok"),
        ("odd.py:7", "0", "1", "ok"),
        ("odd.py:7", "1", "1", "ok"),
    ]
    assert "odd.py:12 ones: error (1 case): RuntimeError: The size of tensor a (2) must match" in run.stdout


@pytest.mark.slow
def test_the_warning_says_why_no_call_gave_a_time(kbench: Kbench, tmp_path: Path) -> None:
    text = """
import os
os.environ["TRITON_INTERPRET"] = "1"
import torch, triton, triton.language as tl, triton.testing

@triton.jit
def fill(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), 1.0)

x = torch.empty(16)
triton.testing.do_bench(lambda: fill[(1,)](x, 16), warmup=1, rep=1)
"""
    (tmp_path / "interpreted.py").write_text(text)
    run = kbench("exec", "--", sys.executable, "interpreted.py")
    assert run.returncode == 3 and "nothing was measured: " in run.stderr and "TRITON_INTERPRET" in run.stderr


def test_a_script_without_python_before_it_is_told_so(kbench: Kbench, tmp_path: Path) -> None:
    (tmp_path / "my bench.py").write_text("import kbench")
    run = kbench("exec", "--", "my bench.py", "--size", "8")
    assert run.returncode == 2 and run.stderr.count("\n") == 1
    assert "run it with Python: kbench exec -- python 'my bench.py' --size 8" in run.stderr


def test_a_command_in_one_pair_of_quotes_is_told_so(kbench: Kbench) -> None:
    run = kbench("exec", "--", "python bench.py 'a")
    assert run.returncode == 2
    assert "give the program and its arguments as separate words, not as one word in quotes" in run.stderr


DROP_IN = """
import sys, torch
from kbench import do_bench
x = torch.randn(100)
calls = []
def fn():
    calls.append(x + 1)
one = do_bench(fn, warmup=1, rep=2)
assert isinstance(one, float) and one > 0 and calls
low, high = do_bench(fn, rep=2, quantiles=[0.1, 0.9], warmup=1)
assert low <= high
assert isinstance(do_bench(fn, rep=2, quantiles=[0.5], warmup=1), float)
samples = do_bench(fn, rep=2, return_mode="all", warmup=1)
assert min(samples) <= do_bench(fn, rep=2, return_mode="max", warmup=1) * 100
leaf = torch.ones(3, requires_grad=True)
do_bench(lambda: leaf.sum().backward(), rep=2, grad_to_none=[leaf])
assert leaf.grad.tolist() == [1.0] * 3, leaf.grad  # cleared before every call
try:
    do_bench(fn, return_mode="mode")
except ValueError as error:
    assert "mean" in str(error)
else:
    raise AssertionError
"""


@pytest.mark.slow
def test_kbench_do_bench_returns_what_that_of_triton_returns(kbench: Kbench, tmp_path: Path) -> None:
    (tmp_path / "drop_in.py").write_text(DROP_IN)
    alone = subprocess.run([sys.executable, "drop_in.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert alone.returncode == 0, alone.stderr
    assert not (tmp_path / "results").exists()
    assert kbench("exec", "--", sys.executable, "drop_in.py").returncode == 0
    assert len(rows_of(tmp_path, "drop_in")) == 6


def test_a_program_that_ends_well_without_a_call_of_do_bench_is_exit_code_3(kbench: Kbench) -> None:
    assert kbench("exec", "--", sys.executable, "-c", "pass").returncode == 3


def test_a_program_that_a_signal_ends_has_the_exit_code_of_shells(kbench: Kbench) -> None:
    killed = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
    run = kbench("exec", "--", sys.executable, "-c", killed)
    assert run.returncode == 128 + 15 and "ended with signal 15" in run.stderr


@pytest.mark.slow
def test_closures_of_one_line_are_told_apart_by_their_functions_or_words() -> None:
    fn, provider, other = torch.relu, "torch", 3
    assert label_of(lambda: fn(other)) == "relu"
    assert label_of(lambda: {"torch": len}[provider]) == "torch"
    assert label_of(lambda: other) == ""
    assert label_of(functools.partial(torch.add, 1)) == "add"
    assert label_of(lambda: torch.nn.functional.linear(other, other)) == "linear"
    assert label_of(lambda: torch.autograd.grad(other, other, retain_graph=True)) == "grad"
    references = {"rmsnorm": torch.compile(lambda: other)}
    assert label_of(lambda: references["rmsnorm"](other, reduction="none")) == "rmsnorm"
    assert label_of(torch.nn.functional.relu) == "relu", "what a library's function calls itself does not count"

    compiled, module = torch.compile(fn), torch.compile(torch.nn.RMSNorm(3))
    assert label_of(lambda: compiled(other)) == label_of(compiled) == "compiled relu"
    assert label_of(lambda: module(other)) == "compiled RMSNorm"
    assert label_of(torch.compiler.disable(fn)) == "relu"

    def backward() -> torch.Tensor:
        return fn(other)

    assert label_of(backward) == "backward relu"
    inner = lambda: 1  # noqa: E731
    assert label_of(lambda: inner()).startswith("lambda of line ")


@pytest.mark.slow
def test_ctrl_c_ends_the_program_and_keeps_its_rows(tmp_path: Path) -> None:
    text = "import time, triton.testing\ntriton.testing.do_bench(lambda: 1, rep=1)\ntime.sleep(100)\n"
    (tmp_path / "sleepy.py").write_text(text)
    command = [sys.executable, "-m", "kbench", "exec", "--", sys.executable, "sleepy.py"]
    process = subprocess.Popen(command, cwd=tmp_path, start_new_session=True, stderr=subprocess.PIPE)
    path, end = tmp_path / "results" / "sleepy.csv", time.monotonic() + 60
    while not (path.exists() and path.read_text().count("\n") > 1) and time.monotonic() < end:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130
    assert len(rows_of(tmp_path, "sleepy")) == 1
    assert '"interrupted": true' in (tmp_path / "results" / "sleepy.env.json").read_text()


def test_a_folder_that_is_no_problem_is_one_line(kbench: Kbench, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    run = kbench("run", "empty")
    assert run.returncode == 2 and run.stderr.startswith(
        "error: empty: is a folder without a benchmark problem that kbench can read; name"
    )

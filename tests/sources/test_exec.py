"""`kbench exec` and `kbench.do_bench`: calls of do_bench that are measured where a program makes them."""

from __future__ import annotations

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
from promises.outside import rows_of

from kbench.execute.program import program_name
from kbench.measure.scripts.closures import label_of

pytest.importorskip("triton")


# With threads of torch's own, a fork can hang.
CALLS = """
import os; os.environ["OMP_NUM_THREADS"] = "1"; import threading, torch
from kbench import do_bench
x = torch.ones(100)

def bench(fn):
    do_bench(fn, rep=1, warmup=1)

for _ in range(2):
    bench(lambda: x.sum())
    bench(lambda: x.abs())
bench(torch.nn.functional.relu.__get__(x))
threads = [threading.Thread(target=lambda: do_bench(lambda: x.neg(), rep=2, warmup=1)) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
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
def test_calls_in_helpers_threads_and_forks_are_told_apart(kbench: Kbench, tmp_path: Path) -> None:
    """Calls of a helper have the place of the closure, threads wait for each other, and a fork is a session."""
    (tmp_path / "calls.py").write_text(CALLS)
    run = kbench("exec", "--", sys.executable, "calls.py")
    assert run.returncode == 0, run.stderr
    rows = rows_of(tmp_path / "results" / "calls.csv")
    in_order = [(row["provider"], row["order"]) for row in rows if row["session"] == "0"]
    assert in_order[:5] == [(f"calls.py:{line}", order) for order in "12" for line in (10, 11)] + [
        ("calls.py:7 relu", "1")
    ]
    in_threads = [row for row in rows if row["provider"].startswith("calls.py:13")]
    assert [row["status"] for row in in_threads] == ["ok"] * 3 and {row["session"] for row in in_threads} == {"0"}
    others = [(row["provider"], row["session"], row["status"]) for row in rows if row not in in_threads][5:]
    assert sorted(others) == [
        ("calls.py:19", "0", "ok"),
        ("calls.py:19", "1", "ok"),
        ("calls.py:24 ones", "0", "error"),
    ]
    assert "calls.py:24 ones: error (1 case): RuntimeError: The size of tensor a (2) must match" in run.stdout
    assert "of copy" not in run.stdout and "ulp" not in run.stdout, "columns that say nothing are left out"
    assert "kbench does not know which calls of timers do the same work" in run.stdout
    assert "acc_events" not in run.stderr, "what torch's profiler warns of is no business of the program"


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python -u tests/bench.py --size 3", "bench"),
        ("python3.12 -u -m pkg.bench -m 64", "pkg.bench"),
        ("mybench -m 64", "mybench"),
        ("python -m", "python"),
        ("/", "program"),
        ("", "program"),
    ],
)
def test_what_the_results_of_a_command_are_called(command: str, name: str) -> None:
    assert program_name(command.split(" ")) == name


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
@pytest.mark.parametrize("words", [["exec", "--", sys.executable], ["run"]], ids=["exec", "run"])
def test_ctrl_c_ends_the_program_and_keeps_its_rows(tmp_path: Path, words: list[str]) -> None:
    text = "import time, triton.testing\ntriton.testing.do_bench(lambda: 1, rep=1)\ntime.sleep(100)\n"
    (tmp_path / "sleepy.py").write_text(text)
    command = [sys.executable, "-m", "kbench", *words, "sleepy.py"]
    process = subprocess.Popen(command, cwd=tmp_path, start_new_session=True, stderr=subprocess.PIPE)
    path, end = tmp_path / "results" / "sleepy.csv", time.monotonic() + 60
    while not (path.exists() and path.read_text().count("\n") > 1) and time.monotonic() < end:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130 and (words[0] == "exec" or b"interrupted; earlier measurements are kept" in err)
    assert len(rows_of(tmp_path / "results" / "sleepy.csv")) == 1
    assert '"interrupted": true' in (tmp_path / "results" / "sleepy.env.json").read_text()

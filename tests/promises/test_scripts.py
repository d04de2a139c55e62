"""Benchmark scripts that people have: `kbench run bench.py` with perf_report, and `kbench exec` for any program."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

from promises.outside import QUICK, Kbench, MadeOnce, folder_of, kept, providers_of, rows_of, run_kbench, run_process

SCRIPT = """
import argparse
import os

import torch
import triton
import triton.language as tl
import triton.testing

parser = argparse.ArgumentParser()
parser.add_argument("--rows", type=int, default=8)
options = parser.parse_args()


@triton.jit
def doubled(out, x, N, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    tl.store(out + columns, tl.load(x + columns, mask=columns < N) * 2, mask=columns < N)


LINES = ["torch", "manual", "other", "raises", "dies", "copies", "kernel"]
LINES += ["clean", "nothing", "random", "buffer", "warm", "bits"]


@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["N"],
        x_vals=[64, 128, 64],
        line_arg="provider",
        line_vals=LINES,
        line_names=LINES,
        ylabel="GB/s",
        plot_name="softmax-lines",
        args={"M": options.rows, "dtype": torch.float32},
    )
)
def softmax(M, N, dtype, provider):
    x = torch.randn(M, N, dtype=dtype)
    buffer, double = torch.empty_like(x), x.double()
    time = triton.testing.do_bench_cudagraph if provider == "warm" else triton.testing.do_bench

    def manual():
        e = torch.exp(x - x.max(1, keepdim=True).values)
        return e / e.sum(1, keepdim=True)

    def dies():
        if N == 128:
            os.kill(os.getpid(), 9)
        return torch.softmax(x, 1)

    def raises():
        raise ValueError("not for this size")

    def kernel():
        out = torch.empty_like(x)
        doubled[(1,)](out, x, M * N, 2048)
        return out

    calls = {
        "torch": lambda: torch.softmax(x, 1),
        "manual": manual,
        "other": lambda: torch.softmax(x, 1) + 1,
        "raises": raises,
        "dies": dies,
        "copies": lambda: torch.softmax(x.clone(), 1),
        "kernel": kernel,
        "clean": lambda: torch.log_softmax(x, 1).exp(),
        "nothing": lambda: torch.softmax(double, 1) is None or None,
        "random": lambda: torch.softmax(torch.randn(M, N), 1),
        "buffer": lambda: torch.exp(torch.log_softmax(x, 1), out=buffer),
        "warm": lambda: torch.log_softmax(x, 1).exp().view_as(x),
        "bits": lambda: torch.softmax(x, 1).view_as(x),
    }
    ms, low, high = time(calls[provider], quantiles=[0.5, 0.2, 0.8])
    count = {"manual": 3, "bits": 16}.get(provider, 2)
    gbps = lambda ms: count * M * N * 4 / ms * 1e-6
    return gbps(ms), gbps(high), gbps(low)


if __name__ == "__main__":
    softmax.run(print_data=True, save_path=".")
"""

PROGRAM = """
import sys

import torch
from triton.testing import do_bench

import helper  # beside the program

median = []
for n in (64, 256):
    x = torch.randn(n, n)
    fn = torch.relu
    low, middle, high = do_bench(lambda: fn(x), quantiles=[0.2, 0.5, 0.8], warmup=1, rep=5)
    assert low <= middle <= high
    every = do_bench(lambda: torch.exp(x), warmup=1, rep=5, return_mode="all")
    assert isinstance(every, list) and len(every) > 1
    median.append(do_bench(lambda: torch.tanh(x), warmup=1, rep=5))
print("arguments", sys.argv[1:], "helper", helper.NAME, "times", len(median), all(ms > 0 for ms in median))
try:
    do_bench(lambda: x @ x[:3])
except RuntimeError as error:
    print("raised", type(error).__name__)
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def script_run(made_once: MadeOnce) -> Path:
    command = ("run", "bench.py", *QUICK, "--no-plot", "--", "--rows", "4")
    return folder_of(made_once, "script", {"bench.py": SCRIPT}, *command, run=run_process)


def lines(folder: Path, provider: str) -> list[dict[str, str]]:
    return [row for row in providers_of(folder / "results" / "softmax-lines.csv") if row["provider"] == provider]


def test_the_results_of_a_script_have_the_name_of_its_plot_and_a_row_for_each_line_and_point(script_run: Path) -> None:
    rows = providers_of(script_run / "results" / "softmax-lines.csv")
    assert [(row["provider"], row["N"]) for row in rows if row["provider"] in ("torch", "manual")] == [
        ("torch", "64"), ("manual", "64"), ("torch", "128"), ("manual", "128"),
    ]  # fmt: skip
    assert {row["dtype"] for row in rows} == {"float32"}
    assert {row["status"] for row in rows if row["provider"] in ("torch", "manual", "other", "copies")} == {"ok"}


def test_what_follows_two_dashes_goes_to_the_script_whose_rows_are_unchecked_and_have_controls(
    script_run: Path,
) -> None:
    assert {row["M"] for row in rows_of(script_run / "results" / "softmax-lines.csv")} == {"4"}
    rows = rows_of(script_run / "results" / "softmax-lines.csv")
    assert {row["provider"] for row in rows if row["role"] == "control"} == {"copy", "empty", "repeat"}
    assert all("unchecked" in row["flags"] for row in rows if row["role"] == "provider" and row["status"] == "ok")


def test_the_bytes_that_a_script_counts_are_found_from_its_rate(script_run: Path) -> None:
    for provider, passes in {"torch": 2, "manual": 3}.items():
        counted = [float(row["counted"]) for row in lines(script_run, provider)]
        assert counted == pytest.approx([passes * 4 * N * 4 for N in (64, 128)])
    for row in lines(script_run, "manual"):  # gbps uses the work of the baseline
        assert math.isclose(float(row["gbps"]), 2 * 4 * int(row["N"]) * 4 / float(row["ms"]) / 1e6, rel_tol=1e-6)


def test_the_output_of_a_line_is_compared_with_that_of_the_baseline(script_run: Path) -> None:
    assert [row["agreement"] for row in lines(script_run, "manual")] == ["agrees", "agrees"]
    assert all(row["agreement"].startswith("differs by ") for row in lines(script_run, "other"))


def test_a_line_that_raises_costs_its_own_rows_and_its_words_and_place_are_the_reason(script_run: Path) -> None:
    assert kept(script_run).code == 1
    for row in lines(script_run, "raises"):
        assert row["status"] == "error" and row["ms"] == ""
        assert "not for this size" in row["reason"] and "bench.py:" in row["reason"]


def test_a_line_that_kills_its_process_costs_its_own_row_and_one_of_triton_is_unsupported_on_a_host(
    script_run: Path,
) -> None:
    small, large = lines(script_run, "dies")
    assert small["status"] == "ok" and large["status"] == "crashed" and "SIGKILL" in large["reason"]
    assert {row["status"] for row in lines(script_run, "kernel")} == {"unsupported"}


def audit_of(printed: str) -> list[str]:
    """The lines of the audit, which stand before the numbers."""
    return printed[printed.index("Before the numbers") : printed.index("\nprovider ")].splitlines()


def test_the_audit_says_before_the_numbers_in_what_the_lines_differ(script_run: Path, folder: Path) -> None:
    audit = audit_of(kept(script_run).out)
    for provider, words in {
        "manual": "counts different amounts of work",
        "other": "returns something else than the baseline",
        "copies": "copies one of its inputs",
        "dies": "runs the same kernels as torch",
        "nothing": "returns something other than a tensor",
        "random": "draws random numbers",
        "buffer": "returns memory that existed before the timed call",
    }.items():
        assert any(provider in line and words in line for line in audit), (provider, audit)
    assert not any(line.strip().startswith("clean ") for line in audit), audit
    # another dtype needs another kernel, whatever its name
    assert not any("nothing runs the same kernels" in line for line in audit), audit
    assert audit_of(run_kbench("show", script_run / "results" / "softmax-lines.csv", folder=folder).out) == audit


def test_bytes_that_are_counted_twice_or_half_as_often_as_the_tensors_have_are_named_and_others_are_not(
    script_run: Path,
) -> None:
    [named] = [line for line in audit_of(kept(script_run).out) if "times the bytes of the tensors" in line]
    assert "For bits," in named and " 8 times " in named and "32,768 for 4,096 bytes at N=128" in named, named


def test_a_timer_that_leaves_the_inputs_in_the_cache_is_noticed(script_run: Path) -> None:
    assert [row["noticed"] for row in lines(script_run, "warm")] == ["warm", "warm"]
    assert not any("warm" in row["noticed"].split(";") for row in lines(script_run, "torch"))


def test_a_value_that_is_twice_in_x_vals_is_measured_once_and_show_and_compare_read_the_results(
    script_run: Path, folder: Path
) -> None:
    assert len(lines(script_run, "torch")) == 2
    assert "64" in "".join(line for line in kept(script_run).err.splitlines() if "once" in line)
    file = script_run / "results" / "softmax-lines.csv"
    assert "manual" in run_kbench("show", file, folder=folder).out
    assert "manual" in run_kbench("compare", f"a={file}", f"b={file}", folder=folder).out


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("def f(:\n", "bench.py:1"),
        ("import os, triton.testing\nos._exit(4)\n", "code 4"),
        ("from triton.testing import *\nperf_report(Benchmark(['N'], [4], 'line', ['a'], ['a'], 'p', {}))\n", "run()"),
    ],
)
def test_a_script_that_cannot_be_measured_is_named_with_its_line(
    folder: Path, kbench: Kbench, source: str, named: str
) -> None:
    (folder / "bench.py").write_text(source)
    ended = kbench("run", "bench.py")
    assert ended.code in (2, 3) and "bench.py" in ended.err and named in ended.err and "Traceback" not in ended.err
    assert not list(folder.glob("results/*"))


def test_a_folder_without_a_problem_is_named(folder: Path, kbench: Kbench) -> None:
    (folder / "empty").mkdir()
    ended = kbench("run", "empty")
    assert ended.code == 2 and "empty" in ended.err and "folder" in ended.err


def test_a_config_takes_no_arguments(kbench: Kbench) -> None:
    ended = kbench("run", "softmax", "--", "--size", "3")
    assert ended.code == 2 and "arguments" in ended.err and "--set" in ended.err


UNUSUAL = """
import inspect
import itertools
import os
import sys
from multiprocessing import get_context

import matplotlib.pyplot as plt
import torch
import triton


def annotated(size: int = 3):
    return size


def timed(size):
    x = torch.ones(size)
    return triton.testing.do_bench(lambda: x + 1, warmup=1, rep=1)


def sweep(name, dtype):
    sizes = (2**i for i in (4, 5))  # a generator, with one value for three names
    fixed = {"dtype": dtype, "params": True, "shape": [2, 3]}
    functions = [torch.matmul, torch.mm]
    return triton.testing.Benchmark(
        ["M", "N", "K"], sizes, "function", functions, ["a", "b"], f"mat/mul ({name})", fixed, ylabel="TFLOPS"
    )


@triton.testing.perf_report(itertools.starmap(sweep, (("fp32", torch.float32), ("fp64", torch.float64))))
def bench(M, N, K, function, dtype, params, shape):
    if N == 32 and function is torch.mm:
        raise RuntimeError("no mm for 32")
    a, b = torch.randn(M, K, dtype=dtype), torch.randn(K, N, dtype=dtype)
    return 2 * M * N * K * 1e-9 / triton.testing.do_bench(lambda: function(a, b), warmup=1, rep=1)


if __name__ == "__main__":
    assert inspect.signature(annotated).parameters["size"].annotation is int
    assert sys.argv == ["folder/unusual.py", "--x"] and os.path.isabs(__file__), (sys.argv, __file__)
    frames = bench.run(return_df=True, show_plots=True)
    with get_context("spawn").Pool(1) as pool:
        assert pool.map(timed, [10])[0] > 0
    plt.savefig("picture.png")
    os.chdir(os.sep)
    import beside

    assert "return size" in inspect.getsource(annotated) and beside.NAME
    assert [list(frame["N"]) for frame in frames] == [[16, 32], [16, 32]]
    sys.exit(3)
"""


@pytest.fixture(scope="module")
def unusual(made_once: MadeOnce) -> Path:
    files = {"folder/unusual.py": UNUSUAL, "folder/beside.py": "NAME = 'beside'\n"}
    return folder_of(made_once, "unusual", files, "run", "folder/unusual.py", *QUICK, "--no-plot", "--", "--x")


def test_a_script_with_generators_processes_and_another_working_folder_runs_as_python_would_run_it(
    unusual: Path,
) -> None:
    ended = kept(unusual)
    assert ended.code == 1 and "unusual.py" in ended.err and "exit code 3" in ended.err, ended.text
    assert (unusual / "picture.png").exists()
    (row,) = providers_of(unusual / "results" / "unusual.csv")
    assert "unusual.py:" in row["provider"] and row["status"] == "ok"


def test_each_plot_of_a_script_has_a_file_and_objects_are_words_and_flops_give_tflops(unusual: Path) -> None:
    for name, dtype in (("fp32", "float32"), ("fp64", "float64")):
        rows = providers_of(unusual / "results" / f"mat-mul-{name}.csv")
        assert [(row["M"], row["N"], row["K"], row["provider"], row["status"]) for row in rows] == [
            ("16", "16", "16", "matmul", "ok"), ("16", "16", "16", "mm", "ok"),
            ("32", "32", "32", "matmul", "ok"), ("32", "32", "32", "mm", "error"),
        ]  # fmt: skip
        assert {(row["dtype"], row["params_"], row["shape"]) for row in rows} == {(dtype, "True", "2-3")}
        timed = [row for row in rows if row["ms"]]
        assert [float(row["counted"]) for row in timed] == [2 * int(row["M"]) ** 3 for row in timed]
        assert all(row["tflops"] and not row["gbps"] for row in timed)


@pytest.fixture(scope="module")
def program_run(made_once: MadeOnce) -> Path:
    """The program ends with exit code 7."""
    files = {"loop.py": PROGRAM, "helper.py": "NAME = 'beside'\n"}
    return folder_of(made_once, "program", files, "exec", "--", sys.executable, "loop.py", "7", run=run_process)


def test_exec_runs_the_program_as_it_is_and_has_its_exit_code(program_run: Path) -> None:
    printed = kept(program_run).out
    assert kept(program_run).code == 7
    assert "arguments ['7'] helper beside times 2 True" in printed


def test_exec_measures_each_call_of_do_bench_in_the_order_of_its_provider(program_run: Path) -> None:
    rows = providers_of(program_run / "results" / "loop.csv")
    relu = [row for row in rows if "relu" in row["provider"]]
    assert [row["order"] for row in relu] == ["1", "2"] and all(float(row["ms"]) > 0 for row in relu)
    assert all("loop.py:" in row["provider"] for row in rows)
    for name in ("relu", "exp", "tanh"):
        assert any(name in row["provider"] for row in rows)


def test_a_closure_that_raises_raises_in_the_program_and_is_the_reason_of_its_row(program_run: Path) -> None:
    assert "raised RuntimeError" in kept(program_run).out
    assert [row["status"] for row in providers_of(program_run / "results" / "loop.csv")].count("error") == 1


def test_run_measures_the_calls_of_a_script_without_a_plot_as_exec_does(program_run: Path, folder: Path) -> None:
    for name in ("loop.py", "helper.py"):
        (folder / name).write_text((program_run / name).read_text())
    assert run_kbench("run", "loop.py", "--no-plot", "--", "0", folder=folder).code == 1  # one of its calls raises
    by_run, by_exec = (providers_of(where / "results" / "loop.csv") for where in (folder, program_run))
    assert [(row["provider"], row["order"]) for row in by_run] == [(row["provider"], row["order"]) for row in by_exec]


BY_HAND = """
import torch

import clock

print(clock.seconds(lambda: torch.ones(3)))
"""

CLOCK = """
from time import perf_counter


def seconds(fn):
    start = perf_counter()
    for _ in range(10):
        fn()
    return (perf_counter() - start) / 10
"""


def test_exec_names_the_lines_where_a_program_may_time_calls_by_hand_and_the_change(folder: Path) -> None:
    for name, text in {"bench": BY_HAND, "clock": CLOCK}.items():
        (folder / f"{name}.py").write_text(text.lstrip())
    ended = run_process("exec", "--", sys.executable, "bench.py", folder=folder)
    [sentence] = [line for line in ended.text.splitlines() if "by hand" in line]
    assert "clock.py:5" in sentence and "perf_counter" in sentence and "from kbench import do_bench" in sentence
    assert ended.code == 3 and "Traceback" not in ended.err


def test_exec_names_a_program_that_does_not_exist_and_says_of_another_that_it_called_no_timer(
    folder: Path, kbench_process: Kbench
) -> None:
    ended = kbench_process("exec", "--", "no-such-program")
    assert ended.code == 2 and "no-such-program" in ended.err
    ended = kbench_process("exec", "--", sys.executable, "-c", "raise SystemExit(5)")
    assert ended.code == 5 and "the program called no timer that kbench knows" in ended.err

"""Timers other than do_bench: kbench measures their calls, and a script gets what its timer would return.

The packages that few have stand here as modules of the same form. Their own functions give 12345 ms.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from promises.outside import QUICK, MadeOnce, Rows, folder_of, kept, providers_of, run_process

FILES = {
    "flashinfer/__init__.py": "",
    "flashinfer/testing/__init__.py": "from .utils import bench_gpu_time, bench_gpu_time_with_cudagraph\n",
    "flashinfer/testing/utils.py": """
def bench_gpu_time(fn, dry_run_iters=None, repeat_iters=None, dry_run_time_ms=25, repeat_time_ms=100, l2_flush=None,
                   sleep_after_run=False, enable_cupti=False, use_cuda_graph=False, num_iters_within_graph=10,
                   input_args=(), input_kwargs=None, cold_l2_cache=True):
    return [12345.0] * 3


def bench_gpu_time_with_cudagraph(fn, dry_run_iters=None, repeat_iters=None, dry_run_time_ms=25, repeat_time_ms=100,
                                  num_iters_within_graph=10, input_args=(), input_kwargs=None, cold_l2_cache=True):
    return [12345.0] * 3
""",
    "flashinfer/autotuner.py": """
from .testing.utils import bench_gpu_time


def tune(fn):
    return bench_gpu_time(fn)
""",
    "tilelang/__init__.py": "",
    "tilelang/profiler/bench.py": """
def do_bench(fn, warmup=25, rep=100, _n_warmup=0, _n_repeat=0, quantiles=None, fast_flush=True, backend="event",
             return_mode="mean", device=None, cache_size=256, early_stop_baseline=None):
    return 12345.0
""",
    "tilelang/profiler/__init__.py": """
import torch
from tilelang.profiler.bench import do_bench


class Profiler:
    def __init__(self, adapter):
        self.adapter = adapter

    def _get_inputs(self, with_output=False, dynamic_symbolic_constraints=None):
        return [torch.ones((dynamic_symbolic_constraints or {"m": 64})["m"])]

    def do_bench(self, func=None, warmup=25, rep=100, n_warmup=0, n_repeat=0, input_tensors=None, backend="event",
                 quantiles=None, return_mode="mean", dynamic_symbolic_constraints=None, device=None):
        return do_bench(lambda: func(*input_tensors), warmup, rep)
""",
    "helion/__init__.py": "",
    "helion/autotuner/__init__.py": "",
    "helion/autotuner/benchmarking.py": """
def do_bench(fn, warmup=25, rep=100, grad_to_none=None, quantiles=None, return_mode="mean", process_group_name=None, *,
             default_cudagraph=False, fixed_repetitions=None):
    return 12345.0


def interleaved_bench(fns, *, repeat, desc=None, default_cudagraph=False):
    return [12345.0 for fn in fns]
""",
    "helion/_testing.py": """
from functools import partial

from .autotuner.benchmarking import do_bench, interleaved_bench


def run_example(kernels, args):
    return interleaved_bench([partial(kernel, *args) for kernel in kernels], repeat=10, default_cudagraph=True)
""",
}

BEGIN = """
import json

import numpy as np
import torch
import torch.nn.functional as F


def report(row, ms, kind):
    print("REPORT", repr((row, float(ms), kind)))


x = torch.randn(64, 64)
"""

FLASHINFER = """
from flashinfer.autotuner import tune
from flashinfer.testing import bench_gpu_time, bench_gpu_time_with_cudagraph
from flashinfer.testing.utils import bench_gpu_time as bench


def scaled(x, scale=1.0):
    return x * scale


times = bench_gpu_time(lambda: torch.selu(x))
report("selu", np.median(times), type(times).__name__)
times = bench_gpu_time(scaled, input_args=(x, 2.0), dry_run_time_ms=2, repeat_time_ms=20)
report("scaled", np.median(times), type(times).__name__)
times = bench_gpu_time(fn=F.silu, dry_run_iters=5, repeat_iters=30, enable_cupti=True, input_kwargs={"input": x})
report("silu", np.median(times), type(times).__name__)
times = bench_gpu_time_with_cudagraph(fn=torch.expm1, input_args=(x,), repeat_time_ms=5)
report("expm1", np.median(times), type(times).__name__)


def helper(fn):
    return float(np.median(bench(fn, use_cuda_graph=True, repeat_time_ms=5)))


report("sinh", helper(lambda: torch.sinh(x)), "list")
print("TUNER", tune(lambda: x))
"""

TORCH = """
import pickle

import torch.utils.benchmark as benchmark
from torch.utils.benchmark import Compare, Timer

results = []
for n in (16, 64):
    y = torch.randn(n, n)
    for name, fn in (("mul/sum", lambda a: (a * a).sum(-1)), ("matmul", lambda a: a @ a)):
        results.append(
            benchmark.Timer(
                stmt="fn(y)", setup="y = y.double()", globals={"fn": fn, "y": y}, label="dot", sub_label=f"[{n}, {n}]",
                description=name,
            ).blocked_autorange(min_run_time=0.02)
        )
        assert pickle.loads(pickle.dumps(results[-1])).description == name
        report(name, results[-1].median * 1e3, type(results[-1]).__name__)
Compare(results).print()


def benchmark_forward(fn, *inputs, repeats=10, **kwinputs):
    timer = benchmark.Timer(
        stmt="fn(*inputs, **kwinputs)", globals={"fn": fn, "inputs": inputs, "kwinputs": kwinputs},
        num_threads=torch.get_num_threads(),
    )
    return timer.timeit(repeats)


m = benchmark_forward(torch.softmax, x.bfloat16(), dim=1)
assert m.number_per_run == 10
report("softmax", m.mean * 1e3, type(m).__name__)
m = Timer("z = z + 1\\nz = F.gelu(z)", "z = x.clone()", globals={"x": x, "F": F}, env="main", label="gelu").adaptive_autorange()
report("gelu", m.median * 1e3, type(m).__name__)
threads = Timer("seen.append(torch.get_num_threads())", globals={"seen": (seen := [])}, num_threads=2, label="threads")
m = threads.blocked_autorange(min_run_time=0.02)
report("threads", m.median * 1e3, type(m).__name__)
assert set(seen) == {2}
"""

TILELANG = """
from tilelang.profiler import Profiler, do_bench


def add_one(x):
    return x + 1


profiler = Profiler(adapter=add_one)
latency = profiler.do_bench()
report("add_one", latency, type(latency).__name__)
latency = profiler.do_bench(torch.ceil, warmup=5, rep=5, input_tensors=[x])
report("ceil", latency, type(latency).__name__)
latency = profiler.do_bench(torch.floor, rep=5, dynamic_symbolic_constraints={"m": 32}, backend="cupti")
report("floor", latency, type(latency).__name__)
latency = do_bench(lambda: torch.round(x), backend="cupti", _n_warmup=5, _n_repeat=5)
report("round", latency, type(latency).__name__)
low, middle, high = do_bench(lambda: torch.trunc(x), rep=5, quantiles=[0.2, 0.5, 0.8], return_mode="median")
assert low <= middle <= high
report("trunc", middle, "float")
"""

OTHERS = """
import functools

import triton.testing
from helion._testing import do_bench, run_example
from torch._inductor.runtime.benchmarking import benchmarker
from torch._inductor.utils import do_bench_using_profiling



class Kernel:  # as Helion makes them
    def __init__(self, function):
        functools.update_wrapper(self, function)
        self.__code__, self.__globals__ = function.__code__, function.__globals__

    def __call__(self, *arguments):
        return self.__wrapped__(*arguments)


@Kernel
def relu(x):
    return torch.relu(x)


for kernel, ms in zip((relu, torch.relu, torch.exp), run_example((relu, torch.relu, torch.exp), (x,)), strict=True):
    report(kernel.__name__, ms, type(ms).__name__)
report("tanh", do_bench(lambda: torch.tanh(x), rep=5), "float")
report("sin", benchmarker.benchmark_gpu(lambda: torch.sin(x), rep=20), "float")
report("cos", benchmarker.benchmark(torch.cos, (x,), {}), "float")
report("neg", do_bench_using_profiling(lambda: torch.neg(x), rep=5), "float")
ms, low, high = triton.testing.do_bench(lambda: torch.abs(x), percentiles=(0.5, 0.2, 0.8), rep=5)
report("abs", ms, "float")
triton.testing.do_bench(lambda: torch.abs(x), quantile=[0.5])
"""


@pytest.fixture
def folder(made_once: MadeOnce) -> Path:
    """The folder of one `kbench exec` of a program with all these timers."""
    files = FILES | {"bench.py": BEGIN + TORCH + FLASHINFER + TILELANG + OTHERS}
    return folder_of(made_once, "timers", files, "exec", "--", sys.executable, "bench.py", run=run_process)


def rows_of_program(folder: Path) -> Rows:
    return [row for file in sorted(folder.glob("results/bench*.csv")) for row in providers_of(file)]


def test_each_call_of_a_timer_is_a_row_whose_time_the_script_gets_in_the_type_of_its_timer(folder: Path) -> None:
    reports = [ast.literal_eval(line[7:]) for line in kept(folder).out.splitlines() if line.startswith("REPORT ")]
    rows = [row for row in rows_of_program(folder) if row["status"] == "ok"]
    assert len(reports) == len(rows) >= 20, kept(folder).text
    assert {type_ for _, _, type_ in reports} == {"Measurement", "list", "float"}
    for provider, ms, _ in reports:
        assert any(provider in row["provider"] and float(row["ms"]) == pytest.approx(ms) for row in rows), provider


def test_the_words_of_a_torch_timer_are_the_provider_and_its_case_and_its_table_has_the_times(
    folder: Path,
) -> None:
    rows = [row for row in rows_of_program(folder) if row.get("label") == "dot"]
    cases = [(row["sub_label"], row["provider"], row["order"], row["dtype"]) for row in rows]
    assert cases == [(size, name, "1", "float64") for size in ("16 16", "64 64") for name in ("mul/sum", "matmul")]
    assert [row["provider"] for row in rows_of_program(folder) if row.get("env") == "main"] == ["gelu"]
    (table,) = [line for line in kept(folder).out.splitlines() if line.strip().startswith("[64, 64]")]
    times_us = [float(cell) for cell in table.split("|")[1:]]
    assert times_us == pytest.approx([float(row["ms"]) * 1e3 for row in rows[2:]], abs=0.06, rel=0.1)


def test_a_tuner_of_the_package_of_a_timer_keeps_its_own_times(folder: Path) -> None:
    assert "TUNER [12345.0, 12345.0, 12345.0]" in kept(folder).out


def test_the_time_of_a_graph_of_one_call_is_not_compared_with_calls_that_the_host_launches(folder: Path) -> None:
    rows = {name: row["script_ms"] for row in rows_of_program(folder) for name in row["provider"].split()[1:2]}
    assert rows["relu"] == rows["exp"] == "" and float(rows["tanh"]) > 0, "Helion's run_example replays graphs"


def test_functions_of_one_name_that_a_timer_takes_turns_with_are_compared_in_one_case(folder: Path) -> None:
    rows = [row for row in rows_of_program(folder) if "relu" in row["provider"]]
    assert [row["provider"].split()[1:] for row in rows] == [["relu", "1"], ["relu", "2"]]
    assert {row["order"] for row in rows} == {"1"}


def test_a_misspelt_argument_of_a_timer_is_named_with_its_line(folder: Path) -> None:
    last = len((folder / "bench.py").read_text().splitlines())
    ended = kept(folder)
    assert (
        ended.code == 1
        and f'bench.py", line {last}' in ended.err
        and "do_bench" in ended.err
        and "'quantile'" in ended.err
    )


UNITS = """
import torch
import triton
from torch.utils.benchmark import Timer

LINES = ["once", "ten", "rounded", "twice", "timer", "misspelt"]


@triton.testing.perf_report(
    triton.testing.Benchmark(["N"], [2000, 8000], "line", LINES, LINES, "units", {}, ylabel="Time (us)")
)
def bench(N, line):
    x, one, do_bench = torch.randn(N), torch.zeros(1), triton.testing.do_bench
    once = lambda: torch.exp(x)
    ten = lambda: [torch.exp(x) for _ in range(10)]
    if line == "ten":
        return do_bench(ten) / 10 * 1e3
    if line == "rounded":
        return {"us": round(do_bench(ten) / 10 * 1e3, 3)}["us"]
    if line == "twice":  # not the same work two times
        return do_bench(lambda: torch.exp(x).add_(one)) / 2 * 1e3
    if line == "timer":
        return Timer("once()", globals={"once": once}).blocked_autorange().median * 1e6
    if line == "misspelt":
        return do_bench(once, quantile=[0.5])
    return do_bench(once) * 1e3


bench.run(save_path=".")
"""


@pytest.fixture(scope="module")
def units(made_once: MadeOnce) -> Path:
    command = ("run", "bench.py", *QUICK, "--no-plot")
    return folder_of(made_once, "script-units", {"bench.py": UNITS}, *command)


def test_where_a_script_divides_a_time_by_the_number_of_calls_the_row_is_the_time_of_one(units: Path) -> None:
    table = (units / "units.csv").read_text().splitlines()
    for line, N in zip(table[1:], ("2000", "8000"), strict=True):
        rows = {row["provider"]: row for row in providers_of(units / "results" / "units.csv") if row["N"] == N}
        own_us = dict(zip(rows, (float(cell or "nan") for cell in line.split(",")[1:]), strict=True))
        for provider in ("once", "ten", "rounded", "timer"):
            assert float(rows[provider]["ms"]) * 1e3 == pytest.approx(own_us[provider], rel=1e-3)
            assert ("divided-by 10" in rows[provider]["noticed"]) == (provider in ("ten", "rounded"))
        assert float(rows["twice"]["ms"]) * 1e3 == pytest.approx(2 * own_us["twice"], rel=1e-3)
        assert float(rows["ten"]["speedup"]) == pytest.approx(float(rows["once"]["ms"]) / float(rows["ten"]["ms"]))
    (sentence,) = [line for line in kept(units).out.splitlines() if "divides" in line and " ten " in line]
    assert " 10" in sentence and "2 of 2" in sentence


def test_a_misspelt_argument_costs_its_line_a_row_with_its_place(units: Path) -> None:
    rows = [row for row in providers_of(units / "results" / "units.csv") if row["provider"] == "misspelt"]
    place = next(number for number, line in enumerate(UNITS.splitlines(), 1) if "quantile=" in line)
    assert {row["status"] for row in rows} == {"error"}
    assert all("'quantile'" in row["reason"] and f"bench.py:{place}" in row["reason"] for row in rows)

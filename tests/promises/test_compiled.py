"""A provider, a line or a program that torch.compile runs uncompiled, or as one kernel for several sizes, is flagged."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from promises.outside import QUICK, MadeOnce, Rows, folder_of, kept, lines_with, providers_of

LIMIT, SIZES = 3, [16, 32, 48, 64, 80]
BEYOND_LIMIT = SIZES[LIMIT:]
"""torch compiles a function for as many sizes, and then no more."""

SIZES_OF_SCRIPT = [16 * factor for factor in range(1, 11)]
"""Its lines run in other threads, for which torch has its own limit: 8."""

FUNCTIONS = """\
import torch

def f(x):
    return torch.log_softmax(x, -1).exp()

def g(x):
    return torch.log_softmax(x, -1).exp()

def h(x):
    total = x.exp()
    torch._dynamo.graph_break()
    return total / total.sum(-1, keepdim=True)

static = torch.compile(f, dynamic=False, backend="eager")
default = torch.compile(g, backend="eager")
broken = torch.compile(h, dynamic=False, backend="eager")
"""

PLUGIN = f"""
from types import FunctionType

import torch._inductor.compile_fx

import kbench

torch._inductor.compile_fx.compile_fx = lambda graph, *_, **__: graph.forward  # of torch-compile: to generate code takes long

{FUNCTIONS}
torch._dynamo.config.recompile_limit = {LIMIT}
softmax = kbench.operator("softmax")
softmax.provider("static")(lambda x: static(x))
softmax.provider("default")(lambda x: default(x))
softmax.provider("broken", supports=lambda case: None if case.N < {BEYOND_LIMIT[0]} else "too long")(lambda x: broken(x))
@softmax.provider("written")
def written(x):
    assert x.storage_offset() == 0
    return f(x)


@softmax.provider("per-case", factory=True)
def per_case(case):
    copied = FunctionType(f.__code__.replace(), f.__globals__)
    return torch.compile(copied, dynamic=False, backend="eager")
"""

CONFIG = f"""
operator: softmax
plugins: [mine.py]
sweep: {{M: 4, N: {SIZES}}}
providers: [torch-native, static, default, broken, per-case, written, torch-compile]
measure: {{rounds: 2, warmup_ms: 1, rep_ms: 2, cache: warm}}
"""

SCRIPT = f"""
{FUNCTIONS}
import triton

functions = {{"written": f, "static": static, "default": default}}

@triton.testing.perf_report(triton.testing.Benchmark(
    x_names=["N"], x_vals={SIZES_OF_SCRIPT}, line_arg="name", line_vals=list(functions), line_names=list(functions),
    plot_name="lines", args={{}}, ylabel="ms",
))
def lines(N, name):
    x = torch.randn(4, N)
    return triton.testing.do_bench(lambda: functions[name](x), warmup=1, rep=1)

lines.run(print_data=False)

# outside of the plot, with functions that nothing has compiled yet
{FUNCTIONS}
for N in {SIZES_OF_SCRIPT}:
    x = torch.randn(4, N)
    triton.testing.do_bench(lambda: static(x), warmup=1, rep=1)
    triton.testing.do_bench(lambda: default(x), warmup=1, rep=1)
"""

pytestmark = pytest.mark.slow


@pytest.fixture
def run(made_once: MadeOnce) -> Path:
    return folder_of(made_once, "compiled", {"mine.py": PLUGIN, "sizes.yaml": CONFIG}, "run", "sizes.yaml", "--no-plot")


def flagged(rows: Rows, provider: str, flag: str, axis: str = "N") -> list[int]:
    """The cases in which a provider has a flag."""
    return [int(row[axis]) for row in rows if row["provider"] == provider and flag in row["flags"].split(";")]


def without_word_of_torch_compile(rows: Iterable[dict[str, str]]) -> bool:
    return not any({"eager", "dynamic-shapes"} & set(row["flags"].split(";")) for row in rows)


def test_a_provider_is_eager_in_the_cases_that_torch_compile_runs_uncompiled(run: Path) -> None:
    rows = providers_of(run / "results" / "sizes.csv")
    assert flagged(rows, "static", "eager") == BEYOND_LIMIT
    reasons = {row["reason"] for row in rows if row["provider"] == "static" and int(row["N"]) in BEYOND_LIMIT}
    assert len(reasons) == 1
    assert "f (mine.py:" in reasons.pop()
    [sentence] = lines_with(kept(run).out, "static", "recompile")
    assert f"{len(BEYOND_LIMIT)} cases" in sentence


def test_a_provider_has_dynamic_shapes_where_one_kernel_serves_several_sizes(run: Path) -> None:
    rows = providers_of(run / "results" / "sizes.csv")
    assert flagged(rows, "default", "dynamic-shapes") == SIZES[1:]
    assert flagged(rows, "default", "eager") == []
    [sentence] = lines_with(kept(run).out, "default", "several")
    assert f"{len(SIZES) - 1} cases" in sentence


def test_a_provider_with_a_kernel_for_each_case_has_no_flag_of_torch_compile(run: Path) -> None:
    """A graph break is none, nor is a function that is called as it is written and that another provider has compiled."""
    rows = providers_of(run / "results" / "sizes.csv")
    for provider in ("broken", "per-case", "written", "torch-native", "torch-compile"):
        timed = [row for row in rows if row["provider"] == provider and row["status"] == "ok"]
        assert len(timed) == (LIMIT if provider == "broken" else len(SIZES))
        assert without_word_of_torch_compile(timed), provider


def test_inputs_begin_with_their_memory_so_that_torch_compile_takes_them_for_aligned(run: Path) -> None:
    rows = [row for row in providers_of(run / "results" / "sizes.csv") if row["provider"] == "written"]
    assert [row["status"] for row in rows] == ["ok"] * len(SIZES)


@pytest.fixture
def script(made_once: MadeOnce) -> Path:
    return folder_of(made_once, "compiled-lines", {"bench.py": SCRIPT}, "run", "bench.py", "--no-plot", *QUICK)


def test_a_line_of_a_script_is_flagged_as_a_provider_is(script: Path) -> None:
    rows = providers_of(script / "results" / "lines.csv")
    assert flagged(rows, "static", "eager") == SIZES_OF_SCRIPT[8:]
    assert flagged(rows, "default", "dynamic-shapes") == SIZES_OF_SCRIPT[1:]
    assert without_word_of_torch_compile(row for row in rows if row["provider"] == "written")
    assert lines_with(kept(script).out, "static", "recompile")


def test_a_closure_outside_of_a_plot_is_flagged_as_a_provider_is(script: Path) -> None:
    rows = providers_of(script / "results" / "bench.csv")
    static, default = dict.fromkeys(row["provider"] for row in rows)
    assert flagged(rows, static, "eager", "order") == [9, 10]
    assert flagged(rows, default, "dynamic-shapes", "order") == list(range(2, 11))
    assert "recompile limit" in kept(script).out

"""The names of `import kbench`: what they take and return, and the errors that they raise."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

import kbench as kb
from promises.outside import ROOT, Kbench, MadeOnce

OLD, NEW = (ROOT / "results" / "h200" / "comparing" / side / "softmax.csv" for side in ("a", "slowed"))
MEASURE = {"rounds": 2, "warmup_ms": 1, "rep_ms": 2, "cache": "warm"}
CONFIG = {
    "operator": "softmax",
    "sweep": {"M": 4, "N": range(64, 129, 32), "dtype": (torch.float32,)},
    "providers": ["torch-native"],
    "baseline": "torch-native",
    "measure": MEASURE,
}


def mine(x: Any) -> Any:
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


def broken(x: Any) -> Any:
    raise RuntimeError("a fuse blew")


@pytest.fixture
def results(made_once: MadeOnce) -> Path:
    """The results of `kbench.run(config, [functions])`, which has returned the same frame as `kbench.load` does."""

    def make(folder: Path) -> None:
        rows = kb.run(CONFIG, [mine, broken], out=folder / "results")
        pd.testing.assert_frame_equal(rows, kb.load(folder / "results"))

    return made_once("python", make) / "results" / "softmax.csv"


def test_every_public_name_resolves_and_dir_and_the_help_list_it() -> None:
    assert {"Operator", "Tensor", "operator", "run", "load", "compare", "plot", "report", "do_bench"} <= set(kb.__all__)
    for name in kb.__all__:
        assert getattr(kb, name) is not None and name in dir(kb)
        assert name.startswith("__") or name in str(kb.__doc__), name
    assert not hasattr(kb, "no_such_name")


def test_functions_are_measured_in_this_process_and_a_line_says_so(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[int] = []

    def counted(x: Any) -> Any:
        calls.append(1)
        return mine(x)

    rows = kb.run(CONFIG, {"counted": counted}, out=folder, sets="N=64")
    assert set(rows[rows.provider == "counted"].status) == {"ok"} and len(calls) > 2
    assert "in this process" in capsys.readouterr().err
    with pytest.raises(kb.UsageError, match="plugins"):
        kb.run(CONFIG, [mine], out=folder, sessions=2)


@pytest.mark.skipif(torch.accelerator.is_available() or not find_spec("triton"), reason="needs Triton and no GPU")
def test_kernels_of_triton_are_checked_in_this_process_on_a_host_and_a_line_names_the_profile(folder: Path) -> None:
    run = "{'operator': 'softmax', 'sweep': {'M': 4, 'N': 64}, 'providers': ['triton'], 'profiles': {'cpu': {}}}, [abs]"
    code = f"import kbench\nfor _ in range(2): print(list(kbench.run({run}).status[:2]))"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines() == ["['checked', 'wrong']"] * 2 and "profile cpu of" in done.stderr, done.stderr


def test_run_gives_rows_of_functions_and_one_that_fails_raises_nothing_and_has_the_reason(results: Path) -> None:
    rows = kb.load(results)
    of_mine = rows[rows.provider == "mine"]
    assert sorted(of_mine.N) == [64, 96, 128] and set(of_mine.status) == {"ok"} and (of_mine.ms > 0).all()
    assert (rows[rows.provider == "torch-native"].status == "ok").all()
    of_broken = rows[rows.provider == "broken"]
    assert len(of_broken) == 3 and set(of_broken.status) == {"error"} and of_broken.ms.isna().all()
    assert of_broken.reason.str.contains("a fuse blew").all()


def test_the_columns_of_a_frame_have_types(results: Path) -> None:
    rows = kb.load(results)
    types = {name: str(rows[name].dtype) for name in ("M", "N", "samples", "session", "deterministic")}
    assert types == {"M": "Int64", "N": "Int64", "samples": "Int64", "session": "int64", "deterministic": "boolean"}
    for name in ("ms", "gbps", "copy_fraction", "speedup", "max_ulp"):
        assert rows[name].dtype == "float64"
    for name in ("provider", "dtype", "status", "reason", "flags"):
        assert all(isinstance(value, str) for value in rows[name].dropna())
    timed = rows[rows.provider == "mine"]
    assert all(isinstance(rounds, tuple) and len(rounds) == 2 for rounds in timed.round_ms)


def test_compare_gives_a_verdict_for_each_row() -> None:
    comparison = kb.compare(OLD, NEW, where="dtype=fp32,N=1024,2048,4096")
    frame = comparison.frame
    assert set(frame.verdict) == {"slower"} and len(frame) == 3
    assert (frame.ratio > 1.02).all() and (frame.ci_low <= frame.ratio).all() and (frame.ratio <= frame.ci_high).all()
    assert (frame.new > frame.old).all() and (frame.q < 0.05).all()
    assert sum(comparison.counts.values()) == len(comparison.rows) == 3


def test_a_comparison_passes_unless_a_verdict_of_fail_on_occurs() -> None:
    assert kb.compare(OLD, NEW).passed
    assert not kb.compare(OLD, NEW, fail_on="slower").passed
    assert kb.compare(OLD, OLD, fail_on=["slower", "missing"], margin="2%").passed


def test_a_comparison_prints_the_text_of_the_command_and_is_one_line_in_repr() -> None:
    comparison = kb.compare(OLD, NEW, where="dtype=fp32,N=1024,2048,4096")
    assert "slower" in str(comparison) and "1024" in str(comparison)
    assert repr(comparison).count("\n") == 0 and "slower" in repr(comparison)
    assert "<table" in comparison._repr_html_()  # what a notebook shows


def test_compare_takes_frames_of_selected_rows_and_labels(results: Path) -> None:
    rows = kb.load(results)
    chosen = rows[(rows.N == 64) & (rows.provider == "mine")]
    comparison = kb.compare({"first": chosen, "second": chosen})
    assert len(comparison.rows) == 1 and "first" in str(comparison) and "second" in str(comparison)


def test_plot_and_report_return_the_paths_of_what_they_write(results: Path, folder: Path) -> None:
    pictures = kb.plot(kb.load(results), by="dtype,M", formats="png,svg,pdf", out=folder)
    assert sorted(Path(picture).suffix for picture in pictures) == [".pdf", ".png", ".svg"]
    assert pictures._repr_html_().count('src="data:image/png;base64,i') == pictures._repr_html_().count("<") == 1
    assert {Path(picture).parent for picture in pictures} == {folder}
    page = kb.report(kb.load(results), out=folder / "page.html", title="Two softmaxes")
    assert page == folder / "page.html" and "Two softmaxes" in page.read_text()


PROBLEM = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x.relu()

def get_inputs():
    return [torch.rand(16, 16)]

def get_init_inputs():
    return []
"""


def test_run_takes_a_problem_of_another_benchmark_but_no_functions_beside_it(folder: Path) -> None:
    problem = folder / "problem.py"
    problem.write_text(PROBLEM)
    with pytest.raises(kb.KbenchError, match=r"problem\.py: functions can be measured with a config only"):
        kb.run(problem, [mine])
    rows = kb.run(problem, sets=["rounds=1", "warmup_ms=1", "rep_ms=2"], out=folder / "results")
    assert {*rows.provider} == {"reference", "copy", "empty", "repeat"} and rows.ms.notna().all()


def test_an_error_has_a_public_type_and_names_the_mistake() -> None:
    calls: list[tuple[Callable[[], object], type[Exception], tuple[str, ...]]] = [
        (lambda: kb.run({**CONFIG, "measure": {"roundz": 5}}), kb.ConfigError, ("roundz", "rounds", "measure")),
        (lambda: kb.run({"operator": "softmax"}), kb.ConfigError, ("sweep", "providers")),
        (lambda: kb.run("softmx"), kb.ConfigError, ("softmx", "softmax")),
        (lambda: kb.run(CONFIG, [3]), kb.ConfigError, ("3",)),
        (lambda: kb.run(CONFIG, continuing="resum"), kb.UsageError, ("continuing", "resum", "resume")),  # type: ignore[arg-type]
        (lambda: kb.load("nope.csv"), kb.ResultsError, ("nope.csv",)),
        (lambda: kb.load(Path(__file__)), kb.ResultsError, ("test_python.py:1",)),
        (lambda: kb.compare(pd.concat([kb.load(OLD)] * 2), NEW), kb.ResultsError, ("session 0", "line 2")),
        (lambda: kb.plot(kb.load(OLD).sort_index(axis="columns")), kb.ResultsError, ("columns", "another order")),
        (lambda: kb.compare(OLD, kb.load(NEW).drop(columns="ms")), kb.UsageError, ("softmax", "no column ms")),
        (lambda: kb.compare(OLD, kb.load(NEW).assign(ms="fast")), kb.ResultsError, ("softmax.csv:2", "ms is 'fast'")),
        (lambda: kb.compare({"a=b": kb.load(OLD)}), kb.UsageError, ("a=b", "equals sign")),
        (lambda: kb.compare(OLD, NEW, metric="mss"), kb.UsageError, ("metric", "mss", "ms")),
        (lambda: kb.compare(OLD, NEW, margin="small"), kb.UsageError, ("margin", "small", "2%")),
        (lambda: kb.plot(OLD, kind="pie"), kb.UsageError, ("pie", "lines")),
    ]
    for call, error, words in calls:
        with pytest.raises(error) as caught:
            call()
        assert all(word in str(caught.value) for word in words), caught.value
        assert isinstance(caught.value, kb.KbenchError) and caught.value.exit_status == 2
    for name in ("UsageError", "ConfigError", "ResultsError", "Busy", "WorkerLost", "ExecutionError"):
        assert issubclass(getattr(kb, name), kb.KbenchError), "all errors have one base"


@pytest.mark.parametrize("sessions", [0, 1000])
def test_a_wrong_number_of_sessions_is_blamed_on_the_argument_or_the_option(kbench: Kbench, sessions: int) -> None:
    with pytest.raises(kb.ConfigError) as error:
        kb.run(CONFIG, sessions=sessions)
    assert f"sessions={sessions}" in str(error.value) and "set " not in str(error.value)
    ended = kbench("run", "softmax", "--sessions", sessions)
    assert ended.code == 2 and "--sessions" in ended.err and "--set" not in ended.err


def test_do_bench_has_the_signature_of_triton_and_times_a_function() -> None:
    x = torch.zeros(1000)
    quantiles = kb.do_bench(lambda: x + 1, warmup=1, rep=4, quantiles=[0.5, 0.2, 0.8])
    assert quantiles[1] <= quantiles[0] <= quantiles[2] and quantiles[1] > 0
    assert kb.do_bench(lambda: x + 1, warmup=1, rep=4, return_mode="min") > 0
    assert len(kb.do_bench(lambda: x + 1, warmup=1, rep=4, return_mode="all")) >= 1
    with pytest.raises(ValueError, match="median"):
        kb.do_bench(lambda: x + 1, warmup=1, rep=4, return_mode="mode")


def test_an_operator_that_nobody_declared_is_named() -> None:
    assert kb.operator("softmax").name == "softmax"
    with pytest.raises(LookupError, match="found_by_its_nam"):
        kb.operator("found_by_its_nam")

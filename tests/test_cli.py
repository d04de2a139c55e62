"""The commands as a user meets them: a clean folder, no terminal, real processes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from common import PLUGINS, Kbench, run_kbench
from fake_executor import FakeMachine
from warm_processes import WarmProcesses

from kbench.contract import registry
from kbench.contract.origin import shipped

WriteConfig = Callable[[str], Path]
Done = subprocess.CompletedProcess[str]

SMALL = """
operator: softmax
sweep: {M: 16, N: [64, 100], dtype: float32}
providers: [triton, torch-native, torch-eager, cuda]
baseline: torch-native
measure: {warmup_ms: 1, rep_ms: 10, rounds: 2}
"""


def accelerated() -> bool:
    import torch

    return torch.accelerator.is_available()


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, warm: WarmProcesses) -> tuple[Path, Done]:
    """A real run of SMALL: the folder, and what the program said."""
    folder = tmp_path_factory.mktemp("measured")
    (folder / "sweep.yaml").write_text(SMALL)
    with warm.workers():
        return folder, run_kbench(["run", "sweep.yaml"], folder)


@pytest.mark.slow
def test_numbers_of_a_row_agree_with_each_other(measured: tuple[Path, Done]) -> None:
    rows = pd.read_csv(measured[0] / "results" / "sweep.csv").set_index(["N", "provider"])
    for n in (64, 100):
        eager, native, copy = (rows.loc[(n, name)] for name in ("torch-eager", "torch-native", "copy"))
        medians = [float(ms) for ms in str(eager.round_ms).split(";")]
        assert len(medians) == 2
        assert eager.ms == pytest.approx(sum(medians) / 2)
        assert eager.ms_min <= eager.ms_p20 <= eager.ms_p80
        assert eager.gbps == pytest.approx(2 * 16 * n * 4 / (eager.ms * 1e-3) / 1e9)
        assert eager.gbps_p20 <= eager.gbps_p80
        assert eager.achieved_gbps == pytest.approx(eager.gbps * (8 * 16 * n + 4 * 16) / (2 * 16 * n))
        assert eager.speedup == pytest.approx(native.ms / eager.ms)
        assert native.speedup == 1
        assert eager.copy_fraction == pytest.approx(eager.gbps / copy.gbps)
        assert 0 < eager.max_ulp < 100
        assert eager.samples >= 2
    assert rows.device.nunique() == rows.env_id.nunique() == 1


def test_nothing_measurable_is_exit_code_3(
    kbench: Kbench, fake_machine: FakeMachine, write_config: WriteConfig
) -> None:
    done = kbench("run", write_config(SMALL), "--only", "cuda")
    assert done.returncode == 3, done.stderr
    assert "cuda: unavailable" in done.stdout


@pytest.mark.slow
def test_an_operator_of_ones_own(kbench: Kbench, write_config: WriteConfig, tmp_path: Path) -> None:
    text = """
operator: cumsum
sweep: {ROWS: 8, LENGTH: [64, 65], order: [forward, backward]}
providers: [torch, blocked: {blocks: [2, 4]}]
measure: {warmup_ms: 1, rep_ms: 5, rounds: 1}
"""
    done = kbench("run", write_config(text), "--plugin", PLUGINS / "cumsum.py", "--no-plot")
    assert done.returncode == 0, done.stderr
    rows = pd.read_csv(tmp_path / "results" / "sweep.csv", dtype={"params": str})
    assert list(rows.columns[:7]) == ["operator", "provider", "params", "ROWS", "LENGTH", "order", "dtype"]
    blocked = rows[rows.provider == "blocked"]
    assert set(blocked.params) == {"blocks=2", "blocks=4"}
    assert (blocked[blocked.LENGTH == 64].status == "ok").all()
    odd = blocked[blocked.LENGTH == 65]
    assert (odd.status == "unsupported").all() and (odd.reason == "LENGTH must be even").all()


ROWSUM = """
operator: rowsum
sweep: {M: 4096, N: [64, 1000], dtype: float32}
providers: [torch, matrix, unwritten]
baseline: torch
measure: {warmup_ms: 1, rep_ms: 2, rounds: 1}
"""


@pytest.mark.slow
def test_an_output_has_the_shape_of_the_reference(kbench: Kbench, write_config: WriteConfig, tmp_path: Path) -> None:
    path = write_config(ROWSUM)
    kbench("run", path, "--plugin", PLUGINS / "rowsum.py", "--no-plot")
    rows = pd.read_csv(tmp_path / "results" / "sweep.csv", dtype={"reason": str}, keep_default_na=False)
    by_provider = rows.groupby("provider")
    assert set(by_provider.get_group("torch").status) == {"ok"}
    assert set(by_provider.get_group("matrix").reason) == {"returned shape (4096, 1), expected (4096,)"}
    unwritten = by_provider.get_group("unwritten")
    assert set(unwritten.status) == {"wrong"} and unwritten.reason.str.contains(r"first at \[4095\]").all()

    done = kbench("check", path, "--plugin", PLUGINS / "rowsum.py", "--only", "torch")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("  ok ") == 4, done.stdout  # the heading says ok as well


WITHOUT_COLUMNS = {
    "cross_entropy": "the fill of labels fails on M=4 V=0",  # there is no label
    "quantize_fp8": "reference fails on M=4 N=0",  # there is no largest element
}
"""Operators that are not defined for rows without elements: then kbench says so in one line, with the place in their code."""


@pytest.mark.slow
@pytest.mark.parametrize("operator", sorted({*shipped()} - {"cross_entropy", "quantize_fp8"}))
def test_check_of_inputs_without_columns(kbench: Kbench, write_config: WriteConfig, operator: str) -> None:
    """Not for operators whose rows cannot be empty: a label needs a class, and a scale needs a largest element."""
    *others, last = registry.operator(operator).axes
    axes = ", ".join([*(f"{axis}: 4" for axis in others), f"{last}: 0"])
    provider = next(name for name in registry.operator(operator).providers if name.startswith("torch"))
    path = write_config(f"{{operator: {operator}, sweep: {{{axes}, dtype: float32}}, providers: [{provider}]}}")
    done = kbench("check", path)
    if operator in WITHOUT_COLUMNS:
        assert done.returncode == 2, done.stdout + done.stderr
        [line] = done.stderr.splitlines()
        assert f"{operator}.py:" in line and WITHOUT_COLUMNS[operator] in line
        return
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("axes", "choices", "provider", "complaint"),
    [
        (["M", "ms"], {}, "torch", "operator 'mine': 'ms' is a column of the results already"),
        (["M"], {"dtype": ("a", "b")}, "torch", "operator 'mine': 'dtype' is a column of the results already"),
        (["M", "M"], {}, "torch", "operator 'mine': 'M' is declared twice"),
        (["M"], {"M": ("a", "b")}, "torch", "operator 'mine': 'M' is declared twice"),
        (["M"], {}, "a,b", "provider 'a,b' of 'mine': commas and square brackets are not allowed in a name"),
        (["M"], {}, "a[b=1]", "provider 'a[b=1]' of 'mine': commas and square brackets are not allowed in a name"),
    ],
)
def test_names_that_results_or_options_could_not_hold_are_refused(
    kbench: Kbench, tmp_path: Path, axes: list[str], choices: dict[str, tuple[str, ...]], provider: str, complaint: str
) -> None:
    (tmp_path / "mine.py").write_text(
        "import kbench\nx = kbench.Tensor()\n"
        f"mine = kbench.Operator('mine', {axes}, {{'x': x}}, {{'y': x}}, max, choices={choices})\n"
        f"mine.provider({provider!r})(lambda x: x)\n"
    )
    done = kbench("list", "--plugin", "mine.py")
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    number = 3 if provider == "torch" else 4
    assert f"mine.py:{number}: ValueError: {complaint}" in line


@pytest.mark.slow
def test_sessions_are_fresh_processes(kbench: Kbench, write_config: WriteConfig, tmp_path: Path) -> None:
    mine = tmp_path / "pid.py"
    mine.write_text(
        "import kbench, os, torch\nsoftmax = kbench.operator('softmax')\n\n"
        "@softmax.provider('pid')\ndef pid(x):\n    raise kbench.Unsupported(f'process {os.getpid()}')\n"
    )
    arguments = ("--plugin", mine, "--set", "sessions=2", "--only", "pid,torch-native", "--no-plot")
    done = kbench("run", write_config(SMALL), *arguments)
    assert done.returncode == 0, done.stderr
    rows = pd.read_csv(tmp_path / "results" / "sweep.csv")
    reasons = rows[rows.provider == "pid"].groupby("session").reason.unique()
    assert [len(r) for r in reasons] == [1, 1] and reasons[0] != reasons[1]
    assert (rows[rows.provider == "torch-native"].groupby(["N", "session"]).size() == 1).all()

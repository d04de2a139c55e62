"""The commands as a user meets them: a clean folder, no terminal, real processes."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from common import PLUGINS, Kbench, run_kbench
from fake_executor import FakeMachine
from warm_processes import WarmProcesses

import kbench
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
@pytest.mark.skipif(accelerated(), reason="says what happens without an accelerator")
def test_run_without_an_accelerator(measured: tuple[Path, Done]) -> None:
    folder, done = measured
    assert done.returncode == 0, done.stderr
    rows = pd.read_csv(folder / "results" / "sweep.csv")
    status = rows[rows.role == "provider"].groupby("provider").status.unique().str.join(",").to_dict()
    assert status == {"triton": "checked", "torch-native": "ok", "torch-eager": "ok", "cuda": "unavailable"}
    assert (rows[rows.provider == "cuda"].reason.str.len() > 0).all()
    assert rows[rows.provider == "triton"].ms.isna().all()
    assert set(rows[rows.role == "control"].provider) == {"copy", "empty", "repeat"}
    pivot = rows.query('role=="provider"').pivot(index="N", columns="provider", values="gbps")
    assert (pivot["torch-native"] > 0).all() and list(pivot.index) == [64, 100]
    assert (folder / "results" / "sweep_gbps.png").stat().st_size > 5000
    assert (folder / "results" / "sweep_gbps.svg").exists()
    # the report: fastest provider, what was left out and why, where the files are
    assert "float32" in done.stdout and "time in us" in done.stdout and "torch-native" in done.stdout
    assert "cuda: unavailable (2 cases): " in done.stdout
    assert "triton: checked (2 cases)" in done.stdout
    assert "results/sweep.csv" in done.stdout and "results/sweep_gbps.png" in done.stdout
    # progress is for stderr: one plain line per case, no drawing
    assert "[2/2] softmax M=16 N=100 mode=forward float32: " in done.stderr
    assert not set("│─┃━╭") & set(done.stdout + done.stderr)


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


@pytest.mark.slow
def test_environment_says_how_the_rows_came_about(measured: tuple[Path, Done]) -> None:
    environment = json.loads((measured[0] / "results" / "sweep.env.json").read_text())
    rows = pd.read_csv(measured[0] / "results" / "sweep.csv", dtype={"env_id": str})  # a hash may look like a number
    assert (rows.env_id == environment["env_id"]).all()
    assert environment["config"]["text"] == SMALL
    assert environment["command"][:2] == ["kbench", "run"]
    assert environment["packages"]["torch"]
    assert environment["measure"]["rounds"] == 2
    assert environment["finished_at"] >= environment["started_at"]


def test_earlier_results_are_moved_aside(
    kbench: Kbench, fake_machine: FakeMachine, write_config: WriteConfig, tmp_path: Path
) -> None:
    path = write_config(SMALL)
    kbench("run", path, "--only", "torch-native", "--set", "N=64", "--no-plot")
    first = (tmp_path / "results" / "sweep.csv").read_bytes()
    environment = (tmp_path / "results" / "sweep.env.json").read_bytes()
    os.utime(tmp_path / "results" / "sweep.csv", (10**9, 10**9))  # the two were last written a second or more apart
    again = kbench("run", path, "--only", "torch-native", "--set", "N=64", "--no-plot")
    kept = list((tmp_path / "results").glob("sweep.2*.csv"))
    assert [p.read_bytes() for p in kept] == [first]
    assert kept[0].with_suffix(".env.json").read_bytes() == environment
    assert kept[0].name in again.stdout


@pytest.mark.slow
def test_dry_run_measures_nothing(kbench: Kbench, write_config: WriteConfig, tmp_path: Path) -> None:
    done = kbench("run", write_config(SMALL), "--dry-run")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "results").exists()
    assert "torch-native (baseline): will run" in done.stdout
    assert "2 cases x" in done.stdout and "about" in done.stdout
    if not accelerated():
        assert "cuda: cannot run: needs a device of type cuda" in done.stdout


def test_nothing_measurable_is_exit_code_3(
    kbench: Kbench, fake_machine: FakeMachine, write_config: WriteConfig
) -> None:
    done = kbench("run", write_config(SMALL), "--only", "cuda")
    assert done.returncode == 3, done.stderr
    assert "cuda: unavailable" in done.stdout


@pytest.mark.slow
def test_mistakes_in_the_config_are_located(kbench: Kbench, write_config: WriteConfig) -> None:
    done = kbench("run", write_config(SMALL.replace("triton,", "tritn,")))
    assert done.returncode == 2
    assert 'sweep.yaml:4:13: unknown provider "tritn"; did you mean "triton"?' in done.stderr
    assert "Traceback" not in done.stderr
    assert kbench("run", "nowhere.yaml").returncode == 2
    assert kbench("run", "--no-such-option").returncode == 2


def test_an_unwritable_folder_is_one_line(
    kbench: Kbench, fake_machine: FakeMachine, write_config: WriteConfig, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a folder")
    done = kbench("run", write_config(SMALL), "--out", "file")
    assert done.returncode == 2
    assert done.stderr.strip().splitlines()[-1].startswith("error: ")
    assert (tmp_path / "file").read_text() == "not a folder"


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
def test_kernels_brought_on_the_command_line_are_measured(
    kbench: Kbench, write_config: WriteConfig, tmp_path: Path
) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(
        "import kbench, torch\nsoftmax = kbench.operator('softmax')\n\n"
        "@softmax.provider('mine')\ndef mine(x):\n    return torch.softmax(x, -1)\n"
    )
    done = kbench("run", write_config(SMALL), "--plugin", mine, "--set", "N=64", "--no-plot")
    assert done.returncode == 0, done.stderr
    rows = pd.read_csv(tmp_path / "results" / "sweep.csv").set_index("provider")
    assert rows.loc["mine"].status == "ok"
    assert rows.loc["torch-native"].status == "ok"
    controls = {
        "copy",
        "empty",
        "repeat",
    }  # and none of those that softmax has besides, which the plug-in imported first
    assert set(rows.index) == {"mine", "triton", "torch-native", "torch-eager", "cuda"} | controls


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


@pytest.mark.slow
def test_check_shows_providers_against_inputs(kbench: Kbench, write_config: WriteConfig) -> None:
    only = ("--only", "torch-native,triton,zeros", "--set", "N=64")
    done = kbench("check", write_config(SMALL), "--plugin", PLUGINS / "wrong.py", *only)
    assert done.returncode == 1, done.stderr
    table = done.stdout.splitlines()
    header = next(line for line in table if line.startswith("input"))
    assert header.split() == ["input", "triton", "torch-native", "zeros"]
    for edge in ("random", "large offset", "tail of -inf", "row of -inf", "one NaN", "strided rows", "ascending rows"):
        cells = next(line for line in table if line.startswith(edge))
        assert cells.count("ok ") == 2 and cells.rstrip().endswith("wrong"), cells
    assert any(line.startswith("zeros: wrong on random") for line in table)


@pytest.mark.slow
def test_list_and_doctor(kbench: Kbench) -> None:
    listed = kbench("list", "softmax")
    assert listed.returncode == 0, listed.stderr
    lines = {line.split()[1]: line for line in listed.stdout.splitlines() if line.startswith("softmax")}
    assert {"torch-native", "triton-persistent", "cuda-shuffle", "liger", "quack"} <= set(lines)
    assert "num_warps" in lines["triton-row"]
    if not accelerated():
        assert "no: needs a device of type cuda; this machine has cpu" in lines["cuda"]
        assert "interpreter" in lines["triton"]
    doctor = kbench("doctor")
    assert doctor.returncode == 0, doctor.stderr
    assert "torch" in doctor.stdout and "unavailable here" in doctor.stdout
    if importlib.util.find_spec("liger_kernel") is None:
        missing = ": Python package 'liger_kernel' is not installed; pip install 'liger-kernel>=0.8'"
        [who] = [line for line in doctor.stdout.splitlines() if line.endswith(missing)]
        assert "softmax/liger" in who
    assert kbench("list", "sofmax").stderr == 'error: kbench list: unknown operator "sofmax"; did you mean "softmax"?\n'


@pytest.mark.slow
def test_plot_and_compare_take_the_results_of_run(
    kbench: Kbench, fake_machine: FakeMachine, write_config: WriteConfig, tmp_path: Path
) -> None:
    path = write_config(SMALL)
    for folder in ("a", "b"):
        kbench("run", path, "--only", "torch-native,torch-eager", "--no-plot", "--out", folder)
    assert kbench("plot").returncode == 2  # no results/ here
    drawn = kbench("plot", "a/sweep.csv", "--metric", "ms")
    assert drawn.returncode == 0, drawn.stderr
    assert (tmp_path / "a" / "sweep_ms.png").exists()
    compared = kbench("compare", "a/sweep.csv", "b/sweep.csv", "--export", "markdown=c.md")
    assert compared.returncode == 0, compared.stderr
    assert "torch-eager" in (tmp_path / "c.md").read_text()
    gone = pd.read_csv(tmp_path / "b" / "sweep.csv", dtype=str)
    gone[gone.provider != "torch-eager"].to_csv(tmp_path / "b" / "less.csv", index=False)
    gated = kbench("compare", "a/sweep.csv", "b/less.csv", "--fail-on", "missing")
    assert gated.returncode == 1 and "missing" in gated.stdout


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["explain"], ["schema"], ["list"], ["--version"]])
def test_a_reader_that_has_gone_is_no_failure_of_a_row(arguments: list[str], tmp_path: Path) -> None:
    """It would be exit code 1 otherwise; shells have 141 for a process that a closed pipe ended."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "kbench", *arguments]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.slow
def test_help_is_light() -> None:
    for arguments in (["--help"], ["run", "--help"], ["list", "--help"]):
        command = [sys.executable, "-X", "importtime", "-m", "kbench", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        loaded = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines()}
        heavy = {"torch", "triton", "pandas", "scipy", "matplotlib", "numpy"} & loaded
        assert not heavy


def test_schema_is_json(kbench: Kbench) -> None:
    done = kbench("schema")
    assert json.loads(done.stdout)["$schema"].endswith("2020-12/schema")


def test_python_api(
    fake_machine: FakeMachine, write_config: WriteConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config, csv = write_config(SMALL), tmp_path / "out" / "sweep.csv"
    frame = kbench.run(config, only=["torch-native"], sets=["N=64"], out="out")
    assert len(frame) == 4 and kbench.load(csv).equals(frame)
    more = kbench.run(str(config), only="torch-native", sets="N=64", continuing="append", out=tmp_path / "out")
    assert more.session.unique().tolist() == [0, 1]
    assert len(kbench.plot(csv, by="dtype", formats="png")) == 1
    with pytest.raises(kbench.ResultsError, match="no results file was given; name a CSV"):
        kbench.plot()
    assert kbench.compare(csv, csv).counts == {"same": 1}


@pytest.mark.slow
@pytest.mark.skipif(accelerated(), reason="says what happens without an accelerator")
def test_the_graph_timer_is_refused_with_a_reason(kbench: Kbench, write_config: WriteConfig, tmp_path: Path) -> None:
    done = kbench("run", write_config(SMALL), "--set", "timer=graph", "--set", "N=64", "--no-plot")
    assert done.returncode == 0, done.stderr  # triton is still checked
    rows = pd.read_csv(tmp_path / "results" / "sweep.csv").set_index("provider")
    assert rows.loc["torch-native"].status == "unsupported"
    assert (
        rows.loc["torch-native"].reason
        == "`timer: graph` needs a CUDA or ROCm device, and this machine has cpu; use `timer: do_bench`"
    )
    assert rows.ms.isna().all()

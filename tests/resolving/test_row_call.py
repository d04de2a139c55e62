"""`kbench why --once`: the provider of a row is called again, by a real worker. A plug-in writes down its calls, and whether
they are in the range of a profiler."""

from __future__ import annotations

from pathlib import Path

import pytest
from common import run_kbench
from warm_processes import WarmProcesses

from kbench.errors import ExecutionError
from kbench.resolving.row_call import call_row_again

pytestmark = pytest.mark.usefixtures("warm_workers")

SWEEP = """
operator: softmax
sweep: {M: 4, N: [64, 128]}
providers: [torch-native, written]
plugins: [mine.py]
measure: {warmup_ms: 1, rep_ms: 1, rounds: 1, precision: null}
profiles: {cpu: {}}
"""

PLUGIN = """
import os, torch
from pathlib import Path
from kbench.operators.softmax import softmax

@softmax.provider("written")
def written(x):
    with Path("calls.txt").open("a") as calls:
        calls.write(f"{tuple(x.shape)} {os.environ.get('RANGE', '')}\\n")
    if Path("fail").exists():
        raise RuntimeError("planted")
    return torch.softmax(x, -1)
"""

ROW = ["--row", "provider=written,N=128"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, warm: WarmProcesses) -> Path:
    folder = tmp_path_factory.mktemp("once")
    (folder / "sweep.yaml").write_text(SWEEP)
    (folder / "mine.py").write_text(PLUGIN)
    with warm.workers():
        ended = run_kbench(["run", "sweep.yaml", "--no-plot"], folder)
    assert ended.returncode == 0, ended.stderr
    (folder / "calls.txt").unlink()
    return folder


@pytest.mark.slow
def test_the_provider_of_the_row_is_called_on_its_case(folder: Path) -> None:
    ended = run_kbench(["why", "results/sweep.csv", *ROW, "--once"], folder)
    assert ended.returncode == 0 and ended.stdout == "", ended.stderr
    assert "the call was made on" in ended.stderr
    assert set((folder / "calls.txt").read_text().splitlines()) == {"(4, 128) "}


def test_no_call_is_made_for_kernels_that_cannot_be_recorded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "calls.txt").unlink(missing_ok=True)
    monkeypatch.chdir(folder)
    notes: list[str] = []
    with pytest.raises(ExecutionError, match="is no NVIDIA device"):
        call_row_again(Path("results/sweep.csv"), ROW[1], profiled=False, note=notes.append)
    assert notes == [] and not (folder / "calls.txt").exists()


def test_a_call_that_fails_says_why(folder: Path) -> None:
    (folder / "fail").touch()
    try:
        ended = run_kbench(["why", "results/sweep.csv", *ROW, "--once"], folder)
    finally:
        (folder / "fail").unlink()
    said = " ".join(ended.stderr.split())
    assert (
        ended.returncode == 3
        and "written cannot be called on softmax M=4 N=128 mode=forward float32: error: RuntimeError: planted" in said
    )


def test_changed_code_and_another_device_are_said(folder: Path) -> None:
    path = folder / "results" / "sweep.csv"
    (folder / "results" / "other.csv").write_text(path.read_text().replace(_device(folder), "NVIDIA H200"))
    (folder / "results" / "other.env.json").write_text(path.with_suffix(".env.json").read_text())
    (folder / "mine.py").write_text(PLUGIN.replace("torch.softmax(x, -1)", "torch.softmax(x, dim=-1)"))
    try:
        ended = run_kbench(["why", "results/other.csv", *ROW, "--once"], folder)
    finally:
        (folder / "mine.py").write_text(PLUGIN)
    said = " ".join(ended.stderr.split())
    assert ended.returncode == 0 and "the code of written has changed since the row was measured" in said
    assert "the row was measured on NVIDIA H200, and the call is made on" in said


def test_a_file_that_does_not_say_how_it_was_measured_is_refused(folder: Path) -> None:
    (folder / "results" / "bare.csv").write_text((folder / "results" / "sweep.csv").read_text())
    ended = run_kbench(["why", "results/bare.csv", *ROW, "--once"], folder)
    assert ended.returncode == 2 and "Traceback" not in ended.stderr and "bare" in ended.stderr
    ended = run_kbench(["why", "results/sweep.csv", "--row", "N=128", "--once"], folder)
    assert ended.returncode == 2 and "chooses more than one row" in ended.stderr


def _device(folder: Path) -> str:
    rows = (folder / "results" / "sweep.csv").read_text().splitlines()
    return rows[1].split(",")[rows[0].split(",").index("device")]

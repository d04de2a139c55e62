"""`kbench why` on a device: hardware counters of the planted faults, where they are permitted, and the code of rows.

Tests share the results of one run and one report of Nsight Compute, whichever processes they run in. The program ncu takes some
ten seconds for a call.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from common import ROOT, made_once, run_kbench

from kbench.counters import ncu

pytestmark = pytest.mark.gpu

LIMIT_S = 100.0
"""How long a program may run."""

PLUGIN = f"""
import sys
sys.path[:0] = ["{ROOT}/tests", "{ROOT}/tests/measure"]
import test_planted_faults_on_a_device as planted
from kbench import Operator, Tensor

double = Operator("double", axes=("M", "N"), inputs={{"x": Tensor("M", "N")}}, outputs={{"y": Tensor("M", "N")}}, rows="M",
                  reference=lambda x: x * 2)
for name, (make, rows, kind) in planted.PLANTED.items():
    double.provider(name)(make())
"""

SWEEP = """
operator: double
plugins: [planted.py]
sweep: {M: 8192, N: 4096, dtype: float32}
providers: [straight, uncoalesced, spilled, crowded, in-twenty, slowly-launched]
measure: {rounds: 2, rep_ms: 10, warmup_ms: 5, precision: null, sessions: 1}
"""

CALLS = f"""
import sys
sys.path[:0] = ["{ROOT}/tests", "{ROOT}/tests/measure"]
import torch
import test_planted_faults_on_a_device as planted

x = torch.randn(8192, 4096, device="cuda")
calls = [make() for make, rows, kind in planted.PLANTED.values()]
for call in calls:
    call(x)
torch.cuda.synchronize()
torch.cuda.profiler.start()
for call in calls:
    call(x)
torch.cuda.synchronize()
torch.cuda.profiler.stop()
"""
"""Calls each of the planted kernels once in the range of a profiler."""

PLANTED = {
    "straight": "It reaches",
    "uncoalesced": "Threads of kernel uncoalesced use",
    "spilled": "Kernel spilled reads and writes",
    "crowded": "While kernel crowded runs, a multiprocessor holds",
    "in-twenty": "A call launches 20 kernels.",
    "slowly-launched": "The host takes",
}


@pytest.fixture(scope="session")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the results of the kernels with planted faults."""

    def measure() -> str:
        folder = tmp_path_factory.mktemp("planted")
        (folder / "planted.py").write_text(PLUGIN)
        (folder / "double.yaml").write_text(SWEEP)
        ended = run_kbench(["run", "double.yaml", "--no-plot"], folder)
        assert ended.returncode == 0, ended.stderr
        return str(folder)

    return Path(made_once(tmp_path_factory, "planted", measure))


@pytest.fixture(scope="session")
def report(planted: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with what Nsight Compute has counted in a call of each of these kernels."""
    program = ncu.find_ncu()
    if not program:
        pytest.skip("ncu is not installed")
    path = planted / "report.ncu-rep"

    def count() -> str:
        (planted / "calls.py").write_text(CALLS)
        command = [
            program,
            "--profile-from-start",
            "off",
            *ncu.count_options(str(path), cold=True),
            sys.executable,
            str(planted / "calls.py"),
        ]
        return ncu.run_limited(command, LIMIT_S).text

    said = made_once(tmp_path_factory, "ncu-said", count)
    if "ERR_NVGPUCTRPERM" in said:
        pytest.skip("hardware counters are not permitted")
    assert path.is_file(), said
    return path


@pytest.mark.parametrize("name", PLANTED)
def test_counters_name_what_was_planted(planted: Path, report: Path, name: str) -> None:
    ended = run_kbench(["why", "results/double.csv", "--row", f"provider={name}", "--import", report], planted)
    assert ended.returncode == 0, ended.stderr
    assert f"1. {PLANTED[name]}" in " ".join(ended.stdout.split()), ended.stdout


@pytest.fixture(scope="session")
def softmax(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the results of two providers of softmax."""

    def measure() -> str:
        folder = tmp_path_factory.mktemp("softmax")
        words = ["run", "softmax", "--only", "triton,torch-native", "--set", "N=1024", "--set", "M=4096", "--no-plot"]
        settings = ("rounds=2", "sessions=1", "precision=null", "rep_ms=10")
        ended = run_kbench([*words, *(word for each in settings for word in ("--set", each))], folder)
        assert ended.returncode == 0, ended.stderr
        return str(folder)

    return Path(made_once(tmp_path_factory, "softmax-rows", measure))


def why(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run_kbench(["why", "results/softmax.csv", *words], folder)


def test_the_machine_code_of_a_row_of_triton(softmax: Path) -> None:
    ended = why(softmax, "--row", "provider=triton", "--sass")
    assert ended.returncode == 0, ended.stderr
    assert "MUFU.EX2" in ended.stdout and "EXIT" in ended.stdout and "other code" not in ended.stderr


def test_code_that_triton_has_forgotten_is_compiled_again(
    softmax: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    ended = why(softmax, "--row", "provider=triton", "--ptx")
    assert ended.returncode == 0 and "ex2.approx" in ended.stdout, ended.stderr
    assert "other code" not in ended.stderr, "it is the same code"


def test_kernels_of_torch_are_known_by_name(softmax: Path) -> None:
    ended = why(softmax, "--row", "provider=torch-native", "--sass")
    assert ended.returncode == 3 and "cuobjdump --dump-sass --function" in " ".join(ended.stderr.split())

"""`kbench why` on a device: hardware counters of the planted faults, where they are permitted, and the code of rows."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from common import ROOT, run_kbench

from kbench.counters.ncu import find_ncu

pytestmark = pytest.mark.gpu

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
sweep: {M: [1024, 8192], N: 4096, dtype: float32}
providers: [straight, uncoalesced, spilled, crowded, in-twenty, slowly-launched]
measure: {rounds: 2, rep_ms: 10, warmup_ms: 5, precision: null, sessions: 1}
"""

PLANTED = {
    "straight": (8192, "It reaches"),
    "uncoalesced": (8192, "Threads of kernel uncoalesced use"),
    "spilled": (8192, "Kernel spilled reads and writes"),
    "crowded": (8192, "While kernel crowded runs, a multiprocessor holds"),
    "in-twenty": (1024, "A call launches 20 kernels."),
    "slowly-launched": (8192, "The host takes"),
}


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the results of the kernels with planted faults."""
    folder = tmp_path_factory.mktemp("planted")
    (folder / "planted.py").write_text(PLUGIN)
    (folder / "double.yaml").write_text(SWEEP)
    ended = run_kbench(["run", "double.yaml", "--no-plot"], folder)
    assert ended.returncode == 0, ended.stderr
    return folder


@pytest.mark.parametrize("name", PLANTED)
def test_counters_name_what_was_planted(planted: Path, name: str) -> None:
    if not find_ncu():
        pytest.skip("ncu is not installed")
    rows, said = PLANTED[name]
    ended = run_kbench(["why", "results/double.csv", "--row", f"provider={name},M={rows}", "--counters"], planted)
    if "does not permit hardware counters" in " ".join(ended.stderr.split()):
        pytest.skip("hardware counters are not permitted")
    assert ended.returncode == 0, ended.stderr
    assert f"1. {said}" in " ".join(ended.stdout.split()), ended.stdout


def test_one_call_in_the_range_of_a_profiler(planted: Path) -> None:
    ended = run_kbench(["why", "results/double.csv", "--row", "provider=straight,M=1024", "--once"], planted)
    assert ended.returncode == 0, ended.stderr


@pytest.fixture(scope="module")
def softmax(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the results of two providers of softmax."""
    folder = tmp_path_factory.mktemp("softmax")
    words = ["run", "softmax", "--only", "triton,torch-native", "--set", "N=1024", "--set", "M=4096", "--no-plot"]
    settings = ("rounds=2", "sessions=1", "precision=null", "rep_ms=10")
    ended = run_kbench([*words, *(word for each in settings for word in ("--set", each))], folder)
    assert ended.returncode == 0, ended.stderr
    return folder


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

"""`kbench why --code` on rows that were measured on a device. Tests share the results of one run, whichever processes they run
in."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from common import made_once, run_kbench

pytestmark = pytest.mark.gpu


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
    ended = why(softmax, "--row", "provider=triton", "--code", "sass")
    assert ended.returncode == 0, ended.stderr
    assert "MUFU.EX2" in ended.stdout and "EXIT" in ended.stdout


def test_kernels_of_torch_are_known_by_name(softmax: Path) -> None:
    ended = why(softmax, "--row", "provider=torch-native", "--code", "sass")
    assert ended.returncode == 3 and "cuobjdump --dump-sass --function" in " ".join(ended.stderr.split())

"""tools/take_results.py: the tables of the kernels beside their peers, and what it takes from results of a machine."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from common import ROOT

import kbench

MEASURED = ("rmsnorm", "add_rmsnorm", "layernorm", "cross_entropy", "softmax", "gelu", "swiglu", "quantize_fp8")


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("take_results", ROOT / "tools" / "take_results.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_tables_of_the_docs_show_the_committed_results(tool: ModuleType) -> None:
    for page in tool.PAGES:
        assert tool.made(page) == page.read_text(), "run `python tools/take_results.py`"
    summed_up = {word for kind, words in marks(tool) for word in words.split() if kind == "summary"}
    both = {path.stem for card in ("h100", "h200") for path in (ROOT / "results" / card).glob("*.csv")}
    own_tables = ("softmax", "gelu", "matmul", "attention", "grouped_matmul", "linear_cross_entropy")
    assert {name for name in both if not name.startswith(own_tables)} <= summed_up


def marks(tool: ModuleType) -> list[tuple[str, str]]:
    return [(kind, words) for page in tool.PAGES for _, kind, words, _ in tool.MARKED.findall(page.read_text())]


def test_kernels_of_kbench_are_no_peers(tool: ModuleType) -> None:
    ours = {
        name for each in MEASURED for name in kbench.operator(each).providers if name.startswith(("cuda", "triton"))
    }
    steps_of_tutorials = {"cuda-naive", "cuda-online", "cuda-shared", "cuda-shuffle", "triton-row", "triton-persistent"}
    assert ours - steps_of_tutorials == {*tool.OURS, *tool.OURS_IN_PLACE}


def test_folders_and_uuids_of_a_machine_are_left_out(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    uuid = "GPU-01234567-89ab-cdef-0123-456789abcdef"
    header = "provider,dtype,status,reason,flags,device_uuid"
    row = f"quack,float32,error,ImportError: x (/opt/lib/quack/reduce.py:3),noisy,{uuid}"
    (tmp_path / "a.csv").write_text(f"{header}\n{row}\n")
    (tmp_path / "a.env.json").write_text('{"device": "NVIDIA H200"}')
    tool.take(tmp_path / "a.csv", tmp_path / "taken" / "a.csv")
    taken = (tmp_path / "taken" / "a.csv").read_text()
    assert taken == f"{header}\nquack,float32,error,ImportError: x (reduce.py:3),noisy,\n"
    assert "error: quack float32: ImportError" in capsys.readouterr().out

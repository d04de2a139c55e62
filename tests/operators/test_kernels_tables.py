"""The tables of docs/peers.md, made by tools/kernels_tables.py from results whose times are known."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from common import ROOT
from making import write_rows

from kbench.contract.registry import operator
from kbench.results.row import Row

RESULTS = ROOT / "results" / "h200"
MS = {"cuda": 1.0, "triton": 1.25, "liger": 1.5, "quack": 2.0, "torch-native": 3.0, "copy": 0.9}


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kernels_tables", ROOT / "tools" / "kernels_tables.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def results(path: Path, name: str, times: dict[tuple[int, str], dict[str, float | None]]) -> str:
    """A file of an operator: for each (N, mode) the time of each provider in ms, None for one that is wrong."""
    rows = []
    for (n, mode), found in times.items():
        case = operator(name).case("bfloat16", M=16384, N=n, mode=mode)
        same = {"timer": "do_bench", "cache": "cold", "device": "NVIDIA H200", "case_hash": f"{n}{mode}"}
        for provider, ms in found.items():
            role = "control" if provider == "copy" else "provider"
            wrong = {} if ms else {"status": "wrong", "reason": "every element NaN"}
            rows.append(Row(case, provider, ms=ms, role=role, **wrong, **same))
    return str(write_rows(path, rows, tuple(rows[0].case.axes)))


def lines(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in text.splitlines() if line.startswith("| ")]


def test_a_line_per_mode_says_how_ours_stands(
    tables: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    behind = MS | {"liger": 0.98, "quack": None}
    times = {(4096, "forward"): MS, (8192, "forward"): behind, (4096, "backward"): MS | {"cuda": None, "copy": 1.0}}
    tables.main(["--summary", results(tmp_path / "rmsnorm.csv", "rmsnorm", times)])
    head, forward, backward = lines(capsys.readouterr().out)
    assert head[:5] == ["operator", "file", "cases", "with a peer", "peer / ours"]
    geomean = (1.5 * 0.98) ** 0.5
    assert forward[0] == "rmsnorm forward" and forward[2:] == [
        "2", "2", f"{geomean:.3f}", "1", "0.980 at bfloat16 M=16384 N=8192", "0.900", "0.900",
    ]  # fmt: skip
    assert backward[0] == "rmsnorm backward" and backward[2:5] == ["1", "1", f"{1.5 / 1.25:.3f}"], "cuda is wrong there"
    assert backward[-1] == "0.800"


def test_what_works_in_place_is_compared_apart(
    tables: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    in_place = MS | {"triton-in-place": 0.8, "flashinfer": 0.5, "torch-in-place": 0.6}
    tables.main(["--summary", results(tmp_path / "a.csv", "add_rmsnorm", {(4096, "forward"): in_place})])
    _, apart, inside = lines(capsys.readouterr().out)
    assert (apart[0], apart[4]) == ("add_rmsnorm forward", "1.500"), "the peer is liger, out of place as ours is"
    assert (inside[0], inside[4]) == ("add_rmsnorm forward, in place", f"{0.5 / 0.8:.3f}")


def test_a_file_without_peers_copy_or_one_of_ours(
    tables: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = results(tmp_path / "a.csv", "layernorm", {(4096, "forward"): {"triton": 1.0}})
    tables.main(["--summary", file])
    assert lines(capsys.readouterr().out)[1][2:] == ["1", "0", "", "0", "", "", ""]
    tables.main([file])
    head, row = lines(capsys.readouterr().out)
    assert "cuda" not in head and row[:3] == ["bfloat16", "16384", "4096"]
    torch = results(tmp_path / "b.csv", "layernorm", {(4096, "forward"): {"torch-native": 1.0}})
    tables.main(["--summary", torch])
    assert capsys.readouterr().out == "no file has a time of cuda, triton, triton-in-place, cuda-in-place\n"


def test_one_line_per_size(tables: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tables.main([results(tmp_path / "a.csv", "rmsnorm", {(4096, "forward"): MS, (4096, "backward"): MS}), "N"])
    head, row = lines(capsys.readouterr().out)
    assert head == ["N", "backward", "forward"]
    assert row == ["4096", "1000.00 (1.50)", "1000.00 (1.50)"]


def test_the_fastest_configuration_of_a_provider_counts(
    tables: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = operator("matmul").case("bfloat16", M=4096, N=4096, K=4096)
    same = {"timer": "do_bench", "cache": "cold", "device": "NVIDIA H200", "case_hash": "c0ffee"}
    times = [("triton", "", 3.0), ("triton", "block_m=128", 1.0), ("torch-native", "", 2.0)]
    rows = [Row(case, provider, params, ms=ms, session=n, **same) for provider, params, ms in times for n in (0, 1)]
    tables.main(["--summary", str(write_rows(tmp_path / "matmul.csv", rows, tuple(case.axes)))])
    assert lines(capsys.readouterr().out)[1][2:5] == ["1", "1", "2.000"]


def test_kernels_of_kbench_are_no_peers(tables: ModuleType) -> None:
    measured = ("rmsnorm", "add_rmsnorm", "layernorm", "cross_entropy", "softmax", "gelu", "swiglu", "quantize_fp8")
    ours = {name for each in measured for name in operator(each).providers if name.startswith(("cuda", "triton"))}
    older = {"cuda-naive", "cuda-online", "cuda-shared", "cuda-shuffle", "triton-row", "triton-persistent"}
    assert ours - older == {*tables.OURS, *tables.OURS_IN_PLACE}, (
        "steps of the tutorials are measured in files of their own"
    )


# -- the committed results


@pytest.mark.slow
@pytest.mark.parametrize(
    ("section", "arguments"),
    [
        ("## Softmax, tall", ["softmax-peers.csv"]),
        ("## Softmax, few rows", ["short/softmax-peers.csv", "N"]),
        ("## GELU, tall", ["gelu-peers.csv", "N"]),
    ],
)
def test_a_table_of_the_docs_shows_the_committed_results(
    section: str, arguments: list[str], tables: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    tables.main([str(RESULTS / arguments[0]), *arguments[1:]])
    assert documented(section) == lines(capsys.readouterr().out)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("card", "section", "elsewhere"),
    [
        # softmax and GELU have tables of their own in their forward pass, and matmul has no peers
        ("h200", "## The other operators", ("softmax forward", "gelu", "matmul")),
        ("h100", "## On an H100", ("matmul",)),
    ],
)
def test_the_docs_sum_up_every_committed_file(
    card: str, section: str, elsewhere: tuple[str, ...], tables: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    tables.main(["--summary", *map(str, sorted((ROOT / "results" / card).glob("*.csv")))])
    head, *made = lines(capsys.readouterr().out)
    assert head.pop(1) == "file"
    wanted = [[name, *cells] for name, _, *cells in made if not name.startswith(elsewhere)]
    documented_head, _, *shown = documented(section)
    assert documented_head == head
    assert sorted(shown) == sorted(wanted), "tools/kernels_tables.py --summary makes the tables of docs/peers.md"


def documented(section: str) -> list[list[str]]:
    """The first table of docs/peers.md after a heading."""
    _, _, text = (ROOT / "docs" / "peers.md").read_text().partition(f"\n{section}\n")
    before, _, _ = text.partition("\n#")
    return lines(before)

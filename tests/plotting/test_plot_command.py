"""`kbench plot` as a person uses it: paths on stdout, one-line errors, exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest
from common import Kbench
from drawing import NS, case, drawn_row, save, sweep


@pytest.mark.slow
def test_the_newest_results_are_drawn_and_the_paths_printed(kbench: Kbench, tmp_path: Path) -> None:
    save(tmp_path / "results" / "softmax.csv", sweep("triton", "cuda"))
    done = kbench("plot")
    assert done.stdout.split() == ["results/softmax_gbps.png", "results/softmax_gbps.svg"]
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "results" / "softmax_gbps.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_all_options_together(kbench: Kbench, tmp_path: Path) -> None:
    rows = [drawn_row(case(n, m, d)) for n in NS for m in (16, 64) for d in ("float16", "bfloat16", "float32")]
    save(tmp_path / "old.csv", rows)
    save(tmp_path / "b.csv", rows)
    options = ("--metric", "ms", "--x", "N", "--by", "dtype", "--where", "M=16,dtype!=fp32", "--theme", "dark")
    done = kbench("plot", "old.csv", "new=b.csv", *options, "--format", "pdf,svg", "-o", "out")
    assert done.stdout.split() == ["out/old-vs-new_ms_dark.pdf", "out/old-vs-new_ms_dark.svg"]
    assert (tmp_path / "out" / "old-vs-new_ms_dark.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.slow
def test_a_chart_in_a_pipe_is_plain_and_writes_nothing(kbench: Kbench, tmp_path: Path) -> None:
    save(tmp_path / "a.csv", sweep("triton"))
    done = kbench("plot", "a.csv", "--term")
    assert done.returncode == 0 and done.stdout.isascii() and "  A  triton: 2000" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
    both = kbench("plot", "a.csv", "--term", "-o", "out")
    assert both.returncode == 2 and "--out" in both.stderr


@pytest.mark.slow
def test_errors_are_one_line_and_exit_code_2(kbench: Kbench, tmp_path: Path) -> None:
    save(tmp_path / "bad.csv", sweep("triton", status="wrong"))
    save(tmp_path / "good.csv", sweep("triton"))
    for arguments in (
        ("bad.csv",),
        ("bad.csv", "--term"),
        ("new=nowhere.csv",),
        ("good.csv", "--where", "N>1M"),
        ("good.csv", "--by", "Q"),
    ):
        done = kbench("plot", *arguments)
        assert (done.returncode, done.stdout) == (2, ""), arguments
        assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1, arguments


@pytest.mark.slow
def test_ten_thousand_rows(kbench: Kbench, tmp_path: Path) -> None:
    rows = [drawn_row(case(n, m), f"p{i}") for n in range(128, 128 * 251, 128) for m in (16, 64) for i in range(20)]
    save(tmp_path / "big.csv", rows)
    assert kbench("plot", "big.csv").stdout.split() == ["big_gbps.png", "big_gbps.svg"]

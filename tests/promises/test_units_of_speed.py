"""The speed of an operator that counts its operations: FLOP/s if arithmetic bounds it, GB/s if memory does."""

from __future__ import annotations

from pathlib import Path

from promises.outside import Kbench, write_results

CEILINGS = {"ceiling_gbps": 4000, "ceiling_tflops": 700, "copy_fraction": 0.8, "sol": 0.5}


def test_an_operator_that_memory_bounds_is_shown_in_gigabytes(kbench: Kbench, folder: Path) -> None:
    row = {"operator": "rope", "provider": "mine", "ms": 1.0, "gbps": 2000, "tflops": 0.5, **CEILINGS}
    write_results(folder / "rope.csv", [row, {**row, "N": 2048}])
    shown = kbench("show", "rope.csv", "--details")
    assert "GB/s" in shown.out and "of copy" in shown.out and "FLOP/s" not in shown.out
    assert kbench("plot", "rope.csv", "--format", "svg").out.strip().endswith("rope_gbps.svg")


def test_an_operator_that_arithmetic_bounds_in_a_case_is_shown_in_flops(kbench: Kbench, folder: Path) -> None:
    row = {"operator": "matmul", "provider": "mine", "ms": 1.0, "gbps": 400, "tflops": 350, **CEILINGS}
    write_results(folder / "matmul.csv", [row, {**row, "N": 1, "tflops": 1, "gbps": 3000}])
    shown = kbench("show", "matmul.csv", "--details")
    assert "TFLOP/s" in shown.out and "350" in shown.out
    assert kbench("plot", "matmul.csv", "--format", "svg").out.strip().endswith("matmul_tflops.svg")


def test_less_than_a_tenth_of_a_teraflop_is_shown_in_gigaflops(kbench: Kbench, folder: Path) -> None:
    ceilings = {**CEILINGS, "ceiling_gbps": 100, "ceiling_tflops": 0.1}
    row = {"operator": "matmul", "provider": "mine", "ms": 1.0, "gbps": 0.1, "tflops": 0.0174, **ceilings}
    write_results(folder / "matmul.csv", [row])
    shown = kbench("show", "matmul.csv", "--details")
    assert "GFLOP/s" in shown.out and "17.4" in shown.out and "TFLOP/s" not in shown.out
    assert kbench("explain", "best GFLOP/s").code == 0

"""A Triton kernel without a GPU: `kbench run` checks it, and says in how many cases it is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from promises.outside import MadeOnce, providers_of, run_kbench

WRONG_BETWEEN_POWERS_OF_TWO = """
import torch
import triton
import triton.language as tl

import kbench


@triton.jit
def softmax_row(y, x, N, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * N + columns, mask=columns < N, other=0.0)
    terms = tl.exp(values - tl.max(values, 0))
    tl.store(y + row * N + columns, terms / tl.sum(terms, 0), mask=columns < N)


@kbench.operator("softmax").provider("mine", requires="triton")
def mine(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    softmax_row[(x.shape[0],)](y, x, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return y
"""


@pytest.fixture
def measured(made_once: MadeOnce) -> Path:
    import torch

    pytest.importorskip("triton")
    if torch.accelerator.is_available():
        pytest.skip("this machine measures an accelerator")

    def make(folder: Path) -> None:
        (folder / "mine.py").write_text(WRONG_BETWEEN_POWERS_OF_TWO)
        short = ["--set", "M=4", "--set", "rounds=1", "--set", "warmup_ms=1", "--set", "rep_ms=1"]
        ended = run_kbench(
            "run", "softmax", "--plugin", "mine.py", "--only", "mine", *short, "--no-plot", folder=folder
        )
        (folder / "code.txt").write_text(str(ended.code))
        (folder / "printed.txt").write_text(ended.text)

    return made_once("wrong-between-powers", make)


def test_softmax_without_a_gpu_has_a_row_length_that_is_odd(measured: Path) -> None:
    """A mask that is wrong for every row length but powers of two does not pass."""
    status = {int(row["N"]): row["status"] for row in providers_of(measured / "results" / "softmax.csv")}
    assert {status[n] for n in status if n % 2} == {"wrong"}
    assert {status[n] for n in status if n & (n - 1) == 0} == {"checked"}
    assert (measured / "code.txt").read_text() == "1"


def test_a_checked_provider_is_right_in_these_cases_and_check_tries_more(measured: Path) -> None:
    (line,) = [
        line
        for line in (measured / "printed.txt").read_text().splitlines()
        if line.strip().startswith("mine: checked (")
    ]
    assert "(2 cases)" in line and "these cases" in line and "kbench check" in line

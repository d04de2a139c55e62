"""Inputs that begin at an odd element: `kbench check` tries them for every operator, and kbench's own kernels take them."""

from __future__ import annotations

from pathlib import Path

import pytest

from promises.outside import Ended, Kbench, MadeOnce, Write, run_kbench

ALIGNED = """
import torch
import kbench


@kbench.operator("rmsnorm").provider("reads-16-bytes")
def reads_16_bytes(x, weight, *, eps):
    if x.data_ptr() % 16:
        raise RuntimeError("misaligned address")
    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)


@kbench.operator("rmsnorm").provider("says-so")
def says_so(x, weight, *, eps):
    if x.data_ptr() % 16:
        raise kbench.Unsupported("x must begin at a multiple of 16 bytes")
    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)
"""

CONFIG = """
operator: rmsnorm
plugins: [aligned.py]
sweep: {M: 3, N: 40, dtype: bfloat16}
providers: [torch-native, reads-16-bytes, says-so]
"""


@pytest.fixture
def checked(made_once: MadeOnce) -> Ended:
    """A check of providers of rmsnorm, an operator of kbench's own."""

    def check(folder: Path) -> None:
        (folder / "aligned.py").write_text(ALIGNED)
        (folder / "sweep.yaml").write_text(CONFIG)
        ended = run_kbench("check", "sweep.yaml", folder=folder)
        (folder / "code").write_text(str(ended.code))
        (folder / "text").write_text(ended.text)

    folder = made_once("odd-offsets", check)
    return Ended(int((folder / "code").read_text()), (folder / "text").read_text(), "")


def cells_of(ended: Ended, edge: str) -> str:
    """The line of an input in the last table that `kbench check` printed."""
    return [line for line in ended.out.splitlines() if line.startswith(edge)][-1].removeprefix(edge)


def test_a_kernel_that_needs_aligned_rows_fails_at_an_odd_offset_only(checked: Ended) -> None:
    assert checked.code == 1
    words = cells_of(checked, "odd offset").split()
    assert words[0] == "ok" and words[-2:] == ["error", "declined"]
    assert "error" not in cells_of(checked, "random") and "error" not in cells_of(checked, "strided rows")


def test_the_reason_names_the_provider_and_the_input(checked: Ended) -> None:
    [line] = [line for line in checked.out.splitlines() if line.startswith("reads-16-bytes: error on ")]
    assert "odd offset" in line and "misaligned address" in line


OURS = {
    "softmax": "cuda, cuda-naive, cuda-online, cuda-shared, cuda-shuffle, triton, triton-row, triton-persistent",
    "rmsnorm": "cuda, triton",
    "add_rmsnorm": "cuda, cuda-in-place, triton, triton-in-place",
    "layernorm": "cuda, triton",
    "cross_entropy": "cuda, cuda-in-place, triton, triton-in-place",
    "swiglu": "triton",
    "gelu": "cuda, triton, triton-row",
    "quantize_fp8": "triton",
    "matmul": "triton",
}
"""The providers with kernels of kbench's own."""


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("operator", OURS)
def test_kernels_of_kbench_are_right_on_every_input_of_a_check(
    operator: str, dtype: str, kbench: Kbench, write: Write
) -> None:
    """Also where it begins at an odd element: short and long rows, few and many of them, in every mode."""
    columns = {"cross_entropy": "V", "matmul": "K"}.get(operator, "N")
    modes = "" if operator in ("gelu", "quantize_fp8") else ", mode: [forward, backward, full]"
    more = ", N: 300" if operator == "matmul" else ""
    write(
        "sweep.yaml",
        f"operator: {operator}\nproviders: [{OURS[operator]}]\nsweep:\n"
        f"  - {{M: 300, {columns}: [300, 4096, 65536], dtype: {dtype}{more}{modes}}}\n"
        f"  - {{M: 600, {columns}: 16384, dtype: {dtype}{more}{modes}}}\n",
    )
    ended = kbench("check", "sweep.yaml", "--all")
    assert ended.code == 0 and "unavailable" not in ended.out, ended.text
    assert "ok" in cells_of(ended, "odd offset")

"""A kernel that breaks the device costs its own row, which has the words of the driver."""

from __future__ import annotations

from pathlib import Path

import pytest

from promises.outside import MadeOnce, providers_of, run_kbench

PROVIDERS = """
import torch
import triton
import triton.language as tl

import kbench


@triton.jit
def store_far_away(x, y, N, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK).to(tl.int64)
    tl.store(y + i + (1 << 38), tl.load(x + i, mask=i < N), mask=i < N)


@triton.jit
def load_between_two(x, y, N, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    odd = (x.to(tl.pointer_type(tl.int8)) + 1).to(tl.pointer_type(tl.float32))
    tl.store(y + i, tl.load(odd + i, mask=i < N - 1), mask=i < N)


def launched(kernel, x):
    y = torch.empty_like(x)
    kernel[(1,)](x, y, x.numel(), BLOCK=1024)
    return y


@kbench.operator("softmax").provider("far", requires="triton")
def far(x):
    return launched(store_far_away, x)


@kbench.operator("softmax").provider("misaligned", requires="triton")
def misaligned(x):
    return launched(load_between_two, x)
"""

CONFIG = """
operator: softmax
sweep: {M: 4, N: [128, 256], dtype: float32}
providers: [far, torch-native, misaligned]
baseline: torch-native
measure: {rounds: 2, warmup_ms: 1, rep_ms: 2, cache: warm}
"""


@pytest.fixture(scope="session")
def broken(made_once: MadeOnce) -> Path:
    """A folder in which `kbench run` and `kbench check` have met the broken kernels. Their exit codes are in files."""

    def make(folder: Path) -> None:
        (folder / "broken.py").write_text(PROVIDERS)
        (folder / "broken.yaml").write_text(CONFIG)
        for command in (("run", "broken.yaml", "--no-plot"), ("check", "broken.yaml")):
            ended = run_kbench(*command, "--plugin", "broken.py", folder=folder)
            (folder / f"{command[0]}.txt").write_text(f"{ended.code}\n{ended.text}")

    return made_once("broken-device", make)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("provider", "words"), [("far", "an illegal memory access was encountered"), ("misaligned", "misaligned address")]
)
def test_the_reason_of_a_kernel_that_breaks_the_device_has_the_words_of_the_driver(
    broken: Path, provider: str, words: str
) -> None:
    rows = [row for row in providers_of(broken / "results" / "broken.csv") if row["provider"] == provider]
    assert len(rows) == 2
    for row in rows:
        assert row["status"] not in ("ok", "checked") and not row["ms"]
        assert words in row["reason"], row["reason"]


@pytest.mark.gpu
def test_the_other_providers_are_measured_in_a_new_process(broken: Path) -> None:
    rows = [row for row in providers_of(broken / "results" / "broken.csv") if row["provider"] == "torch-native"]
    assert [row["status"] for row in rows] == ["ok", "ok"] and all(float(row["ms"]) > 0 for row in rows)
    assert (broken / "run.txt").read_text().startswith("1\n")


@pytest.mark.gpu
def test_kbench_check_has_the_words_of_the_driver(broken: Path) -> None:
    said = (broken / "check.txt").read_text()
    assert said.startswith("1\n")
    assert "illegal memory access" in said and "misaligned address" in said

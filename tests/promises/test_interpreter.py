"""Triton kernels on a machine without an accelerator: Triton's interpreter checks them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from promises.outside import QUICK, MadeOnce, keep, kept, providers_of, run_kbench

KERNELS = """
import torch
import triton
import triton.language as tl

import kbench


@triton.jit
def tiles(a, b, c, M, N, K, BLOCK: tl.constexpr, KEEP: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, BLOCK):
        across, down = start + tl.arange(0, BLOCK)[None, :], start + tl.arange(0, BLOCK)[:, None]
        left = tl.load(a + rows * K + across, mask=(rows < M) & (across < K), other=0.0)
        right = tl.load(b + down * N + columns, mask=(down < K) & (columns < N), other=0.0)
        total = total * KEEP + tl.dot(left, right, input_precision="ieee")
    tl.store(c + rows * N + columns, total, mask=(rows < M) & (columns < N))


def multiplied(a, b, keep):
    a, b = a.contiguous(), b.contiguous()
    c = a.new_empty(a.shape[0], b.shape[1])
    tiles[triton.cdiv(c.shape[0], 16), triton.cdiv(c.shape[1], 16)](a, b, c, *c.shape, a.shape[1], BLOCK=16, KEEP=keep)
    return c


@kbench.operator("matmul").provider("mine", requires="triton")
def mine(a, b):
    return multiplied(a, b, 1.0)


@kbench.operator("matmul").provider("forgets", requires="triton")
def forgets(a, b):
    return multiplied(a, b, 0.0)


kbench.Operator(
    "scaled_sum",
    axes=("M", "N"),
    inputs={"x": kbench.Tensor("M", "N"), "y": kbench.Tensor("M", "N")},
    outputs={"z": kbench.Tensor("M", "N"), "total": kbench.Tensor("M")},
    reference=lambda x, y: (x * 3 + y.clamp(min=x), (x * 0 + 1).sum(-1)),
    dtypes=("bfloat16", "float16"),
    edges={"subnormal": lambda case, x, y: (x * 1e-38 / 4, y * 1e-38 / 4)},
)


@triton.jit
def scale_and_add(x, y, z, total, N, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = tl.program_id(0) * N + i
    one = tl.load(x + at, mask=i < N, other=0.0)
    two = tl.load(y + at, mask=i < N, other=0.0)
    larger = tl.where(one < two, two, one)
    tl.store(z + at, (one.to(tl.float32) * 3 + larger).to(z.dtype.element_ty), mask=i < N)
    tl.store(total + tl.program_id(0), tl.sum(one * 0.0 + (i < N).to(one.dtype), 0))


@kbench.operator("scaled_sum").provider("elements", requires="triton")
def elements(x, y):
    z, total = torch.empty_like(x), x.new_empty(x.shape[0])
    scale_and_add[(x.shape[0],)](x, y, z, total, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return z, total


@triton.jit
def softmax_row(y, x, N, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * N + columns, mask=columns < N, other=0.0)
    terms = tl.exp(values - tl.max(values, 0))
    tl.store(y + row * N + columns, terms / tl.sum(terms, 0), mask=columns < N)


@kbench.operator("softmax").provider("between-powers", requires="triton")
def between_powers(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    softmax_row[(x.shape[0],)](y, x, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return y


@triton.autotune(configs=[triton.Config({}, num_warps=warps) for warps in (4, 8)], key=["N"])
@triton.jit
def tuned_row(y, x, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, BLOCK)
    powers = tl.exp(tl.load(x + at).to(tl.float32))
    tl.store(y + at, powers / tl.sum(powers, 0))


@kbench.operator("softmax").provider("autotuned", requires="triton")
def autotuned(x):
    y = torch.empty_like(x)
    tuned_row[(x.shape[0],)](y, x, x.shape[1], BLOCK=x.shape[1])
    return y


@triton.jit
def helper(value):
    return tl.expp(value)  # the bad line


@triton.jit
def calls_helper(x, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, helper(tl.load(x + i)))


@kbench.operator("softmax").provider("typo", requires="triton")
def typo(x):
    y = torch.empty_like(x)
    calls_helper[(1,)](x, y, BLOCK=64)
    return y
"""

CONFIG = """
operator: {operator}
sweep: {{{axes}, dtype: [bfloat16, float16]}}
providers: [{providers}]
measure: {{rounds: 2, warmup_ms: 1, rep_ms: 1, cache: warm}}
"""

CONFIGS = {
    "products": CONFIG.format(
        operator="matmul", axes="M: 32, N: 48, K: 64", providers="torch-native, mine, forgets, triton"
    ),
    "sums": CONFIG.format(operator="scaled_sum", axes="M: 3, N: 40", providers="elements"),
}


@pytest.fixture(scope="session")
def interpreted(made_once: MadeOnce) -> Path:
    """The folder in which the kernels were run and checked in the interpreter."""
    if torch.accelerator.is_available():
        pytest.skip("a kernel runs on the accelerator")

    def make(folder: Path) -> None:
        (folder / "kernels.py").write_text(KERNELS)
        for name, text in CONFIGS.items():
            (folder / f"{name}.yaml").write_text(text)
        run = ("run", "products.yaml", "--plugin", "kernels.py", "--no-plot")
        keep(run_kbench(*run, folder=folder), folder, "products")
        keep(run_kbench("check", "sums.yaml", "--all", "--plugin", "kernels.py", folder=folder), folder, "edges")
        built_in = ("run", "softmax", "--plugin", "kernels.py", "--only", "between-powers,typo,autotuned", "--no-plot")
        keep(run_kbench(*built_in, "--set", "M=4", *QUICK, folder=folder), folder, "built-in")

    return made_once("interpreted", make)


def statuses(folder: Path, name: str, provider: str) -> list[str]:
    return [row["status"] for row in providers_of(folder / "results" / f"{name}.csv") if row["provider"] == provider]


def statuses_by_size(folder: Path, provider: str) -> dict[int, str]:
    """The statuses of a softmax in the built-in config."""
    rows = providers_of(folder / "results" / "softmax.csv")
    return {int(row["N"]): row["status"] for row in rows if row["provider"] == provider}


def test_products_sums_and_comparisons_in_bfloat16_are_right_or_wrong_in_the_interpreter_as_on_a_device(
    interpreted: Path,
) -> None:
    lines = kept(interpreted, "edges").out.splitlines()
    sums = [line.split() for line in lines if line.startswith(("random", "subnormal"))]
    assert [words[1] for words in sums] == ["ok"] * 4
    assert statuses(interpreted, "products", "mine") == ["checked", "checked"]
    assert statuses(interpreted, "products", "triton") == ["checked", "checked"]
    rows = [row for row in providers_of(interpreted / "results" / "products.csv") if row["provider"] == "forgets"]
    assert [row["status"] for row in rows] == ["wrong", "wrong"]
    for row in rows:
        assert float(row["max_rel_err"]) < 1e4  # the values of half of the product, and not those of integers


def test_an_error_in_a_kernel_names_the_line_in_the_kernel_or_in_the_function_that_it_calls(interpreted: Path) -> None:
    line = KERNELS[: KERNELS.index("# the bad line")].count("\n") + 1
    rows = [row for row in providers_of(interpreted / "results" / "softmax.csv") if row["provider"] == "typo"]
    assert len(rows) == 3
    for row in rows:
        assert row["status"] == "error" and f"kernels.py:{line}" in row["reason"], row["reason"]
        assert "expp" in row["reason"]


def test_an_autotuned_kernel_is_checked_although_its_tuner_asks_for_a_driver(interpreted: Path) -> None:
    by_size = statuses_by_size(interpreted, "autotuned")
    assert by_size[256] == by_size[4096] == "checked"


def test_the_start_of_a_run_says_what_is_checked_and_not_timed(interpreted: Path) -> None:
    before_first_case = kept(interpreted, "products").err.split("[1/2]")[0]
    (line,) = [line for line in before_first_case.splitlines() if "interpreter" in line]
    assert "not timed" in line and "slow" in line
    assert all(name in line for name in ("mine", "forgets", "triton")) and "torch-native" not in line
    assert "elements: checked in Triton's interpreter, which is slow" in kept(interpreted, "edges").err


def test_softmax_without_a_gpu_has_an_odd_row_length_and_who_is_right_in_these_cases_is_called_checked(
    interpreted: Path,
) -> None:
    """A mask that is wrong for every row length but powers of two does not pass."""
    status = statuses_by_size(interpreted, "between-powers")
    assert {status[n] for n in status if n % 2} == {"wrong"}
    assert {status[n] for n in status if n & (n - 1) == 0} == {"checked"}
    assert kept(interpreted, "built-in").code == 1
    lines = kept(interpreted, "built-in").out.splitlines()
    [line] = [line for line in lines if line.strip().startswith("between-powers: checked (")]
    assert "(2 cases)" in line and "these cases" in line and "kbench check" in line

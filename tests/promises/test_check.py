"""`kbench check`: a provider on random and edge inputs, and what is said of one that is not right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from promises.outside import Ended, Kbench, MadeOnce, Write, keep, kept, providers_of, run_kbench

FAULTY = """
import os
import torch
import kbench

softmax = kbench.operator("softmax")


def right(x):
    return torch.softmax(x, -1)


@softmax.provider("right")
def right_everywhere(x):
    return right(x)


FAULTS = {
    "strided": lambda x: right(x if x.is_contiguous() else torch.as_strided(x, x.shape, (x.shape[1], 1))),
    "empty": lambda x: right(x) if x.numel() else x.new_zeros(1, 1),
    "inf": lambda x: right(x.clamp(min=-1e30)),
    "imprecise": lambda x: right(x) * (1 + 2**-14),
    "halved": lambda x: right(x).half(),
}
for name, function in FAULTS.items():
    softmax.provider(name)(function)


@softmax.provider("large")
def large(x):
    return torch.exp(x) / torch.exp(x).sum(-1, keepdim=True)


@softmax.provider("crash")
def crash(x):
    if 1 in x.shape:
        os.abort()
    return right(x)
"""

OWN = """
import torch
import kbench

own = kbench.Operator(
    "own", axes=("M", "N"), inputs={"x": kbench.Tensor("M", "N")}, outputs={"y": kbench.Tensor("M", "N")},
    reference=lambda x: x / x.abs().sum(-1, keepdim=True), tolerance=1, output_ulps=1, scale=lambda case, y, x: y,
    edges={"odd columns": lambda case, x: (x[:, 1:].contiguous(),)},
)


@own.provider("even-only")
def even_only(x):
    y = right(x)
    return y if x.shape[1] % 2 == 0 else torch.zeros_like(y)


@own.provider("a-little-off")
def right(x):
    return (x.double() / x.double().abs().sum(-1, keepdim=True)).float()


@own.provider("one-row-off")
def one_row_off(x):
    y = right(x)
    y[:1] *= 1 + 2**-20
    return y
"""

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

STATISTICS = """
import kbench


def statistics(x):
    mean = x.mean(-1)
    return mean, (x - mean[:, None]).square().mean(-1)


vector = kbench.Tensor("M")
own = kbench.Operator(
    "statistics", axes=("M", "N"), inputs={"x": kbench.Tensor("M", "N")}, reference=statistics,
    outputs={"mean": vector, "variance": vector},
)
own.provider("swapped")(lambda x: statistics(x)[::-1])


@own.provider("without-a-mask")
def without_a_mask(x):
    (mean, variance), columns = statistics(x), x.shape[1]
    return mean, variance + (2 ** (columns - 1).bit_length() - columns) * mean.square() / columns
"""

SWEEP = "operator: {}\nplugins: [mine.py]\nsweep: {{M: 4, N: 16, dtype: {}}}\nproviders: [{}]\n"
SWEEP += "profiles: {{cpu: {{measure: {{rounds: 2}}}}}}\n"
TOO_LARGE = SWEEP.replace("N: 16", "N: [16, 1000000000000]")
POWERS_OF_TWO = SWEEP.replace("N: 16", "N: [16, 32, 64]")
NAMES = "right, strided, empty, inf, large, imprecise, halved, crash"
CHECKS = {
    "softmax": (FAULTY, SWEEP.format("softmax", "float32", NAMES)),
    "own": (OWN, TOO_LARGE.format("own", "float32", "even-only, a-little-off, one-row-off")),
    "statistics": (STATISTICS, POWERS_OF_TWO.format("statistics", "float32", "swapped, without-a-mask")),
    "rmsnorm": (ALIGNED, SWEEP.format("rmsnorm", "bfloat16", "torch-native, reads-16-bytes, says-so")),
}


@pytest.fixture
def checked(made_once: MadeOnce) -> Path:
    """The folder in which `kbench check` has met the faulty providers of some operators."""

    def make(folder: Path) -> None:
        for name, (plugin, config) in CHECKS.items():
            (folder / "mine.py").write_text(plugin)
            (folder / f"{name}.yaml").write_text(config)
            keep(run_kbench("check", f"{name}.yaml", folder=folder), folder, name)

    return made_once("checked", make)


def line_of(ended: Ended, start: str, *words: str) -> str:
    """The only line that begins with this text and has these words."""
    [line] = [line for line in ended.out.splitlines() if line.startswith(start) and all(word in line for word in words)]
    return line


def cells_of(ended: Ended, edge: str) -> str:
    """The line of an input in the last table that `kbench check` printed."""
    return [line for line in ended.out.splitlines() if line.startswith(edge)][-1].removeprefix(edge)


def test_a_kernel_that_is_wrong_on_one_kind_of_input_only_is_found(checked: Path) -> None:
    ended = kept(checked, "softmax")
    assert torch.accelerator.is_available() or not re.search("^huge stride", ended.out, re.M)
    faults = {"strided": "strided", "empty": "no rows", "inf": "-inf", "large": "large offset", "crash": "one row"}
    for provider, inputs in faults.items():
        assert re.search(rf"^ *{provider}: (wrong|crashed) .*{inputs}", ended.text, re.M), (provider, ended.text)
    assert not re.search(r"^ *right: ", ended.text, re.M) and "Traceback" not in ended.text
    assert ended.code == 1 and not (checked / "results").exists()


def test_a_failure_names_the_shape_of_the_input_on_which_it_failed_or_all_inputs(checked: Path) -> None:
    line = line_of(kept(checked, "own"), "even-only: wrong", "odd columns")
    assert "odd columns (x 4x15)" in line and "M=4 N=16" in line
    assert "float16" in line_of(kept(checked, "softmax"), "halved: wrong on all inputs (")


def test_a_mask_that_is_missing_on_the_tail_of_a_row_is_found_in_a_sweep_of_powers_of_two(checked: Path) -> None:
    ended = kept(checked, "statistics")
    line = line_of(ended, "without-a-mask: wrong on N=odd (x 4x33 or x 4x9) (2 cases, first")
    assert "variance: " in line and "ok" in cells_of(ended, "random")
    assert "N=16" in line_of(ended, "repeat: kbench check statistics.yaml --only without-a-mask")
    assert ended.out.splitlines()[-1] == "not checked: 1 of 3 cases; --all checks them"


def test_swapped_outputs_are_named_and_so_is_an_input_on_which_all_providers_are_wrong(checked: Path) -> None:
    line = line_of(kept(checked, "statistics"), "swapped: wrong on random", "N=16")
    assert line.endswith("mean holds the expected values of variance; return the outputs in the order mean, variance")
    assert "on N=odd (2 cases): look at" in line_of(kept(checked, "statistics"), "all providers are wrong")


def test_a_case_that_does_not_fit_into_memory_is_oom_and_the_line_of_each_case_says_who_failed(checked: Path) -> None:
    ended, large = kept(checked, "own"), "own M=4 N=1000000000000 float32"
    assert "[1/2] own M=4 N=16 float32: checked; one-row-off wrong, even-only wrong" in ended.err
    assert f"[2/2] {large}: checked; even-only oom, a-little-off oom, one-row-off oom" in ended.err
    assert cells_of(ended, "random").split() == ["oom"] * 3
    line = line_of(ended, "a-little-off: oom")
    assert f"({large}): the case's inputs and reference do not fit into memory: " in line and "timing" not in line
    assert "; kbench needs about " in line and line.endswith(
        " GB of free memory for this case, or choose a smaller one"
    )


def test_a_wider_tolerance_is_proposed_for_few_wrong_elements_of_an_operator_of_ones_own_only(checked: Path) -> None:
    line = line_of(kept(checked, "own"), "one-row-off: wrong", "random")
    assert "to allow more, raise" in line and "operator own" in line
    lines = [line for line in kept(checked, "softmax").out.splitlines() if line.startswith("imprecise: wrong")]
    assert lines and not any("raise" in line for line in lines)


def test_a_kernel_that_needs_aligned_rows_fails_at_an_odd_offset_only_and_the_reason_names_it(checked: Path) -> None:
    ended = kept(checked, "rmsnorm")
    words = cells_of(ended, "odd offset").split()
    assert ended.code == 1 and words[0] == "ok" and words[-2:] == ["error", "declined"]
    assert "error" not in cells_of(ended, "random") and "error" not in cells_of(ended, "strided rows")
    line = line_of(ended, "reads-16-bytes: error on ")
    assert "odd offset" in line and "misaligned address" in line


@pytest.mark.parametrize(("operator", "first"), [("softmax", "right"), ("rmsnorm", "torch-native")])
def test_explain_knows_every_input_that_check_prints(checked: Path, operator: str, first: str, kbench: Kbench) -> None:
    lines = kept(checked, operator).out.splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith("input "))
    width = lines[head].index(first)
    printed = {line[:width].strip() for line in lines[head + 1 : lines.index("", head)]} - {""}
    assert len(printed) > 3 and "random" in printed
    for name in printed:
        ended = kbench("explain", name)
        assert ended.code == 0 and ended.out.startswith(name), ended.text


LIMITED = """
import kbench

x = kbench.Tensor("N")
limited = kbench.Operator(
    "limited", axes=("N",), inputs={"x": x}, outputs={"y": x}, reference=lambda x: x.view(16, -1).view_as(x)
)
limited.provider("mine")(lambda x: x.clone())
"""


def test_the_line_of_a_case_that_no_provider_takes_says_that_nothing_was_checked(kbench: Kbench, write: Write) -> None:
    write("mine.py", "import kbench\nkbench.operator('softmax').provider('mine', requires='nobody_has_it')(abs)\n")
    ended = kbench("check", "softmax", "--plugin", "mine.py", "--only", "mine", "--set", "N=64", "--set", "dtype=fp32")
    assert ended.code == 3 and ": nothing checked" in ended.err and ": checked" not in ended.err


def test_a_case_whose_reference_fails_is_named_and_the_check_does_not_pass(kbench: Kbench, write: Write) -> None:
    write("mine.py", LIMITED)
    write("limited.yaml", "{operator: limited, plugins: [mine.py], sweep: {N: [16, 17]}, providers: [mine]}")
    ended = kbench("check", "limited.yaml")
    assert ended.code == 3 and "left out: 1 of 2 cases, because the reference fails there" in ended.out, ended.text


# -- the operators that kbench brings along

NOTHING = """
operator: matmul
sweep: {M: 4, N: 3, K: 0, dtype: bfloat16, mode: [forward, backward, full]}
providers: [torch-native, triton]
measure: {rounds: 2, warmup_ms: 1, rep_ms: 2, cache: warm}
"""


def test_a_matrix_product_over_nothing_is_zero_in_every_mode(kbench: Kbench, write: Write, folder: Path) -> None:
    write("nothing.yaml", NOTHING)
    ended = kbench("run", "nothing.yaml", "--no-plot")
    rows = providers_of(folder / "results" / "nothing.csv")
    assert ended.code == 0, ended.text
    assert len(rows) == 6 and {row["status"] for row in rows} <= {"ok", "checked"}
    assert {row["max_ulp"] for row in rows} == {"0.0"}


OURS = {
    "softmax": "cuda, cuda-naive, cuda-shared, cuda-shuffle, triton, triton-row, triton-persistent",
    "rmsnorm": "cuda, triton",
    "add_rmsnorm": "cuda, cuda-in-place, triton, triton-in-place",
    "layernorm": "cuda, triton",
    "cross_entropy": "cuda, cuda-in-place, triton, triton-in-place",
    "swiglu": "triton",
    "gelu": "cuda, triton, triton-row",
    "quantize_fp8": "triton",
    "matmul": "triton",
}
"""The providers with kernels of kbench's own. Without `cuda-online`: on ascending rows that textbook method corrects its sum at
every element, and `kbench check` rightly calls float32 rows of 16384 wrong (601 ulp, 433 allowed)."""


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
    choices = {"gelu": ", approximate: [tanh, none]", "quantize_fp8": ""}
    modes = choices.get(operator, ", mode: [forward, backward, full]")
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

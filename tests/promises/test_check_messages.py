"""What `kbench check` and `kbench judge` say of a provider that is not right."""

from __future__ import annotations

from pathlib import Path

import pytest

from promises.outside import Ended, MadeOnce, run_kbench

PROVIDERS = """
import torch
import kbench

own = kbench.Operator(
    "own", axes=("M", "N"), inputs={"x": kbench.Tensor("M", "N")}, outputs={"y": kbench.Tensor("M", "N")},
    reference=lambda x: x / x.abs().sum(-1, keepdim=True), tolerance=1, output_ulps=1, scale=lambda case, y, x: y,
    edges={"odd columns": lambda case, x: (x[:, 1:].contiguous(),)},
)
softmax = kbench.operator("softmax")


@own.provider("even-only")
def even_only(x):
    y = right(x)
    return y if x.shape[1] % 2 == 0 else torch.zeros_like(y)


@own.provider("a-little-off")
def right(x):
    y = (x.double() / x.double().abs().sum(-1, keepdim=True)).float()
    return y


@own.provider("one-row-off")
def one_row_off(x):
    y = right(x)
    y[:1] *= 1 + 2**-20
    return y


@softmax.provider("off")
def off(x):
    return torch.softmax(x, -1) * (1 + 2**-14)


@softmax.provider("no-empty-rows")
def no_empty_rows(x):
    if x.shape[1] == 0:
        raise IndexError("a row has no elements")
    return torch.softmax(x, -1)
"""


def commands(folder: Path) -> None:
    (folder / "mine.py").write_text(PROVIDERS)
    (folder / "own.yaml").write_text(
        "operator: own\nplugins: [mine.py]\nsweep: {M: 4, N: 16}\nproviders: [even-only, a-little-off, one-row-off]\n"
    )
    sizes = ("--set", "M=4", "--set", "N=16", "--set", "dtype=float32")
    said = {
        "own": run_kbench("check", "own.yaml", folder=folder),
        "softmax": run_kbench("check", "softmax", "--plugin", "mine.py", "--only", "off", *sizes, folder=folder),
        "judged": run_kbench(
            "judge", "mine.py", "--against", "softmax", "--provider", "no-empty-rows", "--shapes", "3", *sizes,
            folder=folder,
        ),
    }  # fmt: skip
    for name, ended in said.items():
        (folder / f"{name}.txt").write_text(f"{ended.code}\n{ended.text}")


@pytest.fixture
def said(made_once: MadeOnce) -> dict[str, Ended]:
    """What the commands printed, and their exit codes."""
    found = {}
    for file in made_once("messages", commands).glob("*.txt"):
        code, _, text = file.read_text().partition("\n")
        found[file.stem] = Ended(int(code), text, "")
    return found


def test_a_failure_names_the_shape_of_the_input_on_which_it_failed(said: dict[str, Ended]) -> None:
    [line] = [line for line in said["own"].out.splitlines() if line.startswith("even-only: ")]
    assert said["own"].code == 1
    assert "odd columns (x 4x15)" in line and "M=4 N=16" in line


def test_a_wider_tolerance_is_proposed_for_few_wrong_elements_of_an_operator_of_ones_own(
    said: dict[str, Ended],
) -> None:
    [line] = [line for line in said["own"].out.splitlines() if line.startswith("one-row-off: ") and "random" in line]
    assert "to allow more, raise" in line and "operator own" in line


def test_no_tolerance_of_an_operator_of_kbench_is_proposed(said: dict[str, Ended]) -> None:
    lines = [line for line in said["softmax"].out.splitlines() if line.startswith("off: wrong")]
    assert said["softmax"].code == 1 and lines
    assert not any("raise" in line for line in lines)


def test_a_judged_provider_that_fails_on_empty_rows_only_is_right_except_for_them(said: dict[str, Ended]) -> None:
    """The reason stands there once, not once for each case."""
    judged = said["judged"]
    assert judged.code == 1
    [line] = [line for line in judged.out.splitlines() if "right except for" in line]
    assert "no columns" in line and "4 of 4 cases" in line
    assert sum("a row has no elements" in line for line in judged.out.splitlines()) == 1

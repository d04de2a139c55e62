"""What defines an operator in a file that has its kernels too: rows compare as long as that part is the same."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from common import ROOT

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor
from kbench.measure.definition.definition import Definition
from kbench.measure.definition.operator_source import case_hash, defining

FILE = '''
"""An operator and a kernel."""
import kbench
import torch
try:
    import triton
except ImportError:
    triton = None

EPS = 1e-6
LIMIT = 4


def helper(x):
    return x + EPS


@torch.no_grad()
def reference(x):
    values = helper(x)
    return values


if triton:
    def kernel(values):
        values = values * LIMIT


mine = kbench.Operator("mine", axes=("M",), reference=reference, bytes=lambda case: case.M)


@mine.provider("fast")
def fast(x, *, block=4):
    values = kernel(x)
    return values
'''


def test_the_shapes_of_models_do_not_belong_to_the_definition() -> None:
    before = """
mine = kbench.Operator(
    "mine",
    axes=("M", "N"),
    reference=reference,
)
"""
    for shapes in ('{"M": "tokens"},', '[\n        {"M": "tokens"},  # rows\n    ],', '{"M": "tokens"},  # rows'):
        after = before.replace("    reference", f"    model_axes={shapes}\n    reference")
        assert defining(after, "mine") == defining(before, "mine")
    beside = before.replace("    reference", '    model_axes={"M": "tokens"}, reference')
    assert "reference=reference" in defining(beside, "mine"), "what stands on the same line belongs to the definition"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("values * LIMIT", "values * 2"),
        ("LIMIT = 4", "LIMIT = 5"),
        ("block=4", "block=8"),
        ("import triton\n", "import triton, triton.language\n"),
        ('"""An operator and a kernel."""', '"""Another text."""'),
        ("\n\n\n", "\n\n\n\n"),
    ],
)
def test_a_change_of_a_kernel_leaves_the_definition_as_it_was(old: str, new: str) -> None:
    assert old in FILE
    assert defining(FILE.replace(old, new), "mine") == defining(FILE, "mine")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x + EPS", "x - EPS"),
        ("EPS = 1e-6", "EPS = 1e-5"),
        ("EPS = 1e-6", "EPS = 1e-6\nEPS += 1"),
        ("return values\n\n\nif", "return values * 2\n\n\nif"),
        ("lambda case: case.M", "lambda case: 2 * case.M"),
        ("@torch.no_grad()", "@torch.enable_grad()"),
        ("import torch\n", "import torch2 as torch\n"),
    ],
)
def test_a_change_of_the_definition_or_of_what_it_uses_shows(old: str, new: str) -> None:
    assert old in FILE
    assert defining(FILE.replace(old, new), "mine") != defining(FILE, "mine")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "this is no Python",
        "\0",
        "def make():\n    return kbench.Operator('mine')\nmake()\n",
        "for name in ('mine', 'other'):\n    kbench.Operator(name)\n",
        "a = kbench.Operator('mine')\na = kbench.Operator('mine')\n",
    ],
)
def test_a_file_that_cannot_be_read_so_counts_as_a_whole(text: str) -> None:
    assert defining(text, "mine") == text


def test_the_file_that_init_writes() -> None:
    text = (ROOT / "kbench" / "templates" / "operator.py").read_text()
    found = defining(text, "my_operator")
    assert "def reference" in found and "EPS = " in found and "Operator(" in found
    assert "triton" not in found and "provider" not in found


class _Twice:
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


@pytest.mark.parametrize("reference", [torch.exp, functools.partial(torch.mul, other=2), _Twice(), lambda x: x * 2])
def test_a_reference_of_any_kind_has_a_hash(reference: Callable[..., Any]) -> None:
    """Written in C, with arguments filled in, or an object."""
    name = f"source-of-{type(reference).__name__}"
    operator = Operator(name, ("N",), {"x": Tensor("N")}, {"y": Tensor("N")}, reference)
    assert case_hash(Definition(operator, operator.case(N=4)), 32)

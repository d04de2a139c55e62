"""What the operators' tests share: the device, and the judgement of a provider's output."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
import torch

from kbench.measure.check import accuracy
from kbench.registry import operator
from kbench.results import Case

if not torch.accelerator.is_available():
    # Triton kernels run in its interpreter, which has to be asked for before anything imports Triton.
    os.environ.setdefault("TRITON_INTERPRET", "1")

Judge = Callable[..., "str | None"]


@pytest.fixture(scope="session")
def device() -> torch.device:
    """The accelerator; without one the CPU, where Triton kernels are interpreted."""
    return torch.accelerator.current_accelerator() or torch.device("cpu")


@pytest.fixture
def judge() -> Judge:
    """Run a provider on one input: what is wrong with its output, None when it is right.

    `x` is 2-D; the case is made from it. Other keywords are choices of the operator (`approximate`) or go to the
    provider (`num_warps`).
    """

    def judge(operator_name: str, name: str, x: torch.Tensor, **keywords: object) -> str | None:
        op = operator(operator_name)
        axes = {"M": x.shape[0], "N": x.shape[1]} | {c: words[0] for c, words in op.choices.items()}
        axes |= {k: keywords.pop(k) for k in list(keywords) if k in op.choices}
        case = Case(operator_name, axes, str(x.dtype).removeprefix("torch."))
        output = op.providers[name].bind(case, keywords)(x)
        assert (output.shape, output.dtype, output.device) == (x.shape, x.dtype, x.device)
        return accuracy(op, case, [x], output).wrong

    return judge

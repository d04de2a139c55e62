"""What the operators' tests share: the device, and the judgement of a provider's output."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kbench.contract.origin import shipped
from kbench.contract.registry import operator
from kbench.measure.correctness.call import Preparer
from kbench.measure.correctness.check import accuracy, run_checked
from kbench.measure.correctness.definition import Definition
from kbench.measure.correctness.expected import Expected
from kbench.measure.correctness.inputs import Inputs
from kbench.measure.machine.device import Device
from kbench.results.case import Case, Value

DEVICE = Device().torch_device


def case_of(op: str, m: int, n: int, dtype: torch.dtype, **choices: Value) -> Case:
    """A case of an operator over (M, N) matrices, its scalars and choices at their defaults unless given."""
    return operator(op).case(str(dtype).removeprefix("torch."), M=m, N=n, **choices)


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Standard normal values on the device, the same at every call with this shape."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).to(DEVICE, dtype)


def random_inputs(case: Case) -> list[Tensor]:
    """The inputs of a case, and in modes with gradients those of the outputs."""
    return list(Inputs(Definition(operator(case.operator), case), Device(), 0).draw("random"))


def judged(case: Case, provider: str, inputs: Sequence[Tensor] | None = None, **params: Value) -> str | None:
    """What `kbench check` finds wrong with a provider in a case, on random inputs or on these; None if it is right. Raises
    Unsupported."""
    definition, device = Definition(operator(case.operator), case), Device()
    inputs = list(inputs or random_inputs(case))
    preparer = Preparer(definition, operator(case.operator).providers[provider], params)
    accuracy = run_checked(Expected(definition, [x.clone() for x in inputs]), preparer, inputs, device)
    return accuracy.wrong if accuracy else "not judged"


def judge(op: str, name: str, x: torch.Tensor, **keywords: Value) -> str | None:
    """Run a provider on one matrix: what is wrong with its output, None when it is right.

    Keywords are choices of the operator (`approximate`) or parameters of the provider (`num_warps`).
    """
    definition = operator(op)
    choices = {name: keywords.pop(name) for name in list(keywords) if name in definition.choices}
    case = case_of(op, *x.shape, x.dtype, **choices)
    output = definition.providers[name].bind(case, keywords)(x)
    assert (output.shape, output.dtype, output.device) == (x.shape, x.dtype, x.device)
    return accuracy(definition, case, [x], output).wrong


def providers(beginning: str, *without: str) -> list[tuple[str, str]]:
    """Every operator of kbench with one matrix as its input and one as its output, with each of its providers whose name begins
    like this."""
    return [
        (name, provider)
        for name in shipped()
        if tuple(operator(name).axes) == ("M", "N")
        and [tensor.sizes for tensor in operator(name).inputs.values()] == [("M", "N")]
        and [tensor.sizes for tensor in operator(name).outputs.values()] == [("M", "N")]
        for provider in operator(name).providers
        if provider.startswith(beginning) and provider not in without
    ]

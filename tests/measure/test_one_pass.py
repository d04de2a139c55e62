"""The kernel that compares an output in one pass says the same as torch. Without an accelerator it runs in the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from kbench.contract.operator import Operator, registered
from kbench.contract.tensor import Tensor as Declared
from kbench.measure.correctness import elements
from kbench.measure.correctness.check import accuracy
from kbench.measure.correctness.elements import WrongElements, compare_elements
from kbench.measure.correctness.expected import OutputPart
from kbench.measure.definition.definition import Definition
from kbench.results.case import Case

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
COUNT = 5000
"""Elements: more than a program of the kernel takes, and no multiple of that."""


@pytest.fixture
def kernel() -> ModuleType:
    pytest.importorskip("triton")
    from kbench.measure.machine import compare_kernel

    return compare_kernel


@pytest.fixture(autouse=True)
def no_kernel(monkeypatch: pytest.MonkeyPatch, no_operators: None) -> None:
    """compare_elements uses torch alone."""
    monkeypatch.setattr(elements, "_kernel", lambda: None)


def values(subnormal: bool = True) -> Tensor:
    """float64 of all magnitudes, some of them zero or subnormal in float32."""
    generator = torch.Generator().manual_seed(1)
    found = torch.randn(COUNT, generator=generator, dtype=torch.float64)
    found *= 2.0 ** torch.randint(-12, 12, (COUNT,), generator=generator)
    if subnormal:
        found[::7] *= 2.0**-130
    found[::11] = 0
    return found.to(DEVICE)


def both(
    kernel: ModuleType, output: Tensor, reference: Tensor, *, ulps: float = 1, tolerance: float = 4, own: bool = True
) -> tuple[tuple[float, float] | None, tuple[float, float] | None]:
    """The largest errors according to the kernel and to torch; None where an element is wrong. `own`: the operator has a scale
    of its own, which is three times the reference."""
    registered.clear()
    dtype = str(output.dtype).removeprefix("torch.")
    operator = Operator(
        "one-pass",
        axes=("N",),
        inputs={"x": Declared("N")},
        outputs={"y": Declared("N")},
        reference=lambda x: x,
        scale=(lambda case, y, x: y.abs()) if own else None,
        tolerance=tolerance,
        output_ulps=ulps,
    )
    (declared,) = Definition(operator, Case("one-pass", {"N": COUNT}, dtype)).outputs
    scale = reference.abs() * 3
    wrong = WrongElements(output, operator, declared)
    units = tolerance * (1 if own else elements.ESTIMATE_MARGIN)
    said = kernel.largest_errors(output, reference, scale, ulps=ulps, units=units, at_scale=not own)
    found = compare_elements(OutputPart(0, None, 0, 0, reference, scale), output, wrong)
    assert found.max_ulp is not None and found.max_rel_err is not None
    return said, None if wrong.count else (found.max_ulp, found.max_rel_err)


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_right_outputs_have_the_same_errors(kernel: ModuleType, dtype: torch.dtype, own: bool) -> None:
    interpreted = dtype == torch.bfloat16 and DEVICE == "cpu"  # the interpreter misreads subnormal bfloat16
    reference = values(subnormal=not interpreted)
    said, found = both(kernel, (reference * (1 + 1e-8)).to(dtype), reference, own=own)
    assert found is not None and found[0] > 0 and said == found


FAULTS: dict[str, Callable[[Tensor], object]] = {
    "the last is NaN": lambda y: y[-1:].fill_(torch.nan),
    "the first is infinite": lambda y: y[:1].fill_(torch.inf),
    "one is zero": lambda y: y[4321:4322].zero_(),
    "one is 1 % off": lambda y: y[4097:4098].mul_(1.01),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_one_wrong_element_is_seen(kernel: ModuleType, fault: str) -> None:
    reference = values()
    output = reference.float()
    FAULTS[fault](output)
    assert both(kernel, output, reference) == (None, None)


@pytest.mark.slow
def test_the_bounds_are_the_same(kernel: ModuleType) -> None:
    reference = values().abs() + 1
    seen = set()
    for off in range(12):
        for tolerance in (0, 2.5, 7):
            output = torch.nextafter(reference.float(), torch.tensor(torch.inf, device=DEVICE))
            output += off * 2**-23
            said, found = both(kernel, output, reference, tolerance=tolerance)
            assert said == found
            seen.add(found is None)
    assert seen == {True, False}


def test_a_kernel_that_did_not_run_finds_nothing_right(kernel: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    reference = values()
    monkeypatch.setattr(kernel, "_compare", {(2,): lambda *arguments, **options: None})
    assert both(kernel, reference.float(), reference)[0] is None


class OnDevice(Tensor):
    """A tensor of the host that says that it lies on a device."""

    is_cuda = True


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_an_output_on_a_device_goes_to_the_kernel_if_it_knows_the_dtype(
    kernel: ModuleType, monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype
) -> None:
    monkeypatch.setattr(kernel, "largest_errors", lambda *tensors, **limits: (0.5, 0.25))
    monkeypatch.setattr(elements, "_kernel", lambda: kernel)
    exact = torch.ones(4, dtype=torch.float64)
    part = OutputPart(0, None, 0, 4, exact, exact)
    wrong: Any = SimpleNamespace(
        operator=SimpleNamespace(scale=None), output=SimpleNamespace(ulps=1, tolerance=4, gradient=False)
    )
    found = elements.compare_in_one_pass(part, exact.to(dtype).as_subclass(OnDevice), wrong)
    assert found == (None if dtype is torch.float64 else elements.Accuracy(0.5, 0.25))


@pytest.mark.gpu
def test_on_a_device_the_kernel_compares_and_torch_names_what_is_wrong(
    kernel: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = Operator(
        "one-pass-device",
        axes=("M", "N"),
        inputs={"x": Declared("M", "N")},
        outputs={"y": Declared("M", "N")},
        reference=lambda x: x * 2,
        rows="M",
    )
    case, x = Case("one-pass-device", {"M": 1024, "N": 3000}, "float32"), torch.randn(1024, 3000, device="cuda")
    right, wrong = x * 2, x * 2
    wrong[1000, 7] = 1e6
    without = [accuracy(operator, case, [x], each) for each in (right, wrong, right.t().contiguous().t())]
    calls = []

    def counted(*arguments: Tensor, **options: object) -> tuple[float, float] | None:
        calls.append(arguments[0].numel())
        found: tuple[float, float] | None = kernel.largest_errors(*arguments, **options)
        return found

    module = ModuleType("counting")
    module.__dict__.update(KERNEL_DTYPES=kernel.KERNEL_DTYPES, largest_errors=counted)
    monkeypatch.setattr(elements, "_kernel", lambda: module)
    assert [accuracy(operator, case, [x], each) for each in (right, wrong, right.t().contiguous().t())] == without
    assert x.numel() in calls and "first at [1000, 7]" in (without[1].wrong or "")

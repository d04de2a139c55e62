"""Makes the inputs of a problem, and runs its reference in float64, although its code may name other dtypes; otherwise, its own
tolerance judges.

A reference of a foreign problem often computes in float32 (`x.to(torch.float32)`) and rounds in between (`.to(x.dtype)`). With
float64 inputs and every such dtype replaced by float64, the same code computes the mathematical definition. The code may not
allow that: it may compare dtypes, call a kernel, or view numbers as bits. Then it runs in the dtypes that the problem declares.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from kbench.contract.operator import Operator, Remark
from kbench.contract.origin import shipped
from kbench.contract.tensor import Draw, Integers, total_bytes
from kbench.contract.tensor import Tensor as Declared
from kbench.results.case import Case, Value

REFERENCE = "reference"
"""The provider that runs the problem's own code."""

OUTPUT_ULPS = 4.0
"""The `output_ulps` of operators that are made of problems, against a reference in float64. The code of problems, and solutions
that follow it step by step, round several intermediate results to the dtype of the output. The default, 2, allows one."""

ROUNDED = (torch.float32, torch.float16, torch.bfloat16)
"""The dtypes that float64 replaces. A conversion to 8 bits is part of a definition (quantisation), and stays."""

LIGHT_BYTES = 2**24
"""Light code is called with values first if its inputs have at most so many bytes: a product of two matrices of this size
takes half a second on a host."""

_CASTS = (Tensor.float, Tensor.half, Tensor.bfloat16)


class _InFloat64(TorchFunctionMode):
    """A context in which torch's functions make float64 numbers wherever they are asked for float32 or shorter ones."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _CASTS:
            return args[0].double()
        if func is Tensor.view:  # it may reinterpret bits
            return func(*args, **kwargs)
        return func(*map(_widened, args), **{name: _widened(value) for name, value in kwargs.items()})


def _widened(value: Any) -> Any:
    return torch.float64 if isinstance(value, torch.dtype) and value in ROUNDED else value


@contextmanager
def in_float64() -> Iterator[None]:
    """Inside, code computes in float64 as far as torch's functions go."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _InFloat64():
            yield
    finally:
        torch.set_default_dtype(before)


Call = Callable[[Sequence[Tensor], Mapping[str, Value]], Any]
"""Calls the code of a problem with the tensors of a case, and with its scalars by name."""

Code = Callable[[str, torch.device, bool], Call]
"""The code of a problem: what to call in a case of this dtype, on this device, and whether that will be in float64."""


def allows_float64(code: Code, inputs: Collection[Declared], make: Make, case: Case, *, light: bool = False) -> bool:
    """Whether the code computes in float64. It is called with tensors that have no memory (torch's device `meta`). Code that
    looks at values cannot be called so; then it is called with values on the host, which `make` makes. `light` code with small
    inputs is called with values first: the first call without memory imports torch's compiler, which takes seconds."""
    with_values, host = light and total_bytes(inputs, case) <= LIGHT_BYTES, torch.device("cpu")
    for on_host in (with_values, not with_values):
        try:
            with torch.no_grad(), seeded(0, host):
                tensors = make(case, host) if on_host else _without_memory(inputs, case)
                tensors = [x.double() if x.is_floating_point() else x for x in tensors]
                call = code(case.dtype, tensors[0].device, True)
                with in_float64():
                    returned = call(tensors, case.axes)
        except (Exception, SystemExit):  # noqa: BLE001  the code's own; it is reported when the code runs in the declared dtypes
            continue
        values = list(returned.values()) if isinstance(returned, dict) else returned
        outputs = values if not isinstance(values, Tensor) and isinstance(values, Sequence) else [values]
        return not any(isinstance(x, Tensor) and x.dtype in ROUNDED for x in outputs)
    return False


def _without_memory(inputs: Collection[Declared], case: Case) -> list[Tensor]:
    return [torch.empty(x.shape_in(case), dtype=_dtype(x, case.dtype), device="meta") for x in inputs]


Make = Callable[[Case, torch.device], Sequence[Tensor]]
"""Makes all tensors of a set on a device. It draws from torch's own generators, which are seeded for it."""

SEEDS = 2**31


def filled_together(make: Make, count: int, original: Callable[..., Any]) -> list[Callable[[Case, Draw], Tensor]]:
    """Fills for so many inputs, of which messages name the place of `original`. kbench fills the inputs of a case in order: the
    first fill makes all of them, and each takes its own."""
    made: dict[tuple[Case, int], Tensor] = {}

    def take(number: int, case: Case, draw: Draw) -> Any:
        if (case, number) not in made:
            made.clear()
            seed = draw.integers(0, SEEDS, 1)
            with seeded(int(seed.item()), seed.device):
                made.update({(case, position): x for position, x in enumerate(make(case, seed.device))})
        return made.pop((case, number), None)

    return [standing_for(partial(take, number), original) for number in range(count)]


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Inside, torch's generators of the host and of a device begin at a seed. Afterwards they go on as before."""
    devices = [device] if device.type not in ("cpu", "meta") else []
    with torch.random.fork_rng(devices, device_type=device.type if devices else "cuda"):
        torch.manual_seed(seed)
        yield


def drawn(tensor: Declared, case: Case, device: torch.device) -> Tensor:
    """Random values for a tensor of a case, from torch's own generators. Whole numbers have constant bounds."""
    dtype, shape = tensor.dtype_in(case), tensor.shape_in(case)
    fill = tensor.fill_for(dtype)
    if isinstance(fill, Integers):
        values = torch.randint(int(fill.low), int(fill.below), shape, device=device)
    else:
        values = torch.randn(shape, device=device)
    return values.to(getattr(torch, dtype))


def own_name(name: str) -> str:
    """The name of a problem's operator: no operator of kbench has it."""
    return f"{name}-problem" if name in shipped() else name


def problem_operator(
    name: str,
    code: Code,
    function: Callable[..., Any],
    *,
    inputs: Mapping[str, Declared],
    outputs: Mapping[str, Declared],
    tolerance_of: Callable[[Case], OwnTolerance] | None,
    **declaration: Any,
) -> Operator:
    """The operator of a problem, without providers.

    code          the code of its reference
    function      the function of that code, whose place messages name
    tolerance_of  the problem's tolerance of a case, which judges the outputs; None if the code allows float64
    declaration   further arguments of `Operator`
    """

    def reference(*tensors: Tensor, dtype: str, **values: Value) -> Any:
        device = tensors[0].device
        call = code(dtype, device, tolerance_of is None)
        if tolerance_of is None:
            with in_float64():
                returned = call(tensors, values)
        else:
            rounded = [x.to(_dtype(declared, dtype)) for x, declared in zip(tensors, inputs.values(), strict=True)]
            returned = call(rounded, values)
        # kbench takes no 16-bit numbers from a reference; the tolerance of the problem allows for the rounding
        return tree_map(_as_double, as_outputs(returned, outputs, device))

    def check(
        case: Case, inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor], expected: Mapping[str, Tensor]
    ) -> str | None:
        assert tolerance_of
        remark = None
        for name, output in outputs.items():
            prefix, tolerance = f"{name}: " if len(outputs) > 1 else "", tolerance_of(case).within(expected[name])
            if fault := tolerance.fault(output, expected[name]):
                return prefix + fault
            if tolerance != tolerance_of(case):
                remark = remark or Remark(f"{prefix}judged by {tolerance}")
        return remark

    return Operator(
        name,
        inputs=inputs,
        outputs=outputs,
        reference=standing_for(reference, function),
        check=check if tolerance_of else None,
        output_ulps=OUTPUT_ULPS,
        **declaration,
    )


def _dtype(declared: Declared, dtype: str) -> torch.dtype:
    """The dtype of a tensor in a case of this dtype."""
    torch_dtype: torch.dtype = getattr(torch, declared.dtype or dtype)
    return torch_dtype


def _as_double(x: Any) -> Any:
    return x.double() if isinstance(x, Tensor) and x.dtype in (torch.float16, torch.bfloat16) else x


def as_outputs(returned: Any, outputs: Mapping[str, Declared], device: torch.device) -> Any:
    """What a function of a problem returned, in the order of the outputs. It may be a dict, and have Python numbers."""
    values = [returned.get(name) for name in outputs] if isinstance(returned, dict) else returned
    if isinstance(values, (Tensor, int, float)):
        values = [values]
    if not isinstance(values, (tuple, list)) or len(values) != len(outputs):
        return returned  # kbench says what is wrong with it
    tensors = []
    for value, declared in zip(values, outputs.values(), strict=True):
        dtype = getattr(torch, declared.dtype) if declared.dtype else None
        tensors.append(torch.tensor(value, dtype=dtype, device=device) if isinstance(value, (int, float)) else value)
    return tensors[0] if len(tensors) == 1 else tuple(tensors)


_Function = TypeVar("_Function", bound=Callable[..., Any])


def standing_for(wrapper: _Function, original: Callable[..., Any]) -> _Function:
    """A function of kbench that calls one of a problem. Messages about it name the place of the problem's function."""
    wrapper.__signature__ = inspect.signature(wrapper)  # type: ignore[attr-defined]  # its own: __wrapped__ has another
    wrapper.__wrapped__ = original  # type: ignore[attr-defined]
    return wrapper


BLIND_SHARE = 0.1
"""The share of the size of the outputs that takes the place of a tolerance as large as they are."""


@dataclass(frozen=True)
class OwnTolerance:
    """An element passes if `|output - reference| <= atol + rtol * |reference|`, as in torch.allclose. Zeros never pass in place
    of other numbers, and neither do values that are not finite in place of finite ones.

    matched  the share of the elements that must pass
    cap      the largest absolute error of any element; None for no limit
    blind    why this is not the problem's own tolerance; empty if it is
    """

    atol: float
    rtol: float
    matched: float = 1.0
    cap: float | None = None
    blind: str = ""

    def within(self, reference: Tensor) -> OwnTolerance:
        """This tolerance, or a stricter one if zeros and noise would pass, because it is as large as the outputs."""
        numbers = _numbers(reference)
        size = numbers.square().mean().sqrt().item() if numbers.numel() else 0.0
        if self.atol + self.rtol * size < size or not size:
            return self
        own = f"the problem's own (atol {self.atol:g}, rtol {self.rtol:g})"
        blind = f"{own} is not below the size of the outputs, {size:.3g}"
        return replace(self, atol=min(self.atol, BLIND_SHARE * size), rtol=min(self.rtol, BLIND_SHARE), blind=blind)

    def fault(self, output: Tensor, reference: Tensor) -> str | None:
        """What is wrong with an output, in words; None if it passes."""
        output_values, reference_values = output.double(), reference.double()
        if not output_values.any() and _numbers(reference).numel():
            return "every element is zero, and the reference is not"
        not_finite = reference_values.isfinite() & ~output_values.isfinite()
        if not_finite.any():
            return (
                f"{_count(not_finite)} are not finite where the reference is; {_first(not_finite, output, reference)}"
            )
        equal = (output_values == reference_values) | (output_values.isnan() & reference_values.isnan())
        error = torch.where(equal, 0.0, (output_values - reference_values).abs())
        bad = ~(equal | (error <= self.atol + self.rtol * reference_values.abs()))
        passed = 1 - bad.double().mean().item() if bad.numel() else 1.0
        largest = error.nan_to_num(torch.inf).max().item() if error.numel() else 0.0
        if passed < self.matched:
            outside = f"{_count(bad)} are outside {self}"
            return f"{outside}, but {self.matched:.2%} must be within the tolerance; {_first(bad, output, reference)}"
        if self.cap is not None and largest > self.cap:
            return f"the largest error is {largest:.3g}, and the problem allows {self.cap:.3g}"
        return None

    def __str__(self) -> str:
        numbers = f"atol {self.atol:.3g}, rtol {self.rtol:.3g}"
        return (
            f"a stricter tolerance ({numbers}; {self.blind})" if self.blind else f"the problem's tolerance ({numbers})"
        )


def _numbers(reference: Tensor) -> Tensor:
    """The elements of a reference that are finite and not zero. A device may flush the smallest to zero."""
    values = reference.double()
    return values[values.isfinite() & (values.abs() >= torch.finfo(torch.float32).tiny)]


def _count(bad: Tensor) -> str:
    return f"{bad.sum().item():,} of {bad.numel():,} elements"


def _first(bad: Tensor, output: Tensor, reference: Tensor) -> str:
    index = tuple(bad.nonzero()[0].tolist())
    value, right_value = output[index].item(), reference[index].item()
    return f"the first is at {list(index)}: {value:.7g} instead of {right_value:.7g}"

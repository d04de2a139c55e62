"""One case of an operator: its inputs, what a call must deliver, and what the operator's own functions say of it.

Providers are checked against these functions. If one of them fails, or returns a value that it must not return, that is the
fault of the operator and not of a provider: an OperatorFault, with the place in the operator's code.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kbench.contract import tensor as contract
from kbench.contract.operator import Operator, Remark, counted, takes_inputs
from kbench.contract.provider import named_after, takes_any
from kbench.contract.sizes import SizeError, evaluate_bound
from kbench.contract.tensor import Draw, Integers, Normal, Uniform
from kbench.measure.machine.device import out_of_memory
from kbench.results.case import BACKWARD, FORWARD, Case, Value
from kbench.results.stamps import digest
from kbench.text.exception_text import location, message, written_at
from kbench.text.words import plural


class OperatorFault(Exception):
    """A function of an operator fails on a case. `where` is file:line in its code."""

    def __init__(self, operator: Operator, where: str, what: str) -> None:
        super().__init__(f"operator {operator.name}: {what} (at {where})")
        self.where, self.what = where, f"operator {operator.name}: {what}"


ESTIMATE_MARGIN = 4
"""The tolerance is multiplied by this at an estimated scale. The estimate is a root mean square, and the worst of many
elements is several times further off. So is a kernel that adds its terms one after another. On an H200, torch's float32
product of two 4096 x 4096 matrices is 149 units off in the worst of 16 million elements."""


@dataclass(frozen=True)
class Output:
    """A tensor that a call must deliver: an output of the operator, or the gradient of an input.

    name             how messages call it: `h`, or `gradient of x`
    declared         the operator's declaration of the output, or of that input
    dtype            the dtype that it must have
    tolerance        the allowed error of the arithmetic, in units in the last place of float32
    ulps             the allowed error of the rounding, in units in the last place of its dtype
    gradient         whether it is the gradient of an input
    judged           whether the operator's own check judges its values
    scale_estimated  whether kbench estimates the scale of its errors: the operator states none
    """

    name: str
    declared: contract.Tensor
    dtype: torch.dtype
    tolerance: float
    ulps: float
    gradient: bool
    judged: bool
    scale_estimated: bool

    @property
    def units(self) -> float:
        """The allowed error of the arithmetic at the scale."""
        return self.tolerance * (ESTIMATE_MARGIN if self.scale_estimated else 1)


class Work(NamedTuple):
    """The algorithmic bytes of a call, and its operations; None if the operator does not say."""

    call_bytes: int
    flops: int | None


class Definition:
    """One case of an operator. Every method raises OperatorFault. Out of memory is not a fault: it is raised as is.

    `inputs` are the tensors that a call gets: the operator's inputs and, with gradients, those of its floating-point outputs.
    """

    def __init__(self, operator: Operator, case: Case) -> None:
        self.operator, self.case = operator, case
        received = operator.output_gradients(case) if case.mode != FORWARD else {}
        self.declared_inputs = [*operator.inputs.values(), *received.values()]
        self.input_names = (*operator.inputs, *(f"gradient of {name}" for name in received))

    @cached_property
    def outputs(self) -> tuple[Output, ...]:
        """What a call of this mode must deliver, in order: the outputs, then the gradients."""
        outputs = []
        if self.case.mode != BACKWARD:
            outputs += [self._output(name, tensor) for name, tensor in self.operator.outputs.items()]
        if self.case.mode != FORWARD:
            inputs = self.operator.inputs
            outputs += [self._output(f"gradient of {name}", inputs[name], True) for name in self.operator.gradients]
        return tuple(outputs)

    def _output(self, name: str, declared: contract.Tensor, gradient: bool = False) -> Output:
        if gradient and not declared.is_floating(self.case):
            problem = f"{name.removeprefix('gradient of ')} is {declared.dtype_in(self.case)} and can have no gradient"
            raise self.fault(problem, "leave this dtype out of the sweep, or use mode forward")
        if declared.tolerance is None:
            tolerance = self._units("tolerance", self.operator.tolerance)
        else:
            tolerance = self._units(f"tolerance of {name}", declared.tolerance)
        ulps = self.operator.output_ulps if declared.ulps is None else self._units(f"ulps of {name}", declared.ulps)
        dtype = getattr(torch, declared.dtype_in(self.case))
        judged = not gradient and name in self.operator.judged
        estimated = gradient or self.operator.scale is None
        output = Output(name, declared, dtype, tolerance, ulps, gradient, judged, estimated)
        eps = torch.finfo(dtype).eps if dtype.is_floating_point and not judged else 0.0
        if eps and ulps * eps + output.units * torch.finfo(torch.float32).eps > 1:
            allowed = f"tolerance {tolerance:g} and output_ulps {ulps:g} allow {name} an error larger than itself"
            raise self.fault(allowed, "zeros would pass; lower them")
        return output

    def _units(self, where: str, declared: contract.Tolerance) -> float:
        """A declared tolerance for this case."""
        with self._blamed(where, declared):
            units = declared(self.case) if callable(declared) else declared
        return self._number(where, declared, units)

    def inputs(self, draw: Draw) -> tuple[Tensor, ...]:
        return tuple(
            self._filled(name, tensor, draw)
            for name, tensor in zip(self.input_names, self.declared_inputs, strict=True)
        )

    def _filled(self, name: str, tensor: contract.Tensor, draw: Draw) -> Tensor:
        dtype, axes = tensor.dtype_in(self.case), self.case.axes
        fill = Normal() if name not in self.operator.inputs else tensor.fill_for(dtype)
        function = fill if callable(fill) else self.operator.reference
        with self._sized(name), self._blamed(f"the fill of {name}", function):
            shape = tensor.shape_in(self.case)
            match fill:
                case Normal(0.0, 1.0):
                    return draw.normal(*shape, dtype=dtype)
                case Normal(mean, std):
                    wide = "float64" if dtype == "float64" else "float32"  # torch computes nothing in 8 bits
                    return draw.normal(*shape, dtype=wide).mul_(std).add_(mean).to(getattr(torch, dtype))
                case Uniform(low, high):
                    return draw.uniform(low, high, *shape, dtype=dtype)
                case Integers(high, low=low):
                    return draw.integers(evaluate_bound(low, axes), evaluate_bound(high, axes), *shape, dtype=dtype)
            returned, device = fill(self.case, draw), draw.uniform(0, 1, 0).device
        subject = f"the fill of {name}"
        [values] = self._tensors(subject, fill, returned, (name,), True)
        self._check_form(subject, fill, values, device, shape=shape, dtype=getattr(torch, dtype))
        return values.clone()  # an expanded tensor cannot be written to, and the function may keep its own

    def edge(self, name: str, inputs: Sequence[Tensor], draw: Draw) -> tuple[Tensor, ...]:
        """The inputs, changed to the edge case of this name. Gradients of outputs are drawn anew if the shapes change."""
        function, count = self.operator.edges[name], len(self.operator.inputs)
        with self._blamed(f"edges[{name!r}]", function):
            returned = function(self.case, *inputs[:count])
        changed = self._tensors(f"edges[{name!r}]", function, returned, tuple(self.operator.inputs), False)
        for x, old, input_name in zip(changed, inputs, self.input_names, strict=False):
            self._check_form(f"edges[{name!r}]", function, x, old.device, f" for {input_name}", dtype=old.dtype)
        gradients = inputs[count:]
        if not gradients:
            return changed
        outputs = [x for x in self._forward(exactly(changed), "") if x.is_floating_point()]
        fitting = (
            gradient if gradient.shape == x.shape else draw.normal(*x.shape, dtype=dtype_name(gradient.dtype))
            for gradient, x in zip(gradients, outputs, strict=True)
        )
        return (*changed, *fitting)

    def expected(self, exact: Sequence[Tensor], where: str = "") -> tuple[Tensor, ...]:
        """What a call must deliver for `exact` inputs (see `exactly`), from the reference: float64 where it is floating-point.
        Gradients are those of autograd. `where` is added to the message if the reference fails."""
        if self.case.mode == FORWARD:
            return self._forward(exact, where)
        count = len(self.operator.inputs)
        inputs = dict(zip(self.operator.inputs, exact[:count], strict=True))
        leaves = {name: inputs[name].detach().requires_grad_() for name in self.operator.gradients}
        with torch.enable_grad():
            returned = self._forward([*(inputs | leaves).values()], where)
        floating = [x for x in returned if x.is_floating_point()]
        pairs = [(x, d) for x, d in zip(floating, exact[count:], strict=True) if x.requires_grad]
        if not pairs:
            problem = "no output of the reference has a gradient"
            raise self.fault(problem, "use differentiable functions of torch in the reference, without detach()")
        with self._blamed(f"the gradient of the reference{where}", self.operator.reference):
            gradients = torch.autograd.grad(
                [x for x, _ in pairs], [*leaves.values()], [d.expand_as(x) for x, d in pairs], materialize_grads=True
            )
        outputs = [] if self.case.mode == BACKWARD else [x.detach() for x in returned]
        return (*outputs, *gradients)

    def _forward(self, exact: Sequence[Tensor], where: str) -> tuple[Tensor, ...]:
        reference = self.operator.reference
        with self._blamed(f"reference{where}", reference):
            returned = reference(*exact, **self._reference_keywords)
        tensors = self._tensors("reference", reference, returned, tuple(self.operator.outputs), True)
        for (name, declared), x in zip(self.operator.outputs.items(), tensors, strict=True):
            self._check_form("reference", reference, x, exact[0].device, f" for {name}")
            if x.is_floating_point() != declared.is_floating(self.case):
                problem = f"reference returned {dtype_name(x.dtype)} for {name}"
                raise self.fault(problem, f"the operator declares {declared.dtype_in(self.case)}", reference)
            if self._rounds(x, declared) and any(argument.is_floating_point() for argument in exact):
                problem = f"reference returned {dtype_name(x.dtype)} for {name}"
                raise self.fault(problem, "compute in the dtype of its inputs, float64", reference)
        return tuple(x.double() if x.is_floating_point() else x for x in tensors)

    def _rounds(self, x: Tensor, declared: contract.Tensor) -> bool:
        """Whether a result of the reference has too few digits to judge a kernel by. Rounding to 8 bits may be what the
        operator computes (quantisation): then the output has this dtype."""
        if not x.is_floating_point() or x.dtype.itemsize > 2:
            return False
        return x.dtype.itemsize == 2 or dtype_name(x.dtype) != declared.dtype_in(self.case)

    @cached_property
    def _reference_keywords(self) -> dict[str, Value]:
        """The scalars, choices and axes that the reference takes, and `dtype` if it takes that."""
        operator, scalars_and_choices = self.operator, {*self.operator.scalars, *self.operator.choices}
        named = named_after(len(operator.inputs), operator.reference)
        values = {name: self.case.axes[name] for name in (*scalars_and_choices, *operator.axes)} | {
            "dtype": self.case.dtype
        }
        unnamed = scalars_and_choices - operator.dtype_choices if takes_any(operator.reference) else set()
        return {name: value for name, value in values.items() if name in named | unnamed}

    def scale(self, output: Tensor, exact: Sequence[Tensor]) -> Tensor:
        """The operator's own scale. The operator must have one, and one output."""
        function = self.operator.scale
        assert function is not None
        with self._blamed("scale", function):
            returned = function(self.case, output, *exact[: len(self.operator.inputs)])
        if not isinstance(returned, Tensor):
            raise self.fault(f"scale returned {type(returned).__name__}", "it must return a tensor", function)
        with self._blamed("scale", function):
            larger = torch.maximum(returned.double(), output.abs())
            if larger.shape != output.shape:
                raise ValueError(
                    f"the scale has shape {tuple(returned.shape)}, but the output has shape {tuple(output.shape)}"
                )
        if (larger.isnan() & output.isfinite()).any():
            raise self.fault("scale is NaN where the output is finite", "it must be a number everywhere", function)
        return larger

    def verdict(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], expected: Sequence[Tensor]) -> str | None:
        """What the operator's own check says against the outputs; None or a Remark if they are right. An assertion that fails
        says that they are wrong. Raises OperatorFault, also if the check changes a tensor, by which others are judged."""
        tensors_by_kind = {
            "input": dict(zip(self.operator.inputs, inputs, strict=False)),
            "output": dict(zip(self.operator.outputs, outputs, strict=False)),
            "expected output": dict(zip(self.operator.outputs, expected, strict=False)),
        }
        remark = None
        for function in self.operator.judges:
            before = {kind: list(map(count_writes, x.values())) for kind, x in tensors_by_kind.items()}
            with self._blamed("check", function):
                try:
                    verdict = function(self.case, *map(dict, tensors_by_kind.values()))
                except AssertionError as error:
                    verdict = str(error).strip() or "an assertion of check= failed"
            for kind, tensors in tensors_by_kind.items():
                for (name, x), writes in zip(tensors.items(), before[kind], strict=True):
                    if count_writes(x) != writes:
                        raise self.fault(
                            f"check changed the {kind} {name} in place", "it must work on a copy", function
                        )
            if verdict is not None and not (isinstance(verdict, str) and verdict.strip()):
                remedy = "it must return None, or text that says what is wrong"
                raise self.fault(f"check returned {verdict!r:.80}", remedy, function)
            if verdict and not isinstance(verdict, Remark):
                return verdict
            remark = verdict or remark
        return remark

    def work(self, inputs: Sequence[Tensor]) -> Work:
        """The work of a call with these inputs."""
        operator, by_name = self.operator, dict(zip(self.operator.inputs, inputs, strict=False))
        function = operator.bytes or operator.reference
        with self._sized("a tensor"), self._blamed("bytes", function):
            count: Any = operator.call_bytes(self.case, by_name)
        call_bytes = int(self._number("bytes", function, count))
        if operator.flops is None:
            return Work(call_bytes, None)
        with self._blamed("flops", operator.flops):
            count = counted(operator.flops, self.case, by_name)
        return Work(call_bytes, int(self._number("flops", operator.flops, count)))

    def declared_shape(self, output: Output) -> tuple[int, ...]:
        """The shape that the operator declares for an output."""
        with self._sized(output.name):
            return output.declared.shape_in(self.case)

    def check_shapes(self, shapes: Sequence[tuple[int, ...]]) -> None:
        """Raises OperatorFault if the reference returns other shapes than the operator declares."""
        for output, shape in zip(self.outputs, shapes, strict=True):
            declared = self.declared_shape(output)
            if shape != declared:
                problem = f"reference returned shape {shape} for {output.name}"
                raise self.fault(problem, f"the operator declares {declared}")

    def fault(self, what: str, advice: str, function: Any = None) -> OperatorFault:
        """A fault of the reference, or of another function, in this case."""
        where = written_at(function or self.operator.reference, self.operator.declared_at)
        return OperatorFault(self.operator, where, f"{what} on {self._sizes}; {advice}")

    @property
    def _sizes(self) -> str:
        return self.case.label.removeprefix(f"{self.case.operator} ")

    @contextmanager
    def _blamed(self, name: str, function: Any) -> Iterator[None]:
        """Inside, a function of the operator runs. Whatever it raises is the fault of the operator."""
        try:
            yield
        except (SizeError, OperatorFault):
            raise
        except (Exception, SystemExit) as error:  # other people's code may raise anything
            if out_of_memory(error):
                raise
            text = f"{name} fails on {self._sizes}: {type(error).__name__}: {message(error)}"
            where = location(error, written_at(function, self.operator.declared_at))
            raise OperatorFault(self.operator, where, text) from error

    @contextmanager
    def _sized(self, name: str) -> Iterator[None]:
        try:
            yield
        except SizeError as error:
            problem = f"a size of {name} cannot be computed ({error})"
            raise self.fault(problem, "leave such cases out of the sweep") from None

    def _tensors(
        self, subject: str, function: Any, returned: Any, names: Sequence[str], bare: bool
    ) -> tuple[Tensor, ...]:
        """The tensors that a function returned, one for each name. With `bare`, a single one needs no tuple."""
        bare = bare and len(names) == 1
        if bare and isinstance(returned, Tensor):
            return (returned,)
        if not isinstance(returned, (tuple, list)):
            is_ = type(returned).__name__
        elif len(returned) != len(names):
            is_ = plural(len(returned), "value")
        elif misfits := [pair for pair in zip(names, returned, strict=True) if not isinstance(pair[1], Tensor)]:
            is_ = f"a {type(returned).__name__} with {type(misfits[0][1]).__name__} in the place of {misfits[0][0]}"
        else:
            return tuple(returned)
        must = "a tensor" if bare else f"a tuple of {plural(len(names), 'tensor')} ({', '.join(names)})"
        raise self.fault(f"{subject} returned {is_}", f"it must return {must}", function)

    def _check_form(
        self,
        subject: str,
        function: Any,
        x: Tensor,
        device: torch.device,
        of: str = "",
        *,
        shape: tuple[int, ...] | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Raises OperatorFault unless a tensor is dense and has this device, shape and dtype."""
        for is_, must in (
            (f"a tensor of layout {x.layout}", f"a tensor of layout {torch.strided}"),
            (f"a tensor on device {x.device}", f"a tensor on device {device}"),
            (f"shape {tuple(x.shape)}", f"shape {tuple(x.shape) if shape is None else shape}"),
            (dtype_name(x.dtype), dtype_name(dtype or x.dtype)),
        ):
            if is_ != must:
                raise self.fault(f"{subject} returned {is_}{of}", f"it must return {must}", function)

    def _number(self, name: str, function: Any, number: Any) -> float:
        """A number that an operator's function returned, which must not be negative."""
        if not isinstance(number, Real) or isinstance(number, bool) or not math.isfinite(number) or number < 0:
            problem = f"{name} returned {number!r:.80}"
            raise self.fault(problem, "it must return a number that is not negative", function)
        return float(number)


def count_writes(x: Tensor) -> int:
    """How often torch has written into a tensor. Those that inference mode made do not count it."""
    return 0 if x.is_inference() else x._version


def exactly(inputs: Sequence[Tensor]) -> list[Tensor]:
    """The inputs for the reference: floating-point tensors as float64, others unchanged."""
    return [x.double() if x.is_floating_point() else x for x in inputs]


def dtype_name(dtype: torch.dtype) -> str:
    """`float16`"""
    return str(dtype).removeprefix("torch.")


def case_hash(definition: Definition, work: Work) -> str:
    """Distinguishes two definitions of the same case: a hash of the source of the operator's functions, of its tensors, bytes,
    floating-point operations and tolerances. Kernels in the same file are not part of it, and neither are the numbers that
    follow from drawn inputs."""
    operator = definition.operator
    call_bytes, flops = (
        _text_of(count) if count and takes_inputs(count) else number
        for count, number in zip((operator.bytes, operator.flops), work, strict=True)
    )
    tensors = [*operator.inputs.items(), *operator.outputs.items()]
    functions = (operator.reference, operator.scale, *operator.judges)
    return digest(
        [
            operator.source or [_text_of(function) for function in functions],
            [(name, tensor.sizes, tensor.dtype, _text_of(tensor.fill)) for name, tensor in tensors],
            definition.case.to_json(),
            call_bytes,
            [(output.name, str(output.dtype), output.tolerance, output.ulps) for output in definition.outputs],
            *([] if flops is None else [flops]),
        ]
    )


def _text_of(function: Any) -> str:
    """The source of a function, or a description that is the same in each process."""
    while isinstance(function, functools.partial):
        function = function.func
    if not callable(function):
        return repr(function)
    for source in (inspect.unwrap(function), type(function)):
        try:
            return inspect.getsource(source)
        except (TypeError, OSError):  # not written in Python, as torch.matmul is not, or not in a file
            continue
    return getattr(function, "__name__", type(function).__name__)

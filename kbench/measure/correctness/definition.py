"""An operator's own functions, called for one case.

Providers are checked against these functions. If one of them fails, or returns a value that it must not return, that is the
fault of the operator and not of a provider: an OperatorFault, with the place in the operator's code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from kbench.measure.machine.device import out_of_memory
from kbench.registry import Operator
from kbench.results.case import Case
from kbench.text.exception_text import location, message, written_at


class OperatorFault(Exception):
    """A function of an operator fails on a case. `where` is file:line in its code; `what` describes the fault."""

    def __init__(self, operator: Operator, where: str, what: str) -> None:
        super().__init__(f"operator {operator.name}: {what} (at {where})")
        self.where, self.what = where, f"operator {operator.name}: {what}"


class Definition:
    """One case of an operator. Every method raises OperatorFault. Out of memory is not a fault: it is raised as is."""

    def __init__(self, operator: Operator, case: Case) -> None:
        self.operator, self.case = operator, case

    def inputs(self, randn: Callable[..., Tensor]) -> tuple[Tensor, ...]:
        """The inputs, drawn with `randn`."""
        with self._blamed("inputs", self.operator.inputs):
            drawn = self.operator.inputs(self.case, randn)
        return self._tensors("inputs", self.operator.inputs, drawn)

    def edge(self, name: str, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The inputs, changed to the edge case of this name."""
        function = self.operator.edges[name]
        with self._blamed(f"edges[{name!r}]", function):
            changed = function(self.case, *inputs)
        return self._tensors(f"edges[{name!r}]", function, changed)

    def reference(self, exact: Sequence[Tensor], where: str = "") -> Tensor:
        """The reference in float64 at `exact` inputs (see `exactly`). `where` is added to the message if it fails."""
        with self._blamed(f"reference{where}", self.operator.reference):
            found = self.operator.reference(self.case, *exact)
        if not isinstance(found, Tensor):
            raise self._fault(
                self.operator.reference, f"reference returned {type(found).__name__}", "it must return a tensor"
            )
        return found.double()

    def scale(self, reference: Tensor, exact: Sequence[Tensor]) -> Tensor:
        """The operator's own scale. The operator must have one."""
        assert self.operator.scale is not None
        with self._blamed("scale", self.operator.scale):
            found = self.operator.scale(self.case, reference, *exact)
            return torch.maximum(found, reference.abs())

    def bytes(self) -> int:
        """Algorithmic bytes of a call."""
        with self._blamed("bytes", self.operator.bytes):
            count = self.operator.bytes(self.case)
        return int(self._number("bytes", self.operator.bytes, count))

    def tolerance(self) -> float:
        """The allowed error, in units in the last place of float32."""
        with self._blamed("tolerance", self.operator.tolerance):
            units = self.operator.tolerance(self.case)
        return self._number("tolerance", self.operator.tolerance, units)

    @property
    def _sizes(self) -> str:
        return self.case.label.removeprefix(f"{self.case.operator} ")

    @contextmanager
    def _blamed(self, name: str, function: Any) -> Iterator[None]:
        try:
            yield
        except (Exception, SystemExit) as error:  # whatever the function raises is the fault of the operator
            if out_of_memory(error):
                raise
            said = f"{name} fails on {self._sizes}: {type(error).__name__}: {message(error)}"
            raise OperatorFault(self.operator, location(error, written_at(function)), said) from error

    def _fault(self, function: Any, what: str, advice: str) -> OperatorFault:
        return OperatorFault(self.operator, written_at(function), f"{what} on {self._sizes}; {advice}")

    def _tensors(self, name: str, function: Any, found: Any) -> tuple[Tensor, ...]:
        if isinstance(found, (tuple, list)) and found and all(isinstance(x, Tensor) for x in found):
            return tuple(found)
        kind = "an empty tuple" if isinstance(found, (tuple, list)) and not found else type(found).__name__
        raise self._fault(function, f"{name} returned {kind}", "it must return a tuple of tensors")

    def _number(self, name: str, function: Any, found: Any) -> float:
        if isinstance(found, (int, float)) and math.isfinite(found) and found >= 0:
            return found
        raise self._fault(function, f"{name} returned {found!r:.80}", "it must return a number that is not negative")


def exactly(inputs: Sequence[Tensor]) -> list[Tensor]:
    """The inputs for the reference: floating-point tensors as float64, others (labels, masks) unchanged."""
    return [x.double() if x.is_floating_point() else x for x in inputs]

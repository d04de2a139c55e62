"""Calls of an operator's own functions. If one fails, or returns a value that it must not return, that is the fault of the
operator and not of a provider: an OperatorFault, with the place in the operator's code.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.contract.sizes import SizeError
from kbench.measure.machine.device import out_of_memory
from kbench.results.case import Case
from kbench.text.exception_text import location, message, written_at
from kbench.text.words import plural

COUNT_LIMIT = 1 << 63
"""The bytes and the floating-point operations of a call are fewer than this: a device of 1 PFLOP/s would take hours."""


class OperatorFault(Exception):
    """A function of an operator fails on a case. `where` is file:line in its code; `what` describes the fault."""

    def __init__(self, operator: Operator, where: str, what: str) -> None:
        super().__init__(f"operator {operator.name}: {what} (at {where})")
        self.where, self.what = where, f"operator {operator.name}: {what}"


class OperatorCalls:
    """Calls of an operator's functions for one case. Whatever a function raises, and a value that it must not return, becomes
    an OperatorFault. Out of memory is not a fault: it is raised as is."""

    def __init__(self, operator: Operator, case: Case) -> None:
        self.operator, self.case = operator, case

    @contextmanager
    def _sized(self, name: str) -> Iterator[None]:
        try:
            yield
        except SizeError as error:
            what = f"a size of {name} cannot be computed ({error})"
            raise self._fault(self.operator.reference, what, "leave such cases out of the sweep") from None

    def _tensors(self, what: str, function: Any, found: Any, names: Sequence[str], bare: bool) -> tuple[Tensor, ...]:
        """The tensors that an operator's function returned, one for each name. With `bare`, a single one needs no tuple."""
        bare = bare and len(names) == 1
        if bare and isinstance(found, Tensor):
            return (found,)
        if not isinstance(found, (tuple, list)):
            is_ = type(found).__name__
        elif len(found) != len(names):
            is_ = f"{plural(len(found), 'value')}"
        elif other := [pair for pair in zip(names, found, strict=True) if not isinstance(pair[1], Tensor)]:
            is_ = f"a {type(found).__name__} with {type(other[0][1]).__name__} in the place of {other[0][0]}"
        else:
            return tuple(found)
        must = "a tensor" if bare else f"a tuple of {plural(len(names), 'tensor')} ({', '.join(names)})"
        raise self._fault(function, f"{what} returned {is_}", f"it must return {must}")

    def _check_dense(self, what: str, function: Any, found: Tensor, of: str = "") -> None:
        """Raises OperatorFault for a sparse tensor: kbench looks at the elements of a tensor by their place in memory."""
        if found.layout != torch.strided:
            is_ = f"{what} returned a tensor with layout {str(found.layout).removeprefix('torch.')}{of}"
            raise self._fault(function, is_, "it must return a dense one")

    @property
    def _sizes(self) -> str:
        return self.case.label.removeprefix(f"{self.case.operator} ")

    @contextmanager
    def _blamed(self, name: str, function: Any) -> Iterator[None]:
        try:
            yield
        except (SizeError, OperatorFault):
            raise
        except (Exception, SystemExit) as error:  # whatever the function raises is the fault of the operator
            if out_of_memory(error):
                raise
            said = f"{name} fails on {self._sizes}: {type(error).__name__}: {message(error)}"
            raise OperatorFault(self.operator, location(error, written_at(function)), said) from error

    def _fault(self, function: Any, what: str, advice: str) -> OperatorFault:
        return OperatorFault(self.operator, written_at(function), f"{what} on {self._sizes}; {advice}")

    def fault(self, what: str, advice: str) -> OperatorFault:
        """A fault of the reference in this case."""
        return self._fault(self.operator.reference, what, advice)

    def _number(self, name: str, function: Any, found: Any) -> float:
        """A number that an operator's function returned, which must not be negative."""
        value = _value(found)
        if value is None or value < 0:
            is_ = f"{name} returned {_shown(found)}"
            raise self._fault(function, is_, "it must return a number that is not negative")
        return value

    def _count(self, name: str, function: Any, found: Any) -> int:
        """A number of bytes or operations that an operator's function returned."""
        count = int(self._number(name, function, found))
        if count >= COUNT_LIMIT:
            raise self._fault(function, f"{name} returned {_shown(found)}", "it must return a number below 2^63")
        return count


def _value(found: Any) -> int | float | None:
    """The value of a number of Python or numpy; None for booleans, NaN, infinities and everything else."""
    if isinstance(found, Integral) and not isinstance(found, bool):
        return int(found)
    if isinstance(found, Real) and not isinstance(found, Integral) and math.isfinite(found):
        return float(found)
    return None


def _shown(found: Any) -> str:
    """A value in a message. Python refuses to write very large integers."""
    if isinstance(found, int) and abs(found) >= COUNT_LIMIT:
        return f"an integer of {found.bit_length()} bits"
    return f"{found!r:.80}"

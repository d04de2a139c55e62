"""The wrong elements of an output: how many there are, where, and what the first one holds, in one sentence."""

from __future__ import annotations

import math

from torch import Tensor

from kbench.contract.operator import Operator
from kbench.measure.correctness.definition import Output
from kbench.measure.correctness.expected import OutputPart

NEAR = 10
"""If every error is below this many times the allowed error, the tolerance looks too narrow. Most broken kernels are off by
thousands of times."""


class WrongElements:
    """Collects the wrong elements of an output, part by part, and describes them in one sentence."""

    def __init__(self, tensor: Tensor, operator: Operator, output: Output) -> None:
        self.shape, self.total, self.count = tuple(tensor.shape), tensor.numel(), 0
        self.operator, self.output = operator, output
        self.first = self.knob = ""
        self.bounds: list[tuple[int, int]] = []  # the first and the last wrong index of every dimension but the rows
        self.zeros = self.nans = True
        self.near = False

    def add(
        self,
        right: Tensor,
        part: OutputPart,
        got: Tensor,
        reference: Tensor,
        error: Tensor,
        unit: Tensor,
        allowed: Tensor,
        rounded: Tensor,
    ) -> None:
        """Add a part of the output.

        `error` and `allowed` are absolute. `unit` is the last place of the output at the reference. `rounded` is a mask of
        the elements whose allowed error is mostly the rounding of the output.
        """
        bad = ~right
        if not bad.any():
            return
        at = tuple(bad.nonzero()[0].tolist())
        near = bool((error[bad] <= NEAR * allowed[bad]).all())
        if not self.count:
            self._begin(part, at, *_apart(got[at].item(), reference[at].item(), 7))
            units = (error[at] / unit[at]).item()
            if math.isfinite(units):
                self.first += " ({} ulp, {} allowed)".format(*_apart(units, (allowed[at] / unit[at]).item()))
            self.knob = "output_ulps" if bool(rounded[at]) else "tolerance"
        self.near = near and (self.near or not self.count)
        self._count(part, bad, got)

    def add_exact(self, right: Tensor, part: OutputPart, got: Tensor, reference: Tensor) -> None:
        """Add a part of an output that is not floating-point: every element must equal the reference."""
        bad = ~right
        if not bad.any():
            return
        at = tuple(bad.nonzero()[0].tolist())
        if not self.count:
            self._begin(part, at, str(got[at].item()), str(reference[at].item()))
        self._count(part, bad, got)

    def _begin(self, part: OutputPart, at: tuple[int, ...], is_: str, should: str) -> None:
        place = ", ".join(str(i + (part.start if d == part.dimension else 0)) for d, i in enumerate(at))
        self.first = (f"first at [{place}]: " if at else "") + f"{is_} instead of {should}"

    def _count(self, part: OutputPart, bad: Tensor, got: Tensor) -> None:
        self.count += int(bad.sum())
        self.zeros &= bool((got[bad] == 0).all())
        self.nans &= bool(got[bad].isnan().all())
        if len(self.shape) < 2:
            return
        columns = bad.any(0)
        if part.dimension:  # a slice of every row
            whole = columns.new_zeros(self.shape[1:])
            whole.narrow(part.dimension - 1, part.start, part.stop - part.start).copy_(columns)
            columns = whole
        touched = columns.nonzero()
        found = list(zip(touched.amin(0).tolist(), touched.amax(0).tolist(), strict=True))
        before = self.bounds or found
        self.bounds = [(min(a, low), max(b, high)) for (a, b), (low, high) in zip(before, found, strict=True)]

    def describe(self) -> str:
        kind = "zero" if self.zeros else "NaN" if self.nans else "wrong"
        many = "every element" if self.count == self.total else f"{self.count} of {self.total} elements"
        where = self._where() if self.count < self.total else ""
        return f"{many} {kind}{where}; {self.first}{self._hint() if self.near else ''}"

    def _where(self) -> str:
        """The columns, or the indices of a tensor of more dimensions, within which all wrong elements are."""
        sizes = self.shape[1:]
        if all(each == (0, size - 1) for each, size in zip(self.bounds, sizes, strict=False)):
            return ""
        ranges = [str(low) if low == high else f"{low} to {high}" for low, high in self.bounds]
        if len(ranges) == 1:
            return f", all in column{'s' if ' to ' in ranges[0] else ''} {ranges[0]}"
        full = [each == (0, size - 1) for each, size in zip(self.bounds, sizes, strict=True)]
        places = [":", *(":" if everywhere else each for everywhere, each in zip(full, ranges, strict=True))]
        return f", all in [{', '.join(places)}]"

    def _hint(self) -> str:
        """Which declaration to change: the tensor's own, if it has one."""
        own = {"output_ulps": self.output.declared.ulps, "tolerance": self.output.declared.tolerance}
        if own.get(self.knob) is None:
            return f"; to allow more, raise {self.knob} of operator {self.operator.name}"
        tensor, knob = self.output.name.removeprefix("gradient of "), self.knob.removeprefix("output_")
        return f"; to allow more, raise {knob} of {tensor} in operator {self.operator.name}"


def _apart(a: float, b: float, least: int = 3) -> tuple[str, str]:
    """Two numbers with `least` digits, or with as many as it takes for them to differ."""
    digits = next((digits for digits in range(least, 17) if f"{a:.{digits}g}" != f"{b:.{digits}g}"), least)
    return f"{a:.{digits}g}", f"{b:.{digits}g}"

"""Finds which constants of a module the sizes of its tensors are made of, by giving the constants other values.

A KernelBench problem has no axes: it has constants (`batch_size = 16`) and functions that use them. Where a size follows from
the constants in a simple way (`2*batch_size`, `width-2`, `batch*heads`), the constants can be axes. All others are fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

Sizes = tuple[int, ...]
"""All sizes of all tensors, one after another."""

Trace = Callable[[Mapping[str, int]], Sizes | None]
"""The sizes with other values for some constants; None if the module does not accept them, or has other tensors then."""

MOST_CONSTANTS = 16
"""A module with more constants gets no axes: each constant takes two traces."""


@dataclass(frozen=True)
class FittedSizes:
    """The constants that are axes, and an expression in them for each size."""

    axes: tuple[str, ...]
    sizes: tuple[str, ...]


def fit_sizes(constants: Mapping[str, int], trace: Trace) -> FittedSizes:
    """Fit the sizes to the constants. Every expression has been compared with traces of other values than it was made from.

    Raises ValueError if `trace({})` is None.
    """
    base = trace({})
    if base is None:
        raise ValueError("trace({}) must return the sizes, but it returned None")
    fit = _Fit(base, constants, trace)
    if len(constants) <= MOST_CONSTANTS:
        fit.free = [name for name in constants if fit.varies(name)]
    while (found := fit.expressions()) is None:
        pass
    used = [name for name in fit.free if any(fit.doubled(name)[at] != size for at, size in enumerate(base))]
    return FittedSizes(tuple(used), found)


@dataclass
class _Fit:
    base: Sizes
    constants: Mapping[str, int]
    trace: Trace
    free: list[str] = field(default_factory=list)
    _traced: dict[frozenset[tuple[str, int]], Sizes | None] = field(default_factory=dict)

    def traced(self, factors: Mapping[str, int]) -> Sizes | None:
        """The sizes with constants multiplied by factors."""
        key = frozenset(factors.items())
        if key not in self._traced:
            self._traced[key] = self.trace({name: self.constants[name] * factor for name, factor in factors.items()})
        return self._traced[key]

    def varies(self, name: str) -> bool:
        """Whether the module accepts other values of a constant."""
        return self.constants[name] > 0 and all(self.traced({name: factor}) is not None for factor in (2, 3))

    def doubled(self, name: str) -> Sizes:
        found = self.traced({name: 2})
        assert found is not None
        return found

    def expressions(self) -> tuple[str, ...] | None:
        """An expression for each size. None if one was not found: then one constant fewer is free."""
        found = []
        for at, size in enumerate(self.base):
            names = [name for name in self.free if self.doubled(name)[at] != size]
            expression = self._fitted(at, names)
            if expression is None:
                self.free.remove(
                    min(names, key=lambda name: self.constants[name])
                )  # a kernel size before an image size
                return None
            found.append(expression)
        return tuple(found)

    def _fitted(self, at: int, names: Sequence[str]) -> str | None:
        size = self.base[at]
        if not names:
            return str(size)
        for expression, value in (self._product(at, names), self._sum(at, names)):
            if expression and self._holds(at, names, value):
                return expression
        return None

    def _product(self, at: int, names: Sequence[str]) -> tuple[str, Callable[[Mapping[str, int]], int]]:
        size, whole = self.base[at], prod(self.constants[name] for name in names)
        text = "*".join(names)
        if size and size % whole == 0:
            text = text if size == whole else f"{size // whole}*{text}"
        else:
            text = f"{text}/{whole // size}" if size and whole % size == 0 else ""
        return text, lambda factors: size * prod(factors.values())

    def _sum(self, at: int, names: Sequence[str]) -> tuple[str, Callable[[Mapping[str, int]], int]]:
        size = self.base[at]
        steps = {name: self.doubled(name)[at] - size for name in names}
        if any(step % self.constants[name] for name, step in steps.items()):
            return "", lambda factors: -1
        slopes = {name: step // self.constants[name] for name, step in steps.items()}
        rest = size - sum(slope * self.constants[name] for name, slope in slopes.items())
        terms = "+".join(name if slope == 1 else f"{slope}*{name}" for name, slope in slopes.items())
        text = (f"{terms}{rest:+d}" if rest else terms).replace("+-", "-")
        return text, lambda factors: size + sum((factors[name] - 1) * step for name, step in steps.items())

    def _holds(self, at: int, names: Sequence[str], value: Callable[[Mapping[str, int]], int]) -> bool:
        """Whether an expression also gives the sizes of other traces: each constant three times as large, and all twice."""
        tried = [{name: factor} for name in names for factor in (2, 3)]
        tried += [dict.fromkeys(names, 2)] if len(names) > 1 else []
        for factors in tried:
            found = self.traced(factors)
            if found is None or found[at] != value({**dict.fromkeys(names, 1), **factors}):
                return False
        return True

"""Salts: small random changes of the inputs, such that the inputs stay valid.

A salt replaces some elements of the inputs by those that another valid draw has at the same places. The rules:

- An input with the operator's axis `rows`: some whole rows. Rows are independent, so each may come from another draw. If kbench
  fills the input itself (normal, uniform, integers), every element is drawn by itself, and a part of each row is enough. Three
  salts of four then change a few elements of nearly all rows, so a call that computes only changed rows saves nothing.
- An input without that axis that kbench fills itself: some lines along its longest dimension, and a part of each.
- An input without that axis that a function fills: its structure is not known (sorted indices, offsets). It changes only if no
  other input can: then all such inputs change as a whole.
- In mode `backward` only the gradients of the outputs change: the forward pass ran before, on the other inputs.

The same rows change in all inputs. They lie at equal distances over all rows, as do lines. So a call that leaves a block of its
work undone leaves salted elements undone. A salt of few lines changes half or more of each line in three cases of four, and
otherwise a part of any length, down to one element. So reading a few elements of a line does not tell whether it has changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from torch import Tensor

from kbench.contract.tensor import Integers, Normal, Uniform
from kbench.measure.definition.definition import Definition
from kbench.results.case import BACKWARD

SALTED_ROWS = 8
"""The most rows that a salt changes."""

SALTED_LINES, SALTED_POINTS = 64, 4096
"""The most lines that a salt changes in an input without rows: of several dimensions, and of one."""

SHORT = 0.25
"""The share of salts that change a part of any length of each line. The others change half of it, or more."""

MOST_ELEMENTS = 2**20
"""A salt changes at most about this many elements of an input, so that it takes microseconds and little of the cache."""

WIDE = 0.75
"""The share of salts that change nearly all rows of an input, where a part of each is enough."""

WIDE_ELEMENTS = 2**17
"""Such a salt changes at most about this many elements, or one of each row: they lie far apart in memory."""

WIDE_PART = 16
"""Such a salt changes at most 1/16 of each row, so a provider that looks at a few elements of a row seldom sees it."""

LEFT_OUT = 32
"""Such a salt leaves out less than 1/32 of the rows at either end. So two salts of one column are not the same."""


@dataclass(frozen=True)
class Box:
    """Some elements of an input: `spans` are (dimension, start, step, count); other dimensions are whole."""

    position: int
    spans: tuple[tuple[int, int, int, int], ...]

    def of(self, x: Tensor, leading: int = 0) -> Tensor:
        """A view of these elements of `x`, which has `leading` more dimensions before those of the input."""
        shape, stride, start = list(x.shape), list(x.stride()), x.storage_offset()
        for dimension, first, step, count in self.spans:
            at = dimension + leading
            start += first * stride[at]
            shape[at] = count
            stride[at] *= step
        return x.as_strided(shape, stride, start)


@dataclass(frozen=True)
class Salt:
    """Elements to replace, and which rows they are in (none without the axis `rows`). A `wide` salt also changes most of the
    other rows."""

    boxes: tuple[Box, ...]
    rows: range = range(0)
    wide: bool = False


@dataclass(frozen=True)
class _Plan:
    """How to salt the input at `position`: lines along the dimension `along`, and a part of each along `across`. If `across` is
    None, lines change as a whole; if `along` is None, the input does."""

    position: int
    along: int | None
    across: int | None
    of_rows: bool


class Salter:
    """Draws salts for a case. `pristine` and `other` are two valid draws of its inputs. No two salts are likely to be the same,
    unless the inputs have only a few elements."""

    def __init__(
        self, definition: Definition, pristine: Sequence[Tensor], other: Sequence[Tensor], random: Random
    ) -> None:
        self.pristine, self.other, self._random = pristine, other, random
        self._shapes = [tuple(x.shape) for x in pristine]
        self._plans = _plans(definition, self._shapes)
        self._whole = not self._plans
        if self._whole:
            self._plans = [_Plan(at, None, None, False) for at in _changeable(definition, self._shapes)]
        rows = [
            self._shapes[plan.position][plan.along] for plan in self._plans if plan.of_rows and plan.along is not None
        ]
        self._rows = rows[0] if rows else 0

    def draw(self) -> Salt:
        """A new salt."""
        if self._whole and self._random.random() < 0.5:
            return Salt(())
        rows = self._comb(self._rows, SALTED_ROWS) if self._rows else (0, 1, 0)
        most_rows = self._most(self._rows) if self.wide and self._random.random() < WIDE else None
        start, step, count = rows
        boxes = tuple(self._box(plan, rows, most_rows) for plan in self._plans)
        return Salt(boxes, range(start, start + step * count, step), most_rows is not None)

    @property
    def wide(self) -> bool:
        """Whether some salts are wide."""
        return any(plan.of_rows and plan.across is not None for plan in self._plans)

    def _box(self, plan: _Plan, rows: tuple[int, int, int], most_rows: tuple[int, int, int] | None) -> Box:
        shape, along, across = self._shapes[plan.position], plan.along, plan.across
        if along is None:
            return Box(plan.position, ())
        most = SALTED_LINES if across is not None else SALTED_POINTS
        lines = rows if plan.of_rows else self._comb(shape[along], most)
        if across is None:
            return Box(plan.position, ((along, *lines),))
        others = 1
        for dimension, size in enumerate(shape):
            others *= 1 if dimension in (along, across) else size
        if plan.of_rows and most_rows:
            most = max(1, min(shape[across] // WIDE_PART, WIDE_ELEMENTS // (most_rows[2] * others)))
            return Box(plan.position, ((along, *most_rows), (across, *self._comb(shape[across], most))))
        window = self._window(shape[across], max(1, MOST_ELEMENTS // (lines[2] * others)))
        return Box(plan.position, ((along, *lines), (across, *window)))

    def _most(self, size: int) -> tuple[int, int, int]:
        """Start, step and count of nearly all of `size` indices, or of MOST_ELEMENTS of them at equal distances."""
        step = -(-size // MOST_ELEMENTS)
        start, end = self._below(size // LEFT_OUT + 1), size - self._below(size // LEFT_OUT + 1)
        return start, step, -(-(end - start) // step)

    def _comb(self, size: int, most: int) -> tuple[int, int, int]:
        """Start, step and count of indices at equal distances, over more than half of `size`."""
        count = most if size >= 2 * most else 1 + self._below(min(size, most))
        if count == 1:
            return self._below(size), 1, 1
        longest = (size - 1) // (count - 1)
        step = longest - self._below((longest + 1) // 2)
        return self._below(size - (count - 1) * step), step, count

    def _window(self, size: int, most: int) -> tuple[int, int, int]:
        short = self._random.random() < SHORT
        count = min(most, int(size ** self._random.random()) if short else size - self._below(size // 2 + 1))
        return self._below(size - count + 1), 1, count

    def _below(self, limit: int) -> int:
        return int(self._random.random() * limit)


def _changeable(definition: Definition, shapes: Sequence[tuple[int, ...]]) -> list[int]:
    """The positions of the inputs that may change between two timed calls."""
    first = len(definition.operator.inputs) if definition.case.mode == BACKWARD else 0
    return [position for position in range(first, len(shapes)) if 0 not in shapes[position]]


def _plans(definition: Definition, shapes: Sequence[tuple[int, ...]]) -> list[_Plan]:
    """How to salt each input that may change in part."""
    rows, found = definition.operator.rows, []
    for position in _changeable(definition, shapes):
        declared, shape = definition.declared_inputs[position], shapes[position]
        row = None if rows is None else declared.dimension_of(rows)
        ours = position >= len(definition.operator.inputs) or isinstance(
            declared.fill_for(declared.dtype_in(definition.case)), Normal | Uniform | Integers
        )
        if row is None and not ours:
            continue
        longest = sorted((d for d in range(len(shape)) if d != row), key=lambda d: -shape[d])
        along = row if row is not None else longest.pop(0) if longest else None
        found.append(_Plan(position, along, longest[0] if ours and longest else None, row is not None))
    return found

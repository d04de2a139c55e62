"""What was timed is what was checked: inputs change before every timed call, and some outputs of timed calls are judged.

Before each timed call, kbench restores the inputs and replaces some elements by those of another valid draw: the salt of this
call. When timing is over, it makes the inputs of the kept calls again and compares the outputs with the reference. The rules:

- An input with the operator's axis `rows`: some whole rows. Rows are independent, so each may come from another draw. The same
  rows change in all inputs. They lie at equal distances, so a call that leaves a block of its work undone leaves some undone.
- If kbench fills such an input itself (normal, uniform, integers), every element is drawn by itself. Then a few elements of
  nearly all rows change, too, so a call that computes only changed rows saves nothing. Of a single row, nothing else changes.
- An input without that axis that kbench fills itself: some lines along its longest dimension.
- The inputs without that axis that functions fill: their structure is not known (sorted indices, offsets), so all of them
  change together, each as a whole, in half of the calls. They stay as they are if the other draw is more work or less, and if
  they have many elements and another input can change.
- In mode `backward` only the gradients of the outputs change: the forward pass ran before, on the other inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from random import Random
from typing import Any

import torch
from torch import Tensor

from kbench.contract.tensor import Integers, Normal, Uniform
from kbench.measure.correctness.call import Call
from kbench.measure.correctness.check import compared, malformed
from kbench.measure.correctness.definition import Definition
from kbench.measure.correctness.expected import Expected, select_rows
from kbench.measure.correctness.inputs import SharedInputs
from kbench.results.case import BACKWARD

SALTED_ROWS = 8
"""The most rows that change as a whole."""

MOST_ELEMENTS, FEW_ELEMENTS = 2**20, 2**17
"""About the most elements of an input that change: of whole rows, and of elements far apart. So a salt takes microseconds."""

SHARE = 64
"""At most one of 64 rows changes as a whole, and at most 1/64 of the other rows and of the lines of an input, at least one. A
provider that looks at a few elements seldom sees a salt."""

LEFT_OUT = 32
"""Less than 1/32 of the rows is left out at either end. So two salts of one column are not the same."""

OTHER_ROWS = 16
"""The rows that are kept of a call beside those that its salt has changed as a whole."""

ROWS_KEPT, WHOLE_KEPT = 4, 2
"""How many timed calls of a provider are judged, by some rows of the reference and by the whole reference."""

LARGEST_KEPT = 2**28
"""An output without rows is kept whole, unless it takes more bytes than this. A judge of the operator's own sees all outputs or
none: these are kept unless they take more bytes together."""

Index = tuple[slice, ...]


@dataclass(frozen=True)
class Salt:
    """A change of the inputs.

    rows     the rows that change as a whole; a single row, of which only a few elements may change
    changes  the position of an input, the elements that change, and the elements of the other draw that take their place
    """

    rows: slice
    changes: Sequence[tuple[int, Index, Index]]


class Salter:
    """Draws salts for inputs of these shapes. No two salts are likely to be the same, unless the inputs have few elements.
    `same_work` says whether a call on the other draw is as much work."""

    def __init__(
        self, definition: Definition, shapes: Sequence[tuple[int, ...]], random: Random, same_work: bool = True
    ) -> None:
        self._random, self._shapes = random, shapes
        axis, count = definition.operator.rows, len(definition.operator.inputs)
        first = count if definition.case.mode == BACKWARD else 0
        positions = [position for position in range(first, len(shapes)) if 0 not in shapes[position]]
        self._row_dimensions: dict[int, int] = {}  # by the positions of inputs with rows
        self._filled_by_us: list[int] = []
        for position in positions:
            declared = definition.declared_inputs[position]
            if (dimension := declared.dimension_of(axis)) is not None:
                self._row_dimensions[position] = dimension
            fill = declared.fill_for(declared.dtype_in(definition.case))
            if position >= count or isinstance(fill, Normal | Uniform | Integers):
                self._filled_by_us.append(position)
        changing = {*self._row_dimensions, *(position for position in self._filled_by_us if prod(shapes[position]) > 1)}
        self._as_a_whole = [position for position in positions if position not in changing and same_work]
        if changing and sum(prod(shapes[position]) for position in self._as_a_whole) > MOST_ELEMENTS:
            self._as_a_whole = []
        self._rows = next((shapes[position][d] for position, d in self._row_dimensions.items()), 0)
        longest = max((prod(shapes[position]) // self._rows for position in self._row_dimensions), default=1)
        self._count = _count(self._rows, min(SALTED_ROWS, MOST_ELEMENTS // longest))

    def draw(self) -> Salt:
        changes: list[tuple[int, Index, Index]] = []
        if self._as_a_whole and self._random.random() < 0.5:
            changes += [(position, (), ()) for position in self._as_a_whole]
        rows = self._evenly_spaced(self._rows, self._count) if self._rows else slice(0, 0, 1)
        in_lines = set[int]()
        for position in self._filled_by_us:
            shape, selected = self._shapes[position], dict[int, slice]()
            if position in self._row_dimensions:
                dimension = self._row_dimensions[position]
                selected[dimension] = self._most_rows(shape[dimension])
            if len(shape) > len(selected) and prod(shape) > 1:
                changes.append((position, *self._lines(shape, selected)))
                in_lines.add(position)
        # last: few elements in a row that changes as a whole would be there twice, and make a tie for top-k. A single row
        # would then be the same in every call, so only a few of its elements change
        for position, dimension in self._row_dimensions.items():
            if self._rows > 1 or position not in in_lines:
                whole_rows = _index({dimension: rows})
                changes.append((position, whole_rows, whole_rows))
        return Salt(rows, changes)

    def _lines(self, shape: tuple[int, ...], rows: dict[int, slice]) -> tuple[Index, Index]:
        """Some lines along the longest dimension but that of the rows, and as many others. `rows` are the selected ones by
        their dimension; none for a tensor without rows."""
        along = max((d for d in range(len(shape)) if d not in rows), key=lambda d: shape[d])
        elements = prod(shape) // shape[along]  # of a line
        for dimension, selected in rows.items():
            elements = len(range(*selected.indices(shape[dimension]))) * elements // shape[dimension]
        count = _count(shape[along], FEW_ELEMENTS // elements)
        targets, sources = (self._evenly_spaced(shape[along], count) for _ in range(2))
        return _index({**rows, along: targets}), _index({**rows, along: sources})

    def _most_rows(self, size: int) -> slice:
        """Nearly all rows, or MOST_ELEMENTS of them at equal distances."""
        start, left_out = (self._below(size // LEFT_OUT + 1) for _ in range(2))
        return slice(start, size - left_out, -(-size // MOST_ELEMENTS))

    def _evenly_spaced(self, size: int, count: int) -> slice:
        """So many indices at equal distances, over more than half of `size`."""
        longest = (size - 1) // max(count - 1, 1)
        step = longest - self._below((longest + 1) // 2) if count > 1 else 1
        start = self._below(size - (count - 1) * step)
        return slice(start, start + (count - 1) * step + 1, step)

    def _below(self, limit: int) -> int:
        return int(self._random.random() * limit)


def _count(size: int, most: int) -> int:
    """How many of `size` indices change."""
    return max(1, min(most, size // SHARE))


def _index(slices: dict[int, slice]) -> Index:
    """These slices by dimension, and all of the dimensions before the last of them."""
    return tuple(slices.get(dimension, slice(None)) for dimension in range(max(slices) + 1))


@dataclass(frozen=True)
class KeptCall:
    """What is kept of one timed call.

    number   which timed call of the provider it was, from 1
    salts    the salts of its inputs, in the order in which they were written
    rows     the numbers of the rows that are kept of outputs with rows
    outputs  these rows of each output, or all of an output without rows; None for one that is too large
    fault    how the outputs differ in form from what a call must deliver; then none is kept
    """

    number: int
    salts: Sequence[Salt]
    rows: Tensor
    outputs: Sequence[Tensor | None] = ()
    fault: str | None = None


class SpotCheck:
    """Watches the timed calls of one provider, over all rounds.

    `expected` is what a call must deliver for the checked values, and `other` is another valid draw of the inputs. A timer runs
    `before` ahead of each timed call, or of each replay of all calls if they are `replayed`. Which calls are kept is decided at
    random when they are over. Nobody can foresee the salts, because the seed of `random` comes from the operating system.
    """

    def __init__(
        self, expected: Expected, shared: SharedInputs, other: Sequence[Tensor], random: Random, *, replayed: bool
    ) -> None:
        self._expected, self._shared, self._other_draw = expected, shared, other
        self._random, self._replayed = random, replayed
        definition = expected.definition
        same_work = definition.work(other) == definition.work(shared.pristine)
        self._salter = Salter(definition, [tuple(x.shape) for x in other], random, same_work)
        self._dimensions = [None if definition.operator.check else dimension for dimension in expected.row_dimensions]
        self._limit = ROWS_KEPT if None not in self._dimensions else WHOLE_KEPT
        self._extra_rows = self._draw_rows(other[0].device)
        self._keeps_whole = self._kept_whole()
        self._calls: Sequence[Call] = ()
        self._returned: list[Any] = []
        self._times: list[int] = []  # how often each call was made since the inputs were written
        self._written: list[Salt] = []
        self._number = 0  # of the call that is looked at
        self._changed: list[tuple[Tensor, Tensor]] = []
        self._kept_calls: list[KeptCall] = []
        self._call_count = 0

    def _draw_rows(self, device: torch.device) -> Tensor:
        """Random rows that are kept of every call. On the device, because a copy to it waits."""
        pairs = [(shape, d) for shape, d in zip(self._expected.shapes, self._dimensions, strict=True) if d is not None]
        count = min((shape[d] for shape, d in pairs), default=0)
        longest = max((prod(shape) // max(count, 1) for shape, _ in pairs), default=1)
        most = max(1, min(OTHER_ROWS, MOST_ELEMENTS // max(longest, 1)))
        return torch.tensor(self._random.sample(range(count), min(count, most)), dtype=torch.int64, device=device)

    def _kept_whole(self) -> list[bool]:
        """Which outputs are kept whole if they have no rows."""
        pairs = zip(self._expected.shapes, self._expected.definition.outputs, strict=True)
        sizes = [prod(shape) * output.dtype.itemsize for shape, output in pairs]
        together = self._expected.definition.operator.check is not None
        return [(sum(sizes) if together else size) <= LARGEST_KEPT for size in sizes]

    def use(self, calls: Sequence[Call]) -> list[Callable[[], Any]]:
        """Watch these calls from now on, one on each set. Returns what a timer calls in place of them."""
        self._calls = calls
        self._returned, self._times = [None] * len(calls), [0] * len(calls)
        return [_watched(call.run, number, self._returned, self._times) for number, call in enumerate(calls)]

    def before(self) -> None:
        """Look at what the last call returned, restore the inputs, and write new salts. Not part of a timed window.

        All sets of inputs have one salt in common. The set whose call is looked at has one more of its own: a provider may
        compute one call of a graph and copy its result in the others.
        """
        self.after()
        self._write(self._shared.stacked, leading=1)
        self._number = self._random.randrange(len(self._calls))
        if len(self._calls) > 1:
            self._write([x[self._number] for x in self._shared.stacked], leading=0)

    def after(self) -> None:
        """End a round: look at what the last call returned, and restore the inputs."""
        self._look()
        mutates = self._calls[0].mutates
        if mutates:
            self._shared.restore_sets(mutates)
        for target, values in self._changed:
            target.copy_(values)
        self._changed.clear()
        self._written = []

    def fault(self) -> str | None:
        """What is wrong with the outputs that were kept, when timing is over. Raises OperatorFault."""
        try:
            for kept_call in self._kept_calls:
                if fault := kept_call.fault or self._wrong(kept_call):
                    call = f"call {kept_call.number} of {self._call_count}"
                    return f"right when checked, wrong while it was timed ({call}): {fault}"
        finally:
            self._shared.restore()
        return None

    def _write(self, targets: Sequence[Tensor], leading: int) -> None:
        """Write a new salt into tensors that have `leading` dimensions more than the inputs."""
        salt, sets = self._salter.draw(), (slice(None),) * leading
        for position, target, source in salt.changes:
            tensor = targets[position][*sets, *target]
            tensor.copy_(self._other_draw[position][source])
            self._changed.append((tensor, self._shared.pristine[position][target]))
        self._written.append(salt)

    def _look(self) -> None:
        """Keep what a call returned, perhaps (reservoir sampling). A call that works in place must be the only one since the
        inputs were written. Then drop what the calls returned, unless they are replayed: the next output may take its
        memory."""
        number = self._number
        if self._written and self._times[number] and (self._times[number] == 1 or not self._calls[number].mutates):
            self._call_count += 1
            place = self._call_count - 1
            if place >= self._limit:
                place = self._random.randrange(self._call_count)
            if place < self._limit:
                self._kept_calls[place : place + 1] = [self._keep(number)]
        if not self._replayed:
            self._returned[:], self._times[:] = [None] * len(self._calls), [0] * len(self._calls)

    def _keep(self, number: int) -> KeptCall:
        """Copy parts of the outputs of a call. This does not wait for the device."""
        device = self._extra_rows.device
        changed = [torch.arange(x.rows.start, x.rows.stop, x.rows.step, device=device) for x in self._written]
        rows = torch.cat([*changed, self._extra_rows])
        inputs, outputs = self._shared.sets[number], self._calls[number].deliver(self._returned[number])
        if fault := malformed(self._expected, inputs, outputs):
            return KeptCall(self._call_count, self._written, rows, fault=fault)
        places = zip(outputs, self._dimensions, self._keeps_whole, strict=True)
        copies = [self._copied(x.detach(), dimension, rows, whole) for x, dimension, whole in places]
        return KeptCall(self._call_count, self._written, rows, copies)

    def _copied(self, output: Tensor, dimension: int | None, rows: Tensor, whole: bool) -> Tensor | None:
        if dimension is None:
            return output.clone() if whole else None
        return select_rows(output, dimension, rows)

    def _wrong(self, kept_call: KeptCall) -> str | None:
        """What is wrong with the values of a call. Small errors are no fault here, because the salts differ from run to run:
        the checks, whose inputs are always the same, decide whether a provider is accurate enough."""
        self._shared.restore()
        for salt in kept_call.salts:
            for position, target, source in salt.changes:
                self._shared.stacked[position][0][target].copy_(self._other_draw[position][source])
        inputs = self._shared.tensors
        pairs = list(zip(kept_call.outputs, self._dimensions, strict=True))
        in_rows = [x if d is not None else None for x, d in pairs]
        whole = [x if d is None else None for x, d in pairs]
        for outputs, rows in ((in_rows, kept_call.rows), (whole, None)):
            numbers = None if rows is None else rows.tolist()
            if any(x is not None for x in outputs):
                # the scales of the checked values are almost those of this call, and an estimate takes longer
                verdict = compared(self._expected.of(inputs, rows), outputs, numbers)
                if verdict.wrong and not verdict.near:
                    verdict = compared(self._expected.of(inputs, rows, scales=False), outputs, numbers)
                if verdict.wrong and not verdict.near:
                    return verdict.wrong
        return None


def _watched(run: Callable[[], Any], number: int, returned: list[Any], times: list[int]) -> Callable[[], None]:
    """The call, which keeps what it returns, so that others do not get its memory. It must take no time."""

    def call() -> None:
        returned[number] = run()
        times[number] += 1

    return call

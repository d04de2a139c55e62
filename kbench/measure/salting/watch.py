"""Watches the timed calls of a provider: salts the inputs before each, and keeps parts of the outputs of a few."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

from torch import Tensor

from kbench.measure.correctness.call import Call
from kbench.measure.correctness.expected import Expected
from kbench.measure.correctness.inputs import SharedInputs
from kbench.measure.salting.chosen_calls import ChosenCalls
from kbench.measure.salting.kept import Keeper, Kept
from kbench.measure.salting.kept_calls_judge import KeptCallsJudge
from kbench.measure.salting.salts import Salt, Salter

OWN_SALTS = 4
"""If calls rotate over several sets of inputs, all sets have one salt in common, and so many sets one of their own."""

EARLIER = 32
"""With the inputs of so many calls before a wrong one kbench compares what it returned: it may be a result for one of them."""

NOTHING = object()
"""In place of what a call returned that was not made."""


class Watch:
    """Watches the timed calls of one provider, over all rounds.

    A timer runs `before` ahead of each timed call, or of each replay of all calls if they are `replayed`.
    Which calls are kept is decided at random when they are over. Nobody can foresee the salts, because the seed of `random`
    comes from the operating system.
    """

    def __init__(
        self, salter: Salter, expected: Expected, shared: SharedInputs, random: Random, *, replayed: bool
    ) -> None:
        self._salter, self._shared, self._random, self._replayed = salter, shared, random, replayed
        self._expected, self._keeper = expected, Keeper(expected, random)
        self._chosen = ChosenCalls[Kept](self._keeper.limit, random)
        self._slots: list[_Slot] = []
        self._mutates: frozenset[str] = frozenset()
        self._common: Salt | None = None
        self._own: dict[int, Salt] = {}
        self._earlier: deque[tuple[Salt, dict[int, Salt]]] = deque(maxlen=EARLIER)
        self._changed: list[tuple[Tensor, Tensor]] = []

    def use(self, calls: Sequence[Call]) -> list[Callable[[], Any]]:
        """Watch these calls from now on, one on each set of the inputs. Returns what a timer calls in place of their `run`."""
        self._slots, self._mutates = [_Slot(call) for call in calls], frozenset(calls[0].mutates)
        return [slot.watched() for slot in self._slots]

    def before(self) -> None:
        """Look at what the last call returned, restore the inputs, and write new salts. Not part of a timed window."""
        self._look()
        self._restore()
        if self._common is not None:
            self._earlier.appendleft((self._common, self._own))
        self._common, self._own = self._salter.draw(), {}
        self._write(self._common, self._shared.stacked, 1)
        if len(self._slots) > 1:
            for number in self._random.sample(range(len(self._slots)), min(OWN_SALTS, len(self._slots))):
                self._own[number] = self._salter.draw()
                self._write(self._own[number], [x[number] for x in self._shared.stacked], 0)

    def after(self) -> None:
        """End a round: look at what the last call returned, and restore the inputs."""
        self._look()
        self._restore()
        self._common, self._own = None, {}

    def let_go(self) -> None:
        """Drop what the last calls returned: the next output may take its memory. Calls that are replayed keep their memory."""
        if not self._replayed:
            for slot in self._slots:
                slot.clear()

    def fault(self) -> str | None:
        """What is wrong with the outputs that were kept, when timing is over; None if nothing is. Raises OperatorFault."""
        verdict = KeptCallsJudge(self._expected, self._shared, self._salter, self._keeper)
        return verdict.fault(self._chosen.kept, self._chosen.seen)

    def _write(self, salt: Salt, targets: Sequence[Tensor], leading: int) -> None:
        for box in salt.boxes:
            target = box.of(targets[box.position], leading)
            target.copy_(box.of(self._salter.other[box.position]))
            self._changed.append((target, box.of(self._salter.pristine[box.position])))

    def _restore(self) -> None:
        if self._mutates:
            self._shared.restore_sets(self._mutates)
        for target, values in self._changed:
            target.copy_(values)
        self._changed.clear()

    def _look(self) -> None:
        """Keep what a call returned, perhaps. A call that works in place must be the only one since the inputs were written."""
        if self._common is not None and (number := self._chosen_slot()) is not None:
            salts = [salt for salt in (self._common, self._own.get(number)) if salt]
            self._chosen.offer(any(salt.wide for salt in salts), partial(self._keep, number, salts))
        self.let_go()

    def _chosen_slot(self) -> int | None:
        usable = range(len(self._slots))
        if self._own and self._random.random() < 0.5:
            number = self._random.choice(list(self._own))
        else:
            number = self._random.choice(usable)
        slot = self._slots[number]
        return number if slot.returned is not NOTHING and (slot.calls == 1 or not self._mutates) else None

    def _keep(self, number: int, salts: Sequence[Salt]) -> Kept:
        slot = self._slots[number]
        earlier = [[salt for salt in (common, own.get(number)) if salt] for common, own in self._earlier]
        return self._keeper.keep(
            self._chosen.seen, self._shared.sets[number], slot.call.outputs(slot.returned), salts, earlier
        )


class _Slot:
    """Holds what a call returned last, so that its memory is not given to others before somebody has looked at it."""

    def __init__(self, call: Call) -> None:
        self.call, self.returned, self.calls = call, NOTHING, 0

    def watched(self) -> Callable[[], None]:
        """The call, which leaves here what it returns. This must take next to no time."""
        made = self.call.run

        def run() -> None:
            self.returned = made()

        def counted() -> None:
            self.calls += 1
            self.returned = made()

        return counted if self.call.mutates else run

    def clear(self) -> None:
        self.returned, self.calls = NOTHING, 0

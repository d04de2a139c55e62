"""Which timed calls of a provider are judged."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Generic, TypeVar

_Call = TypeVar("_Call")


class ChosenCalls(Generic[_Call]):
    """A random choice of at most `limit` of the calls that are offered, one after another.

    Half of them had a wide salt and half had none, as far as there are so many of either kind. Calls of one kind have the same
    chance: this is reservoir sampling (Vitter, "Random sampling with a reservoir", 1985) for each kind. A kind may use the
    places that the other does not need yet. When the other needs one, a random call loses its place.
    """

    def __init__(self, limit: int, random: Random) -> None:
        self._limit, self._random = limit, random
        self._kept: tuple[list[_Call], list[_Call]] = ([], [])  # without and with a wide salt
        self._seen = [0, 0]

    @property
    def seen(self) -> int:
        """How many calls were offered."""
        return sum(self._seen)

    @property
    def kept(self) -> list[_Call]:
        return [*self._kept[0], *self._kept[1]]

    def offer(self, wide: bool, keep: Callable[[], _Call]) -> None:
        """Perhaps keep a call, which had a wide salt or not. `keep` is called only then."""
        mine, others = self._kept[wide], self._kept[not wide]
        self._seen[wide] += 1
        room = self._limit - min(len(others), self._limit // 2)
        at = len(mine) if self._seen[wide] <= room else self._random.randrange(self._seen[wide])
        if at >= room:
            return
        if at == len(mine) and len(mine) + len(others) == self._limit:
            others.pop(self._random.randrange(len(others)))
        mine[at : at + 1] = [keep()]

"""Which timed calls are judged: as many of either kind as there can be, and each with the same chance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest

from kbench.measure.salting.chosen_calls import ChosenCalls

Call = tuple[bool, int]
"""Whether it had a wide salt, and its number."""


def chosen(wide: Sequence[bool], limit: int = 4, seed: int = 0) -> list[Call]:
    calls: ChosenCalls[Call] = ChosenCalls(limit, Random(seed))
    for number, each in enumerate(wide):
        calls.offer(each, lambda each=each, number=number: (each, number))  # type: ignore[misc]
        assert len(calls.kept) <= limit
    assert calls.seen == len(wide)
    return calls.kept


@pytest.mark.parametrize("limit", [2, 4])
@pytest.mark.parametrize(
    "narrow, wide", [(0, 1), (0, 3), (0, 20), (20, 0), (1, 20), (20, 1), (2, 2), (20, 20), (3, 60)]
)
@pytest.mark.parametrize("first", ["narrow", "wide", "mixed"])
def test_half_of_the_calls_are_of_either_kind_or_the_other_kind_has_their_places(
    first: str, narrow: int, wide: int, limit: int
) -> None:
    kinds = sorted([False] * narrow + [True] * wide, reverse=first == "wide")
    if first == "mixed":
        Random(1).shuffle(kinds)
    found = Counter(kind for kind, _ in chosen(kinds, limit))
    half = limit // 2
    assert found[True] == min(wide, max(half, limit - narrow))
    assert found[False] == min(narrow, max(half, limit - wide))


@pytest.mark.parametrize("kinds", [[False] * 8, [False] * 5 + [True] * 5, [True, False] * 5, [True] * 8 + [False]])
def test_all_calls_of_a_kind_have_the_same_chance(kinds: list[bool]) -> None:
    times = 3000
    found = Counter(call for seed in range(times) for call in chosen(kinds, seed=seed))
    for kind in set(kinds):
        of_kind = [found[kind, number] for number, each in enumerate(kinds) if each == kind]
        mean = sum(of_kind) / len(of_kind)
        assert all(abs(count - mean) < 0.1 * times for count in of_kind), of_kind

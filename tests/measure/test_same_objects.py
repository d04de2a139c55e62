"""Two lists hold the same objects only if no object in them is another, whatever the objects say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kbench.measure.tampering import same_objects as module


class Liar:
    """Equal to everything."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("same", [module.same_objects, module._one_by_one])
def test_only_the_same_objects_count(same: Callable[[list[Any], list[Any]], bool]) -> None:
    objects = [object(), "text", 10**20, Liar(), None] * 100
    assert same(objects, list(objects)) and same([], [])
    others: list[tuple[int, Any]] = [(0, Liar()), (250, object()), (499, Liar()), (2, int(str(10**20)))]
    for at, other in others:
        changed = list(objects)
        changed[at] = other
        assert not same(objects, changed), at
    assert not same(objects, objects[:-1]) and not same(objects[:-1], objects) and not same([], objects)
    assert not same(objects, [*objects[1:], objects[0]])
    grown = list(objects)
    grown.append(None)
    grown.pop()
    assert same(objects, grown)

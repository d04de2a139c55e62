"""Which measured cases lie next to each other, and which cases differ from all their neighbours."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kbench.dispatching.evidence import Evidence


def neighbours(evidence: Evidence) -> list[list[int]]:
    """The neighbours of each case, as indices of cases with the same words, such as the dtype.

    Two cases are neighbours if no third one lies in the box between them, edges included. So a point of a grid has one
    neighbour in each direction, and a point of a curve has two. This needs no distance, so it is the same for sizes and their
    logarithms (the rectangular influence graph; Ichino and Sklansky, "The relative neighborhood graph for mixed feature
    variables", 1985).
    """
    sizes = np.array([evidence.values(name) for name in evidence.numbers], dtype=float).T
    groups: dict[tuple[object, ...], list[int]] = {}
    for case, point in enumerate(evidence.points):
        words = tuple(point[argument.name] for argument in evidence.arguments if argument.words)
        groups.setdefault(words, []).append(case)
    found: list[list[int]] = [[] for _ in evidence.points]
    for group in groups.values():
        places = sizes[group]
        for place, case in enumerate(group):
            found[case] = [group[other] for other in _next_to(places, place)]
    return found


def _next_to(places: NDArray[np.float64], place: int) -> list[int]:
    low, high = np.minimum(places, places[place]), np.maximum(places, places[place])
    return [
        other
        for other in range(len(places))
        if other != place and ((low[other] <= places) & (places <= high[other])).all(axis=1).sum() == 2
    ]


def is_isolated(evidence: Evidence, beside: list[int], case: int, chosen: int) -> bool:
    """Whether another provider is faster than `chosen` at a case, and its neighbours do not predict this.

    They do if, at one of the neighbours `beside`, such a provider is faster than `chosen` by more than noise."""
    faster = evidence.measured[case] < evidence.measured[case, chosen]
    return bool(faster.any()) and not bool(
        (evidence.measured[np.ix_(beside, faster)] < evidence.decided[beside, chosen][:, None]).any()
    )

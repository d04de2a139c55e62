"""The map of a decision: which provider it chooses between the measured sizes, and which one was best at each of them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import numpy as np

from kbench.dispatching.evidence import Evidence
from kbench.dispatching.tree import Decision
from kbench.plotting.choice_map import ChoicePanel, Dot

MOST_MAPS = 9
CELLS = 120
"""Along each side of a panel."""

BEYOND = 1.25
"""The map reaches beyond the measured sizes by this factor."""


def map_panels(decision: Decision, evidence: Evidence) -> list[ChoicePanel]:
    """A panel for each combination of the arguments that are not x or y, at most MOST_MAPS.

    y and x are the sizes with the most values. The list is empty where no size varies.
    """
    counts = {name: len({point[name] for point in evidence.points}) for name in evidence.numbers}
    varying = [name for name in counts if counts[name] > 1 and min(evidence.values(name)) > 0]
    chosen = sorted(sorted(varying, key=lambda name: -counts[name])[:2], key=varying.index)
    if not chosen:
        return []
    x, y = chosen[-1], chosen[0] if len(chosen) > 1 else ""
    others = [argument.name for argument in evidence.arguments if argument.name not in (x, y)]
    groups: dict[tuple[object, ...], list[int]] = {}
    for case, point in enumerate(evidence.points):
        groups.setdefault(tuple(point[name] for name in others), []).append(case)
    xs = _mesh(evidence.values(x))
    ys = _mesh(evidence.values(y)) if y else [1.0]
    named = [name for name in others if len({point[name] for point in evidence.points}) > 1]
    panels = []
    for _, cases in islice(sorted(groups.items(), key=lambda item: tuple(map(str, item[0]))), MOST_MAPS):
        point = evidence.points[cases[0]]
        rows = [[decision.choose({**point, x: a, **({y: b} if y else {})}) for a in xs] for b in ys]
        title = " · ".join(str(point[name]) if name == "dtype" else f"{name}={point[name]}" for name in named)
        panels.append(ChoicePanel(title, x, y, xs, ys, rows, [_dot(decision, evidence, case, x, y) for case in cases]))
    return panels


def _dot(decision: Decision, evidence: Evidence, case: int, x: str, y: str) -> Dot:
    """The best provider of a case: the chosen one, unless another is shown to be faster."""
    point = evidence.points[case]
    chosen = decision.choose(point)
    lost = evidence.decided[case, evidence.providers.index(chosen)]
    best = chosen if lost == 0 else evidence.providers[int(np.argmin(evidence.measured[case]))]
    return Dot(evidence.values(x)[case], evidence.values(y)[case] if y else 1.0, best)


def _mesh(values: Iterable[float]) -> list[float]:
    """Places at equal factors, from below the smallest value to above the largest."""
    found = list(values)
    return [float(place) for place in np.geomspace(min(found) / BEYOND, max(found) * BEYOND, CELLS)]

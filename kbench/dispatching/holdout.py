"""Regret on held-out shapes: grow without some shapes, choose there, and compare with the best."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import fmean

from kbench.dispatching.evidence import Evidence, Point
from kbench.dispatching.grow import grow
from kbench.dispatching.neighbours import is_isolated, neighbours
from kbench.dispatching.tree import Decision

HOLDOUT_SPLITS = 5
"""How often all shapes are split anew. One split alone may be a lucky one."""

Choose = Callable[[Point], str]
"""Names a provider for a shape."""


@dataclass(frozen=True)
class Lost:
    """What a decision loses at a case.

    regret    infinite where it chose a provider that may not be chosen there
    isolated  no neighbouring case shows that the provider is slow there, so no method can learn it from the other cases
    """

    point: Point
    provider: str
    regret: float
    isolated: bool


@dataclass(frozen=True)
class Regret:
    """The regret at some cases, as shares of the best time: ties count with their measured difference.

    worst            of all cases
    worst_elsewhere  of those that are not isolated; None if all are
    forbidden        the number of cases whose regret is infinite
    """

    mean: float
    worst: Lost
    worst_elsewhere: Lost | None
    cases: int
    forbidden: int


def lost_by(choose: Choose, evidence: Evidence, beside: list[list[int]], cases: Iterable[int]) -> list[Lost]:
    """What a choice loses at each of some cases. `beside` are the neighbours of every case."""
    found = []
    for case in cases:
        chosen = choose(evidence.points[case])
        index = evidence.providers.index(chosen)
        isolated = is_isolated(evidence, beside[case], case, index)
        found.append(Lost(evidence.points[case], chosen, float(evidence.measured[case, index]), isolated))
    return found


def summed_up(lost: list[Lost]) -> Regret:
    """The regret of at least one case."""
    regrets = [each.regret for each in lost]

    def by_regret(each: Lost) -> float:
        return each.regret

    elsewhere = max((each for each in lost if not each.isolated), key=by_regret, default=None)
    return Regret(fmean(regrets), max(lost, key=by_regret), elsewhere, len(lost), regrets.count(math.inf))


def measured_regret(decision: Decision, evidence: Evidence) -> Regret:
    """The regret of a decision at all cases of the evidence."""
    return summed_up(lost_by(decision.choose, evidence, neighbours(evidence), range(len(evidence.points))))


def held_out(
    evidence: Evidence, limit: int, margin: float, share: float, seed: int = 0, splits: int = HOLDOUT_SPLITS
) -> Regret | None:
    """The regret at cases that the tree was grown without; None if there are fewer than two shapes, because nothing is left to
    decide from."""
    lost = lost_when_held_out(evidence, lambda part: grow(part, limit, margin).choose, share, seed, splits)
    return summed_up(lost) if lost else None


def lost_when_held_out(
    evidence: Evidence, learn: Callable[[Evidence], Choose], share: float, seed: int = 0, splits: int = 1
) -> list[Lost]:
    """What the choice that `learn` makes from a part of the evidence loses at each case outside of this part.

    A shape is held out with all its dtypes and other words, so that no case of the same shape gives it away. Every shape is
    held out once in each split; `seed` chooses the splits. The list is empty if there are fewer than two shapes.
    """
    shapes = sorted({evidence.shape(case) for case in range(len(evidence.points))})
    if len(shapes) < 2:
        return []
    folds = min(len(shapes), max(2, round(1 / share)))
    order = random.Random(seed)
    beside = neighbours(evidence)
    lost: list[Lost] = []
    for _ in range(splits):
        order.shuffle(shapes)
        fold_of = {shape: place % folds for place, shape in enumerate(shapes)}
        for fold in range(folds):
            out = [case for case in range(len(evidence.points)) if fold_of[evidence.shape(case)] == fold]
            kept = [case for case in range(len(evidence.points)) if fold_of[evidence.shape(case)] != fold]
            lost += lost_by(learn(evidence.part(kept)), evidence, beside, out)
    return lost

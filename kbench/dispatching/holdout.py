"""Regret on held-out shapes: grow without some shapes, choose there, and compare with the best."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

from kbench.dispatching.evidence import Evidence, Point
from kbench.dispatching.grow import grow
from kbench.dispatching.tree import Decision

HOLDOUT_SPLITS = 5
"""How often all shapes are split anew. One split alone may be a lucky one."""


@dataclass(frozen=True)
class Lost:
    """What a decision loses at a case. The regret is infinite where it chose a provider that may not be chosen there."""

    point: Point
    provider: str
    regret: float


@dataclass(frozen=True)
class Regret:
    """The regret at some cases, as shares of the best time: ties count with their measured difference. `forbidden` is the
    number of cases whose regret is infinite."""

    mean: float
    worst: Lost
    cases: int
    forbidden: int


def measured_regret(decision: Decision, evidence: Evidence) -> Regret:
    """The regret of a decision at all cases of the evidence."""
    return _summed_up(_lost(decision, evidence, range(len(evidence.points))))


def held_out(
    evidence: Evidence, limit: int, margin: float, share: float, splits: int = HOLDOUT_SPLITS
) -> Regret | None:
    """The regret at cases that the tree was grown without. None if there are fewer than two shapes, because nothing is left to
    decide from.

    A shape is held out with all its dtypes and other words, so that no case of the same shape gives it away. Every shape is
    held out once in each split. The splits are the same in every run.
    """
    shape_of = [evidence.shape(case) for case in range(len(evidence.points))]
    shapes = sorted(set(shape_of))
    if len(shapes) < 2:
        return None
    folds = min(len(shapes), max(2, round(1 / share)))
    order = random.Random(0)
    losses: list[Lost] = []
    for _ in range(splits):
        order.shuffle(shapes)
        for fold in range(folds):
            out = set(shapes[fold::folds])
            kept = evidence.part([case for case, shape in enumerate(shape_of) if shape not in out])
            left_out = [case for case, shape in enumerate(shape_of) if shape in out]
            losses += _lost(grow(kept, limit, margin), evidence, left_out)
    return _summed_up(losses)


def _lost(decision: Decision, evidence: Evidence, cases: Iterable[int]) -> list[Lost]:
    """What a decision loses at each of some cases."""
    losses = []
    for case in cases:
        chosen = decision.choose(evidence.points[case])
        regret = float(evidence.measured[case, evidence.providers.index(chosen)])
        losses.append(Lost(evidence.points[case], chosen, regret))
    return losses


def _summed_up(losses: list[Lost]) -> Regret:
    """The regret of at least one case."""
    regrets = [lost.regret for lost in losses]
    return Regret(fmean(regrets), max(losses, key=lambda lost: lost.regret), len(losses), regrets.count(math.inf))

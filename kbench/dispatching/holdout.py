"""Regret on held-out shapes: grow without some shapes, choose there, and compare with the best."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from statistics import fmean

from kbench.dispatching.evidence import Evidence, Point
from kbench.dispatching.grow import grow
from kbench.dispatching.tree import Decision
from kbench.errors import UsageError

SEED = 0
HOLDOUT_SPLITS = 5
"""How often all shapes are split anew. One split alone may be a lucky one."""


@dataclass(frozen=True)
class Lost:
    """What a decision loses at a case. `regret` is infinite where it chose a provider that may not be chosen there."""

    point: Point
    provider: str
    regret: float


@dataclass(frozen=True)
class Regret:
    """The regret at some cases, as shares of the best time: ties count with their measured difference. `forbidden` counts the
    cases whose regret is infinite."""

    mean: float
    worst: Lost
    cases: int
    forbidden: int


def lost_by(decision: Decision, evidence: Evidence) -> list[Lost]:
    """What a decision loses at each case."""
    chosen = [decision.choose(point) for point in evidence.points]
    return [
        Lost(point, name, float(evidence.measured[case, evidence.providers.index(name)]))
        for case, (point, name) in enumerate(zip(evidence.points, chosen, strict=True))
    ]


def summed_up(lost: list[Lost]) -> Regret:
    regrets = [each.regret for each in lost]
    return Regret(fmean(regrets), max(lost, key=lambda each: each.regret), len(lost), regrets.count(math.inf))


def held_out(evidence: Evidence, limit: int, margin: float, share: float) -> Regret:
    """The regret at cases that the tree was grown without. A shape is held out with all its dtypes and other words, so that no
    case of the same shape gives it away. Every shape is held out once in each of HOLDOUT_SPLITS splits.

    Raises UsageError if there are fewer than two shapes.
    """
    shapes = sorted({evidence.shape(case) for case in range(len(evidence.points))})
    if len(shapes) < 2:
        raise UsageError("--holdout needs at least two shapes; give --holdout 0 to skip the check on held-out cases")
    folds = min(len(shapes), max(2, round(1 / share)))
    order = random.Random(SEED)
    lost: list[Lost] = []
    for _ in range(HOLDOUT_SPLITS):
        order.shuffle(shapes)
        fold_of = {shape: place % folds for place, shape in enumerate(shapes)}
        for fold in range(folds):
            out = [case for case in range(len(evidence.points)) if fold_of[evidence.shape(case)] == fold]
            kept = [case for case in range(len(evidence.points)) if fold_of[evidence.shape(case)] != fold]
            lost += lost_by(grow(evidence.part(kept), limit, margin), evidence.part(out))
    return summed_up(lost)

"""What a decision loses: at the measured cases, and at shapes that it was made without."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

from kbench.dispatching.evidence import Evidence, Point
from kbench.dispatching.grow import grow
from kbench.dispatching.tree import Decision

SPLITS = 5
"""How often all shapes are split anew. One split alone may be a lucky one."""


@dataclass(frozen=True)
class Loss:
    """What a decision loses at a case, as a share of the best time: a tie counts with its measured difference. It is infinite
    where the decision chose a provider that may not be chosen there."""

    point: Point
    provider: str
    regret: float


def measured_losses(decision: Decision, evidence: Evidence, cases: Iterable[int] | None = None) -> list[Loss]:
    """What a decision loses at each of some cases, by default all."""
    losses = []
    for case in range(len(evidence.points)) if cases is None else cases:
        chosen = decision.choose(evidence.points[case])
        regret = float(evidence.measured[case, evidence.providers.index(chosen)])
        losses.append(Loss(evidence.points[case], chosen, regret))
    return losses


def held_out_losses(evidence: Evidence, limit: int, margin: float, share: float, splits: int = SPLITS) -> list[Loss]:
    """What trees lose at cases that they were grown without. Empty if there are fewer than two shapes, because nothing is left
    to decide from.

    A shape is held out with all its dtypes and other words, so that no case of the same shape gives it away. Every shape is
    held out once in each split. The splits are the same in every run.
    """
    shape_of = [evidence.shape(case) for case in range(len(evidence.points))]
    shapes = sorted(set(shape_of))
    if len(shapes) < 2:
        return []
    folds = min(len(shapes), max(2, round(1 / share)))
    order = random.Random(0)
    losses: list[Loss] = []
    for _ in range(splits):
        order.shuffle(shapes)
        for fold in range(folds):
            out = set(shapes[fold::folds])
            evidence_inside = evidence.part([case for case, shape in enumerate(shape_of) if shape not in out])
            left_out = [case for case, shape in enumerate(shape_of) if shape in out]
            losses += measured_losses(grow(evidence_inside, limit, margin), evidence, left_out)
    return losses


def regret_line(losses: list[Loss], *, held_out: bool) -> str:
    """The mean and the worst regret, and where the worst is."""
    where = f"held-out cases ({SPLITS} splits)" if held_out else "measured cases"
    worst = max(losses, key=lambda loss: loss.regret)
    at = " ".join(str(value) if name == "dtype" else f"{name}={value}" for name, value in worst.point.items())
    if forbidden := sum(math.isinf(loss.regret) for loss in losses):
        choices = "choices (each case once per split)" if held_out else "cases"
        return (
            f"regret at {where}: infinite, because in {forbidden} of {len(losses)} {choices} the chosen provider has no "
            f"time that can be trusted, for example {worst.provider} at {at}"
        )
    mean = fmean(loss.regret for loss in losses)
    return f"regret at {where}: mean {100 * mean:.2f} %, worst {100 * worst.regret:.2f} % ({worst.provider} at {at})"

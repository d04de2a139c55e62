"""Runs on machines whose noise is known, because it is simulated."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from statistics import median

from kbench.results.case import Case
from kbench.results.row import Row
from kbench.results.vocabulary import Role

Disturbance = Callable[[random.Random], float]
"""By how much one round is slower than it should be, in log time."""


def quiet(share: float) -> Disturbance:
    """Normal noise of a round."""
    return lambda rng: rng.gauss(0.0, share)


def disturbed(share: float, every: int, factor: float = 40.0) -> Disturbance:
    """Normal noise, and one round in so many takes up to `factor` times as long: another process had the core."""

    def of_round(rng: random.Random) -> float:
        hit = rng.random() < 1 / every
        return rng.gauss(0.0, share) + (rng.uniform(0.0, math.log(factor)) if hit else 0.0)

    return of_round


def run(
    rng: random.Random,
    noise: Disturbance,
    speedups: Mapping[str, float],
    *,
    cases: int = 3,
    rounds: int = 3,
    sessions: int = 1,
    placement: float = 0.0,
    session: float = 0.0,
) -> list[Row]:
    """The rows of a run: providers by name with their true speed-ups, the first of which is the baseline, and its repeat.

    `placement` is the standard deviation, in log time, of what a provider keeps in a case (where its memory lies), `session`
    of what it keeps in a session of a case.
    """
    names = [*speedups, "repeat"]
    rows = []
    for n in range(cases):
        case = Case("softmax", {"M": 256, "N": 256 * (n + 1)}, "float32")
        kept = {name: rng.gauss(0.0, placement) for name in names}
        for number in range(sessions):
            times = {}
            for name in names:
                level = math.exp(kept[name] + rng.gauss(0.0, session)) / speedups.get(name, 1.0)
                times[name] = tuple(level * math.exp(noise(rng)) for _ in range(rounds))
            base = median(times[names[0]])
            for name, round_ms in times.items():
                role = Role.CONTROL if name == "repeat" else Role.PROVIDER
                ms = median(round_ms)
                rows.append(
                    Row(case, name, role=role, session=number, ms=ms, round_ms=round_ms, speedup=base / ms, gbps=1 / ms)
                )
    return rows

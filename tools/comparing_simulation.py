"""Counts how often the verdicts of `kbench compare` are wrong, with simulated noise of known size.

    python tools/comparing_simulation.py            the tables of docs/comparing.md: 2,000 runs of each, a few minutes
    python tools/comparing_simulation.py --runs 50

A run is two files of 50 rows, times of 4 to 400 us. The noise of a time is a factor with these standard deviations:
0.6 % for the session, shared by all its rows and controls; 0.4 % for the row in the session; 0.5 % for each of 100
samples, each correlated with the one before it by 0.5. Events tick every 32 ns. Rules that compare samples get the
samples of one session.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from kbench.comparison.drift import Drift
from kbench.comparison.join import Key, Pair, Reading, Side
from kbench.comparison.judge import judge_pairs
from kbench.comparison.options import Rules
from kbench.comparison.stats import discoveries
from kbench.comparison.verdict import Verdict
from kbench.results.timers import TICK_MS

Array = npt.NDArray[np.float64]

ROWS, SAMPLES = 50, 100
SESSION, ROW_IN_SESSION, SAMPLE, CORRELATION = 0.006, 0.004, 0.005, 0.5


@dataclass(frozen=True)
class File:
    """Samples in ms, of shape (sessions, rows, samples), of the providers and of the copy controls."""

    providers: Array
    copies: Array


def measure(rng: np.random.Generator, times: Array, sessions: int) -> File:
    """A file as a noisy machine would write it, of kernels that take `times` in ms, of shape (rows,)."""
    shared = rng.normal(0, SESSION, (sessions, 1, 1))
    return File(*(_samples(rng, base, shared) for base in (times, np.full(ROWS, 0.05))))


def _samples(rng: np.random.Generator, times: Array, shared: Array) -> Array:
    sessions, rows = len(shared), len(times)
    own = rng.normal(0, ROW_IN_SESSION, (sessions, rows, 1))
    noise = np.empty((sessions, rows, SAMPLES))
    noise[..., 0] = rng.normal(0, SAMPLE, (sessions, rows))
    fresh = rng.normal(0, SAMPLE * np.sqrt(1 - CORRELATION**2), (sessions, rows, SAMPLES))
    for i in range(1, SAMPLES):
        noise[..., i] = CORRELATION * noise[..., i - 1] + fresh[..., i]
    return np.round(times[:, None] * np.exp(shared + own + noise) / TICK_MS) * TICK_MS


def kbench(old: File, new: File) -> Array:
    """What `kbench compare` says: -1 faster, 1 slower, 0 anything else; of shape (rows,)."""
    pairs = [Pair(_key(row), "new", _side(old, row), _side(new, row)) for row in range(ROWS)]
    verdicts, _ = judge_pairs(pairs, {"new": _drift(old, new)}, Rules())
    return np.array([{Verdict.SLOWER: 1, Verdict.FASTER: -1}.get(row.verdict, 0) for row in verdicts])


def _key(row: int) -> Key:
    return Key("simulated", "kernel", "", (("row", row),), "float32")


def _side(file: File, row: int) -> Side:
    medians = np.median(file.providers[:, row], axis=1)
    readings = [Reading(session, float(ms), float(ms), samples=SAMPLES) for session, ms in enumerate(medians)]
    return Side(tuple(readings), len(readings), len(readings))


def _drift(old: File, new: File) -> Drift:
    logs = [np.log(np.median(file.copies, axis=2)) for file in (old, new)]
    levels = [np.median(side - np.concatenate(logs).mean(axis=0), axis=1) for side in logs]
    before, after = ({session: float(level) for session, level in enumerate(side)} for side in levels)
    return Drift(before, after, ROWS)


def mann_whitney(old: File, new: File) -> Array:
    """A rank test on the samples of one process, each row for itself at 0.05."""
    return _direction(old, new) * (_mann_whitney(old, new) < 0.05)


def mann_whitney_corrected(old: File, new: File) -> Array:
    """The same, with Benjamini and Hochberg's correction over all rows."""
    return _direction(old, new) * (discoveries(list(_mann_whitney(old, new))) < 0.05)


def _mann_whitney(old: File, new: File) -> Array:
    p: Array = stats.mannwhitneyu(old.providers[0], new.providers[0], axis=1).pvalue
    return p


def nvbench(old: File, new: File) -> Array:
    """nvbench_compare.py: a change is a difference of the means above the smaller of the two deviations."""
    a, b = old.providers[0], new.providers[0]
    return _direction(old, new) * (
        np.abs(b.mean(axis=1) - a.mean(axis=1)) > np.minimum(a.std(axis=1, ddof=1), b.std(axis=1, ddof=1))
    )


def nvbench_robust(old: File, new: File) -> Array:
    """nvbench_compare_robust.py without its confirmation in cycles: [min, third quartile] at least 0.5 % apart."""
    (a_low, a_high), (b_low, b_high) = (
        (file.providers[0].min(axis=1), np.quantile(file.providers[0], 0.75, axis=1)) for file in (old, new)
    )
    return (b_low > a_high * 1.005).astype(float) - (a_low > b_high * 1.005)


def _direction(old: File, new: File) -> Array:
    return np.sign(np.median(new.providers[0], axis=1) - np.median(old.providers[0], axis=1))


RULES: dict[str, tuple[Callable[[File, File], Array], int]] = {
    "Mann-Whitney on samples, p < 0.05": (mann_whitney, 1),
    "the same, Benjamini-Hochberg": (mann_whitney_corrected, 1),
    "nvbench_compare": (nvbench, 1),
    "nvbench_compare_robust": (nvbench_robust, 1),
    "kbench, 1 session": (kbench, 1),
    "kbench, 2 sessions": (kbench, 2),
    "kbench, 3 sessions": (kbench, 3),
    "kbench, 5 sessions": (kbench, 5),
}
"""Each rule and the sessions a side that it gets."""


@dataclass(frozen=True)
class Outcome:
    """false_rows: of ROWS unchanged ones, on average. any_false: runs without a change that show one. found: runs that show
    a change of 2, 5 or 10 % in one row. uniform: rows, of ROWS that are all 3 % slower, that are called so."""

    false_rows: float
    any_false: float
    found: dict[float, float]
    uniform: float


def simulate(rule: str, runs: int, seed: int = 0) -> Outcome:
    """What a rule says in `runs` pairs of files of each kind."""
    decide, sessions = RULES[rule]
    rng = np.random.default_rng(seed)
    times = np.geomspace(0.004, 0.4, ROWS)

    def answers(factor: Array) -> Array:
        files = ((measure(rng, times, sessions), measure(rng, times * factor, sessions)) for _ in range(runs))
        return np.array([decide(old, new) for old, new in files])

    unchanged = answers(np.ones(ROWS)) != 0
    found = {}
    for change in (0.02, 0.05, 0.10):
        place = ROWS // 2
        factor = np.ones(ROWS)
        factor[place] += change
        found[change] = float((answers(factor)[:, place] == 1).mean())
    uniform = float((answers(np.full(ROWS, 1.03)) == 1).sum(axis=1).mean())
    return Outcome(float(unchanged.sum(axis=1).mean()), float(unchanged.any(axis=1).mean()), found, uniform)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=2000)
    runs = parser.parse_args().runs
    print(
        f"| rule | false rows of {ROWS} | runs with any | finds +2 % | +5 % | +10 % | all rows +3 %: rows called slower |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|")
    for rule in RULES:
        outcome = simulate(rule, runs)
        found = " | ".join(f"{share:.1%}" for share in outcome.found.values())
        print(
            f"| {rule} | {outcome.false_rows:.2f} | {outcome.any_false:.1%} | {found} | {outcome.uniform:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()

"""Counts how often the verdicts of `kbench compare` are wrong, with simulated noise and drift of known size.

    python tools/comparing_simulation.py            the tables of docs/comparing.md: 2,000 and 400 runs of each, half an hour
    python tools/comparing_simulation.py --only drift --drift-runs 40

A run is two files. Each case has a kernel, a baseline whose code is the same in both files, and a copy, of 4 to 400 us. The
noise of a time is a factor with these standard deviations: 0.6 % for the session, shared by all its rows; 0.4 % for the row in
the session; 0.5 % for each of 100 samples, each correlated with the one before it by 0.5. Events tick every 32 ns. Rules that
compare samples get the samples of one session.

In the second table, the machine of the second file is slower or faster. Each time has a share of this drift: see SHARES.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from kbench.comparison.drift import GaugeKey, GaugeTimes, estimate_drift
from kbench.comparison.judge import judge_rows
from kbench.comparison.model import CompareOptions, Key, Side
from kbench.comparison.stats import discoveries
from kbench.comparison.verdict import Verdict
from kbench.results.case import Case
from kbench.results.row import Row
from kbench.results.timers import TICK_MS

Array = npt.NDArray[np.float64]

CASE = Case("simulated", {}, "float32")
ROWS, SAMPLES = 50, 100
SESSION, ROW_IN_SESSION, SAMPLE, CORRELATION = 0.006, 0.004, 0.005, 0.5
MEDIAN = 0.001
"""The noise of the median of the samples of a session, where the samples themselves do not matter."""


@dataclass(frozen=True)
class File:
    """Samples in ms, of shape (sessions, cases, samples), by what was measured. Without `baselines`, the code of the baseline
    has changed."""

    kernels: Array
    copies: Array
    baselines: Array | None = None


def measure(rng: np.random.Generator, times: Array, sessions: int, samples: int = SAMPLES) -> File:
    """A file as a noisy machine would write it, of kernels that take `times` in ms, of shape (cases,)."""
    shared = rng.normal(0, SESSION, (sessions, 1, 1))
    return File(
        *(_samples(rng, base, shared, samples) for base in (times, np.full(len(times), 0.05), _times(len(times))))
    )


def _times(cases: int) -> Array:
    return np.geomspace(0.004, 0.4, cases)


def _samples(rng: np.random.Generator, times: Array, shared: Array, samples: int) -> Array:
    sessions, rows = len(shared), len(times)
    own = rng.normal(0, ROW_IN_SESSION, (sessions, rows, 1))
    noise = np.empty((sessions, rows, samples))
    noise[..., 0] = rng.normal(0, SAMPLE if samples > 1 else MEDIAN, (sessions, rows))
    fresh = rng.normal(0, SAMPLE * np.sqrt(1 - CORRELATION**2), (sessions, rows, samples))
    for i in range(1, samples):
        noise[..., i] = CORRELATION * noise[..., i - 1] + fresh[..., i]
    return np.round(times[:, None] * np.exp(shared + own + noise) / TICK_MS) * TICK_MS


def kbench(old: File, new: File) -> Array:
    """What `kbench compare` says of the kernels: -1 faster, 1 slower, 0 anything else; of shape (cases,). The unchanged
    baselines are rows of the comparison, too."""
    sides = [_medians(old.kernels, new.kernels)]
    times = _gauges("copy control", *_medians(old.copies, new.copies))
    if old.baselines is not None and new.baselines is not None:
        sides.append(_medians(old.baselines, new.baselines))
        times |= _gauges("unchanged baseline", *sides[1])
    rows = {
        _key(provider, row): (_side(before[:, row]), _side(after[:, row]))
        for provider, (before, after) in enumerate(sides)
        for row in range(before.shape[1])
    }
    verdicts, _ = judge_rows(rows, {"": estimate_drift(times)}, CompareOptions())
    words = {Verdict.SLOWER: 1, Verdict.FASTER: -1}
    return np.array([words.get(row.verdict, 0) for row in verdicts[: old.kernels.shape[1]]])


def _key(provider: int, row: int) -> Key:
    return Key(Case("simulated", {"row": row}, "float32"), ("kernel", "baseline")[provider], "")


def _medians(*sides: Array) -> list[Array]:
    return [np.median(samples, axis=2) for samples in sides]


def _side(medians: Array) -> Side:
    rows = [
        Row(CASE, "simulated", session=session, ms=float(ms), samples=SAMPLES) for session, ms in enumerate(medians)
    ]
    return Side.of(rows, "ms")


def _gauges(kind: str, *medians: Array) -> dict[GaugeKey, GaugeTimes]:
    return {
        GaugeKey(_key(0, row).case, kind): {
            (side, session): math.log(ms)
            for side, times in enumerate(medians)
            for session, ms in enumerate(times[:, row])
        }
        for row in range(medians[0].shape[1])
    }


def mann_whitney(old: File, new: File) -> Array:
    """A rank test on the samples of one process, each row for itself at 0.05."""
    return _direction(old, new) * (_mann_whitney(old, new) < 0.05)


def mann_whitney_corrected(old: File, new: File) -> Array:
    """The same, with Benjamini and Hochberg's correction over all rows."""
    return _direction(old, new) * (discoveries(list(_mann_whitney(old, new))) < 0.05)


def _mann_whitney(old: File, new: File) -> Array:
    p: Array = stats.mannwhitneyu(old.kernels[0], new.kernels[0], axis=1).pvalue
    return p


def nvbench(old: File, new: File) -> Array:
    """nvbench_compare.py: a change is a difference of the means above the smaller of the two deviations."""
    a, b = old.kernels[0], new.kernels[0]
    difference: Array = b.mean(axis=1) - a.mean(axis=1)
    deviation: Array = np.minimum(a.std(axis=1, ddof=1), b.std(axis=1, ddof=1))
    return np.where(np.abs(difference) > deviation, _direction(old, new), 0.0)


def nvbench_robust(old: File, new: File) -> Array:
    """nvbench_compare_robust.py without its confirmation in cycles: [min, third quartile] at least 0.5 % apart."""
    (a_low, a_high), (b_low, b_high) = (
        (file.kernels[0].min(axis=1), np.quantile(file.kernels[0], 0.75, axis=1)) for file in (old, new)
    )
    return np.where(b_low > a_high * 1.005, 1.0, np.where(a_low > b_high * 1.005, -1.0, 0.0))


def _direction(old: File, new: File) -> Array:
    difference: Array = np.median(new.kernels[0], axis=1) - np.median(old.kernels[0], axis=1)
    return np.sign(difference)


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

    def answers(factor: Array) -> Array:
        files = (
            (measure(rng, _times(ROWS), sessions), measure(rng, _times(ROWS) * factor, sessions)) for _ in range(runs)
        )
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


# ---- a machine that drifted

Share = tuple[float, float]
"""The bounds of the shares of the drift that times have: each is drawn from between them."""


@dataclass(frozen=True)
class Shares:
    """Which shares of the drift the copies, the baselines and the kernels have. With `alike`, all copies have the same one, and
    so on. Without `baseline`, there is no unchanged baseline."""

    copies: Share
    baselines: Share
    kernels: Share
    alike: bool = False
    baseline: bool = True

    def draw(self, rng: np.random.Generator, cases: int) -> list[Array]:
        """The shares of the kernels, the copies and the baselines, each of shape (cases,)."""
        bounds = (self.kernels, self.copies, self.baselines)
        return [np.resize(rng.uniform(*share, 1 if self.alike else cases), cases) for share in bounds]


NONE, ALL, SOME = (0.0, 0.0), (1.0, 1.0), (0.5, 1.5)

SHARES = {
    "all times have the same drift": Shares(ALL, ALL, ALL),
    "each time has 0.5 to 1.5 of it": Shares(SOME, SOME, SOME),
    "copies have 0.5 to 1.5 of the others'": Shares(SOME, ALL, ALL, alike=True),
    "copies have none": Shares(NONE, ALL, ALL),
    "only copies have it": Shares(ALL, NONE, NONE),
    "no unchanged baseline, all have the same": Shares(ALL, ALL, ALL, baseline=False),
    "no unchanged baseline, each time 0.5 to 1.5": Shares(SOME, SOME, SOME, baseline=False),
    "no unchanged baseline, copies 0.5 to 1.5": Shares(SOME, ALL, ALL, alike=True, baseline=False),
}
DRIFTS, CASES, SESSIONS = (0.01, 0.02, 0.05, 0.12, 0.2), (2, 5, 50), (1, 3)
"""How far the machine drifts, and the numbers of cases and sessions of the files."""


def after_drift(
    shares: Shares, drift: float, cases: int, sessions: int, runs: int, seed: int = 0
) -> tuple[float, float]:
    """Of runs in which the machine drifted, the share with a false change, and the share that finds the change of one kernel
    that is three times as large as the drift (in log time). Half of the drifts and half of the changes make times shorter."""
    rng = np.random.default_rng(seed)
    false = found = 0
    for run in range(runs):
        step, change = (math.log1p(drift) * (-1) ** sign for sign in (run, run // 2))
        for changed in (np.zeros(cases), np.eye(cases)[cases // 2] * 3 * change):
            old, new = (measure(rng, _times(cases), sessions, 1) for _ in range(2))
            kernels, copies, baselines = (np.exp(share * step)[:, None] for share in shares.draw(rng, cases))
            assert old.baselines is not None and new.baselines is not None
            new = File(new.kernels * kernels * np.exp(changed)[:, None], new.copies * copies, new.baselines * baselines)
            answers = kbench(*(file if shares.baseline else File(file.kernels, file.copies) for file in (old, new)))
            found += bool(changed.any() and answers[cases // 2] == np.sign(change))
            false += bool(answers[changed == 0].any()) and not changed.any()
    return false / runs, found / runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--drift-runs", type=int, default=400)
    parser.add_argument("--only", choices=("noise", "drift"))
    arguments = parser.parse_args()
    if arguments.only != "drift":
        print_rules(arguments.runs)
    if arguments.only != "noise":
        print_drifts(arguments.drift_runs)


def print_rules(runs: int) -> None:
    """The table of the rules, on a machine that does not drift between the files."""
    heads = ["+2 %", "+5 %", "+10 %", "all rows +3 %: rows called slower"]
    print(f"| rule | false rows of {ROWS} | runs with any | finds {' | '.join(heads)} |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for rule in RULES:
        outcome = simulate(rule, runs)
        found = " | ".join(f"{share:.1%}" for share in outcome.found.values())
        print(
            f"| {rule} | {outcome.false_rows:.2f} | {outcome.any_false:.1%} | {found} | {outcome.uniform:.1f} |",
            flush=True,
        )


def print_drifts(runs: int) -> None:
    """The table of drifts. Over all numbers of cases, it has the most false changes, and for each drift the fewest changes that
    are found."""
    print("| how the machine drifted | sessions | runs with a false change |", end="")
    print(f" finds three times a drift of {' | '.join(f'{drift:.0%}' for drift in DRIFTS)} |")
    print(f"|---|---:|---:|{'---:|' * len(DRIFTS)}")
    for name, shares in SHARES.items():
        for sessions in SESSIONS:
            outcomes = [[after_drift(shares, drift, cases, sessions, runs) for cases in CASES] for drift in DRIFTS]
            false = max(share for outcome in outcomes for share, _ in outcome)
            found = " | ".join(f"{min(share for _, share in outcome):.0%}" for outcome in outcomes)
            print(f"| {name} | {sessions} | {false:.1%} | {found} |", flush=True)


if __name__ == "__main__":
    main()

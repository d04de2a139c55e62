"""Counts how often `kbench history check` finds a step and how often it reports one that is not there, with simulated noise.

    python tools/history_simulation.py              the table of docs/history.md: 20 folders of each kind, about a minute
    python tools/history_simulation.py --folders 2

A folder has 10 series of 60 nights. The time of a night is a factor with these parts. In all rows and copies: 0.6 % for the
session, and a random walk of 0.3 % a night. In each row and each copy by itself: 0.4 % for the session; 0.3 % that
wanders, correlated with the night before by 0.6; 0.15 % with heavy tails (Student's t, 4 degrees of freedom); and on 2 % of
the nights a disturbance that makes it longer, by 5 % on average. A row is missing on 3 % of the nights. The clock ticks every
32 ns.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kbench.history.report import HistoryOptions, judge_runs
from kbench.history.timeline import Run
from kbench.results.case import Case
from kbench.results.environment import Environment
from kbench.results.row import Row
from kbench.results.timers import TICK_MS
from kbench.results.vocabulary import Role

Array = npt.NDArray[np.float64]

CASES, NIGHTS = 10, 60
SESSION, WALK = 0.006, 0.003
ROW, WANDER, CORRELATION, TAIL, DISTURBED, DISTURBANCE, MISSING = 0.004, 0.003, 0.6, 0.0015, 0.02, 0.05, 0.03
FIRST_STEP, LAST_STEP = 8, 52
"""Nights between which a step lies."""

DELAY = 3
"""A step counts as found if it is reported within so many points, and as soon as so many points follow it."""


@dataclass(frozen=True)
class Simulated:
    """A folder. `steps` has the night of the step in each series. `there` says which rows are not missing: (CASES, NIGHTS)."""

    runs: tuple[Run, ...]
    steps: npt.NDArray[np.int64]
    there: npt.NDArray[np.bool_]

    def nights_with(self, case: int, points: int) -> int:
        """The number of nights after which a series has so many points from its step on."""
        points_by_night = np.cumsum(self.there[case] & (np.arange(NIGHTS) >= self.steps[case]))
        return int(np.flatnonzero(points_by_night == points)[0]) + 1


def simulate_folder(rng: np.random.Generator, step: float = 0.0, machine: float = 0.0, noise: float = 1.0) -> Simulated:
    """A folder in which every series steps by a share `step` on a night of its own. `machine` is a step of the whole machine
    on the 30th night, which copies have too. `noise` multiplies all noise of the rows and copies."""
    shared = rng.normal(0, SESSION, NIGHTS) + np.cumsum(rng.normal(0, WALK, NIGHTS))
    shared[NIGHTS // 2 :] += np.log1p(machine)
    base = np.geomspace(0.004, 0.4, CASES)
    nights = rng.integers(FIRST_STEP, LAST_STEP, CASES)
    later = np.arange(NIGHTS) >= nights[:, None]
    copies = _ticks(base[:, None] * np.exp(shared + noise * _own(rng)))
    rows = _ticks(base[:, None] * np.exp(shared + noise * _own(rng) + np.log1p(step) * later))
    rows[rng.random(rows.shape) < MISSING] = np.nan
    return Simulated(
        tuple(_run(night, rows[:, night], copies[:, night]) for night in range(NIGHTS)), nights, np.isfinite(rows)
    )


def _own(rng: np.random.Generator) -> Array:
    """The noise of rows or copies in log time, of shape (CASES, NIGHTS)."""
    shape = (CASES, NIGHTS)
    wander = rng.normal(0, WANDER, shape)
    for night in range(1, NIGHTS):
        wander[:, night] = CORRELATION * wander[:, night - 1] + np.sqrt(1 - CORRELATION**2) * wander[:, night]
    disturbed = (rng.random(shape) < DISTURBED) * rng.exponential(DISTURBANCE, shape)
    return rng.normal(0, ROW, shape) + wander + TAIL * rng.standard_t(4, shape) + disturbed


def _ticks(ms: Array) -> Array:
    return np.round(ms / TICK_MS) * TICK_MS


def _run(night: int, rows: Array, copies: Array) -> Run:
    moment = (datetime(2026, 1, 1, 2, tzinfo=UTC) + timedelta(days=night)).isoformat()
    measured = [
        Row(
            Case("softmax", {"N": 2**case}, "float32"), name, role=role, ms=float(times[case]), timer="do_bench",
            cache="cold", device="simulated", started_at=moment, case_hash="c0ffee", source_hash="5eed",
        )
        for name, role, times in (("kernel", Role.PROVIDER, rows), ("copy", Role.CONTROL, copies))
        for case in range(CASES)
        if np.isfinite(times[case])
    ]  # fmt: skip
    return Run(Path("nightly.csv"), measured, Environment())


def changes_by_case(runs: tuple[Run, ...]) -> dict[int, list[tuple[int, int]]]:
    """The night and the direction of each change of level, by the number of the case."""
    found: dict[int, list[tuple[int, int]]] = {case: [] for case in range(CASES)}
    for series in judge_runs(Path("simulated"), runs, HistoryOptions()).series:
        case = int(series.key.case.N).bit_length() - 1
        for change in series.levels:
            found[case].append((series.timed[change.at].run, 1 if change.after > change.before else -1))
    return found


@dataclass(frozen=True)
class Outcome:
    """found: series whose step was reported within DELAY points once all nights were there. prompt: series whose step was
    reported when DELAY points followed it. false_changes: reported changes that are no step. false_series: series with one."""

    series: int
    found: int
    prompt: int
    false_changes: int
    false_series: int


def count(folders: Iterator[Simulated], step: float) -> Outcome:
    series = found = prompt = false_changes = false_series = 0
    for folder in folders:
        whole = changes_by_case(folder.runs)
        for case, night in enumerate(folder.steps):
            right = [_is_step(change, int(night), step) for change in whole[case]]
            series += 1
            found += any(right)
            if step:
                early = changes_by_case(folder.runs[: folder.nights_with(case, DELAY)])
                prompt += any(_is_step(change, int(night), step) for change in early[case])
            false_changes += right.count(False)
            false_series += False in right
    return Outcome(series, found, prompt, false_changes, false_series)


def _is_step(change: tuple[int, int], night: int, step: float) -> bool:
    return bool(step) and abs(change[0] - night) <= DELAY and change[1] == np.sign(step)


def folders(count: int, how: Mapping[str, float], seed: int = 0) -> Iterator[Simulated]:
    rng = np.random.default_rng(seed)
    return (simulate_folder(rng, **how) for _ in range(count))


def nightly_alarms(found: Iterator[Simulated]) -> tuple[int, int]:
    """Of series without a step: how many there are, and in how many of them a check after any night reports a change."""
    series = alarmed = 0
    for folder in found:
        seen: set[int] = set()
        for nights in range(1, NIGHTS + 1):
            seen |= {case for case, changes in changes_by_case(folder.runs[:nights]).items() if changes}
        series, alarmed = series + CASES, alarmed + len(seen)
    return series, alarmed


SCENARIOS: dict[str, dict[str, float]] = {
    "no change": {},
    "the machine becomes 5 % slower": {"machine": 0.05},
    "no change, twice the noise": {"noise": 2.0},
    "+2.5 %": {"step": 0.025},
    "+3 %": {"step": 0.03},
    "-3 %": {"step": -0.03},
    "+5 %": {"step": 0.05},
    "+3 %, twice the noise": {"step": 0.03, "noise": 2.0},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folders", type=int, default=20)
    many = parser.parse_args().folders
    print("| simulated | series | step found | found when 3 points follow | false changes | series with one |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, how in SCENARIOS.items():
        outcome = count(folders(many, how), how.get("step", 0.0))
        shares = [f"{each / outcome.series:.1%}" if "step" in how else "" for each in (outcome.found, outcome.prompt)]
        print(
            f"| {name} | {outcome.series} | {' | '.join(shares)} | {outcome.false_changes} | {outcome.false_series} |",
            flush=True,
        )
    series, alarmed = nightly_alarms(folders(max(1, many // 4), {}))
    print(f"\nchecked after every night: {alarmed} of {series} unchanged series had a false change on any night")


if __name__ == "__main__":
    main()

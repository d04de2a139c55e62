"""Measures a candidate against the champion, and decides whether it is faster, so that all candidates of a ledger together are
promoted without being faster with a probability of at most 5 %.

A ledger is a folder with the results files of all candidates. It has no other state. `0007-screen.csv` has the sessions that
decide whether candidate 7 is worth a confirmation, `0007-confirm.csv` those of the confirmation.

One observation is the gain of a session, a fresh process: the mean over the cases of the logarithm of the champion's time over
the candidate's, paired round by round. Between sessions of the same code it scatters by a fraction of a per cent to a few per
cent, sometimes in two groups. So the test assumes no normal distribution, but only this: if the candidate is not faster, a gain
of some size is at most as likely as a loss of this size. Both run in the same processes, in an order that is drawn anew.

- **Screen.** Two sessions. A candidate whose mean gain is below LEAST_GAIN, after either of them, has lost.
- **Confirmation.** Fresh sessions, of which each bets on a gain. A session multiplies the evidence by 2 / (1 + exp(-b x)), with
  its gain x and a stake b that earlier sessions fix: about what is most probable if they tell the truth. For a gain and a
  loss of the same size the mean of this factor is 1. So the evidence of a candidate that is not faster is a nonnegative
  supermartingale: with a probability of at most alpha it ever reaches 1 / alpha, however often one looks (Ville's inequality;
  Ramdas et al., Statistical Science 38, 2023; for symmetric distributions: Vovk and Wang, New England Journal of Statistics in
  Data Science 2, 2024). The candidate is promoted when it does.
- **Alpha spending.** The i-th confirmation of a ledger has alpha = 0.05 * 6 / (pi^2 i^2). All of them together have 0.05, and
  this needs no independence (Tian and Ramdas, Statistical Methods in Medical Research 30, 2021). A candidate that the screen
  stops spends nothing, because it cannot be promoted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean

from kbench.analysis import analyse
from kbench.analysis.pairwise import uncertainty
from kbench.execute.existing_results import ResumeMode
from kbench.execute.lock import hold, results_lock
from kbench.execute.run import RunResult
from kbench.judging.answer import DISTRUSTED, Contest
from kbench.results.row import Row
from kbench.text import terminal

ERROR_RATE = 0.05
"""The most probable that a ledger promotes any candidate that is not faster than the champion of its time."""

SCREEN_SESSIONS, MOST_SESSIONS = 2, 24
"""The sessions of the screen, and the most of the confirmation. Evidence doubles at most with each session."""

LEAST_GAIN = math.log(1.005)
"""The mean gain below which a candidate is not worth a confirmation."""

GIVE_UP = 0.05
"""A candidate whose evidence has fallen below this has lost."""


def level(number: int) -> float:
    """The alpha of a confirmation, by its number in the ledger, from 1."""
    return ERROR_RATE * 6 / (math.pi * number) ** 2


def worthwhile(gains: Sequence[float]) -> bool:
    """Whether to go on, after each session of the screen."""
    return fmean(gains) >= LEAST_GAIN


def evidence(screen: Sequence[float], confirmation: Sequence[float]) -> float:
    """The evidence for the candidate after some sessions of its confirmation."""
    product = 1.0
    for number, gain in enumerate(confirmation):
        before = [*screen, *confirmation[:number]]
        mean = fmean(before)
        # few sessions may agree by chance, so their scatter counts as at least half of their mean
        variance = max(fmean((earlier - mean) ** 2 for earlier in before), (mean / 2) ** 2, 1e-12)
        stake = 2 * max(mean, 0.0) / variance
        product *= 2 / (1 + math.exp(min(-stake * gain, 700.0)))
    return product


def confirmed(screen: Sequence[float], confirmation: Sequence[float], alpha: float) -> bool | None:
    """Whether the candidate is better, after each session of the confirmation; None to go on."""
    so_far = evidence(screen, confirmation)
    if so_far >= 1 / alpha:
        return True
    reachable = so_far * 2 ** (MOST_SESSIONS - len(confirmation)) >= 1 / alpha
    return None if reachable and so_far > GIVE_UP else False


Run = Callable[[Path, ResumeMode | None], RunResult]

NAME = re.compile(r"([0-9]{4,})-(screen|confirm)\.csv")


@dataclass
class Stage:
    """A results file of the ledger, and the gains of its sessions: logarithms of the champion's time over the candidate's.
    `of_rounds` is the half width of the interval of the last one, from its rounds. `run` measures a session."""

    run: Run
    csv: Path
    candidate: str
    champion: str
    rows: list[Row] = field(default_factory=list)
    gains: list[float] = field(default_factory=list)
    of_rounds: float = 0.0

    def measure(self) -> bool:
        """Add a session. Returns False if the candidate has failed or cannot be trusted in a case, or if no case has a time of
        both that counts. Raises KeyboardInterrupt after Ctrl-C."""
        result = self.run(self.csv, "append" if self.rows else None)
        self.rows = result.rows
        if result.interrupted:
            raise KeyboardInterrupt
        session = max((row.session for row in self.rows), default=0)
        rows = [row for row in self.rows if row.session == session]
        for row in rows:
            if row.configuration_name == self.candidate and (row.status.failed or {*row.flags} & {*DISTRUSTED}):
                return False
        analysis = analyse(rows, None)
        both = [key for key, timed in analysis.cases.items() if self.candidate in timed and self.champion in timed]
        if both:
            pairs = [analysis.compare_pair(key, self.champion, self.candidate) for key in both]
            self.gains.append(fmean(-math.log(pair.ratio) for pair in pairs))
            self.of_rounds = fmean(pair.half_width for pair in pairs)
            terminal.note(
                f"{self.csv.stem}, session {session}: {math.exp(self.gains[-1]):.3f}x as fast as {self.champion}"
            )
        return bool(both)


def contend(runs: Sequence[Run], candidate: str, champion: str, folder: Path) -> tuple[RunResult, Contest | None]:
    """Measure a candidate against the champion until one of them has won. The first run is that of the screen, the second, with
    another seed, that of the confirmation. Returns the rows of both with the last file, and the outcome: None if the two have
    no times to compare. Raises what a run raises, and KeyboardInterrupt."""
    folder.mkdir(parents=True, exist_ok=True)
    with hold(results_lock(folder), str(folder), wait=True):
        matches = [match for path in folder.iterdir() if (match := NAME.fullmatch(path.name))]
        number = 1 + max((int(match[1]) for match in matches), default=0)
        alpha = level(1 + sum(match[2] == "confirm" for match in matches))
        screen, confirmation = (
            Stage(run, folder / f"{number:04}-{stage}.csv", candidate, champion)
            for run, stage in zip(runs, ("screen", "confirm"), strict=True)
        )
        promising, better = True, None
        while promising and len(screen.gains) < SCREEN_SESSIONS:
            promising = screen.measure() and worthwhile(screen.gains)
        while promising and better is None:
            better = confirmation.measure() and confirmed(screen.gains, confirmation.gains, alpha)
    rows = [*screen.rows, *(replace(row, session=row.session + len(screen.gains)) for row in confirmation.rows)]
    stages = [stage for stage in (screen, confirmation) if stage.gains]
    if not stages:
        return RunResult(screen.csv, rows=rows), None
    last = stages[-1]
    gain, half_width = fmean(last.gains), uncertainty(last.gains) if len(last.gains) > 1 else last.of_rounds
    contest = Contest(
        champion=champion,
        candidate_number=number,
        better=bool(better),
        speedup=math.exp(gain),
        interval=(math.exp(gain - half_width), math.exp(gain + half_width)),
        sessions=len(screen.gains) + len(confirmation.gains),
        alpha=alpha if confirmation.gains else None,
        evidence=evidence(screen.gains, confirmation.gains) if confirmation.gains else None,
        files=[str(stage.csv) for stage in stages],
    )
    return RunResult(last.csv, rows=rows), contest

"""A ledger: a folder with the results files of all candidates that were measured against a champion. It has no other state.

`0007-screen.csv` has the sessions that decide whether candidate 7 is worth a confirmation, `0007-confirm.csv` those of the
confirmation. `promotion.py` decides.
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
from kbench.errors import Note
from kbench.execute.lock import hold, results_lock
from kbench.execute.prepare import RunOptions
from kbench.execute.run import RunResult
from kbench.judging.answer import DISTRUSTED, Contest
from kbench.judging.promotion import SCREEN_SESSIONS, Decision, confirmed, evidence, level, screened
from kbench.results.row import Row

Run = Callable[[RunOptions], RunResult]

NAME = re.compile(r"([0-9]{4,})-(screen|confirm)\.csv")


@dataclass
class Stage:
    """A results file of the ledger, and the gains of its sessions: logarithms of the champion's time over the candidate's.
    `of_rounds` is the half width of the interval of the last one, from its rounds. `run` measures a session."""

    run: Run
    folder: Path
    name: str
    candidate: str
    champion: str
    note: Note
    rows: list[Row] = field(default_factory=list)
    gains: list[float] = field(default_factory=list)
    of_rounds: float = 0.0

    @property
    def csv(self) -> Path:
        return self.folder / f"{self.name}.csv"

    def measure(self) -> bool:
        """Add a session. Returns False if the candidate has failed or cannot be trusted in a case, or if no case has a time of
        both that counts. Raises KeyboardInterrupt after Ctrl-C."""
        options = RunOptions(self.folder, name=self.name, continuing="append" if self.rows else None)
        result = self.run(options)
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
            self.note(f"{self.name}, session {session}: {math.exp(self.gains[-1]):.3f}x as fast as {self.champion}")
        return bool(both)


@dataclass(frozen=True)
class Timing:
    """What a judgement has timed: the rows, their file (the last one of several), whether Ctrl-C ended it, and the outcome
    beside a champion. It is None without one, or if the two have no times to compare."""

    rows: Sequence[Row] = ()
    csv: Path = Path()
    interrupted: bool = False
    contest: Contest | None = None


def contend(runs: Sequence[Run], candidate: str, champion: str, folder: Path, note: Note) -> Timing:
    """Measure a candidate against the champion until one of them has won. The first run is that of the screen, the second, with
    another seed, that of the confirmation. Raises what a run raises, and KeyboardInterrupt."""
    folder.mkdir(parents=True, exist_ok=True)
    with hold(results_lock(folder), str(folder), wait=True, note=note):
        matches = [match for path in folder.iterdir() if (match := NAME.fullmatch(path.name))]
        number = 1 + max((int(match[1]) for match in matches), default=0)
        alpha = level(1 + sum(match[2] == "confirm" for match in matches))
        screen, confirmation = (
            Stage(run, folder, f"{number:04}-{stage}", candidate, champion, note)
            for run, stage in zip(runs, ("screen", "confirm"), strict=True)
        )
        decision = Decision.GO_ON
        while decision is Decision.GO_ON and len(screen.gains) < SCREEN_SESSIONS:
            decision = screened(screen.gains) if screen.measure() else Decision.NOT_BETTER
        while decision is Decision.GO_ON:
            measured = confirmation.measure()
            decision = confirmed(screen.gains, confirmation.gains, alpha) if measured else Decision.NOT_BETTER
    rows = [*screen.rows, *(replace(row, session=row.session + len(screen.gains)) for row in confirmation.rows)]
    stages = [stage for stage in (screen, confirmation) if stage.gains]
    if not stages:
        return Timing(rows, screen.csv)
    last = stages[-1]
    gain, half_width = fmean(last.gains), uncertainty(last.gains) if len(last.gains) > 1 else last.of_rounds
    contest = Contest(
        champion=champion,
        candidate_number=number,
        better=decision is Decision.BETTER,
        speedup=math.exp(gain),
        interval=(math.exp(gain - half_width), math.exp(gain + half_width)),
        sessions=len(screen.gains) + len(confirmation.gains),
        alpha=alpha if confirmation.gains else None,
        evidence=evidence(screen.gains, confirmation.gains) if confirmation.gains else None,
        files=[str(stage.csv) for stage in stages],
    )
    return Timing(rows, last.csv, contest=contest)

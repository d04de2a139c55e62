"""Shows the progress of a run on stderr: a live bar on a terminal, otherwise one line per case."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from kbench.protocol import STEPS, Message, StepBegun, Task
from kbench.results.row import Row
from kbench.text import terminal
from kbench.text.numbers import microseconds


class PlainProgress:
    """Prints one line per case, for logs and CI."""

    def __init__(self, total: int, sessions: int = 1) -> None:
        self.total, self.sessions, self.done = total, sessions, 0
        self._given_up: set[str] = set()

    def __enter__(self) -> PlainProgress:
        return self

    def __exit__(self, *exception: object) -> None:
        return None

    def begin(self, task: Task, place: str = "") -> None:
        return None

    def event(self, event: Message, place: str = "") -> None:
        return None

    def advance(self, task: Task, text: str = "checked", place: str = "") -> None:
        """Count a finished task and print its line."""
        self.done += 1
        at = f" on {place}" if place else ""
        terminal.note(f"[{self.done}/{self.total}] {self.name(task)}{at}: {text}")

    def name(self, task: Task) -> str:
        """The case, and its session if there are several."""
        which = f", session {task.session + 1} of {self.sessions}" if self.sessions > 1 else ""
        return f"{task.case.label}{which}"

    def end(self, task: Task, rows: Sequence[Row], place: str = "") -> None:
        self.advance(task, describe_fastest(rows), place)
        for line in self.failures(rows):
            terminal.note(f"  {line}")

    def failures(self, rows: Sequence[Row]) -> list[str]:
        """A line for each row that failed. Of the rows of a configuration that is not tried again, only the first has one."""
        again = {row.configuration_name for row in rows if row.not_tried}
        shown = [row for row in rows if row.configuration_name not in again & self._given_up]
        self._given_up |= again
        return [f"{row.configuration_name}: {row.status.value}: {row.reason}" for row in shown if row.status.failed]


class LiveProgress(PlainProgress):
    """Shows a bar for the whole run. If several devices or hosts measure at the same time, each has a line: the current case
    and provider, and the number of finished cases. The line appears with the first case."""

    def __init__(self, total: int, sessions: int = 1) -> None:
        super().__init__(total, sessions)
        self.progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=12),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[now]}", markup=False),
            console=terminal.console(stderr=True, live=True),
            transient=True,
        )
        self.bar = self.progress.add_task("starting", total=total, now="")
        self.lines = {"": self.bar}

    def __enter__(self) -> LiveProgress:
        self.progress.start()
        terminal.live_console = self.progress.console
        return self

    def __exit__(self, *exception: object) -> None:
        terminal.live_console = None
        self.progress.stop()

    def name(self, task: Task) -> str:
        """The case without its operator, so that the line fits into 80 columns."""
        return super().name(task).removeprefix(f"{task.case.operator} ")

    def begin(self, task: Task, place: str = "") -> None:
        if place not in self.lines:
            self.progress.update(self.bar, description="all")
            self.lines[place] = self.progress.add_task(place, total=None, now="")
        description = f"{place}: {self.name(task)}" if place else self.name(task)
        self.progress.update(self.lines[place], description=description, now="")

    def event(self, event: Message, place: str = "") -> None:
        if isinstance(event, StepBegun):
            self.progress.update(self.lines[place], now=f"{STEPS[event.step]} {event.name}")

    def advance(self, task: Task, text: str = "checked", place: str = "") -> None:
        self.progress.advance(self.bar)
        if place not in self.lines:  # another host does not report when a case begins
            self.progress.update(self.bar, description=self.name(task), now=f"on {place}")
        elif place:
            self.progress.advance(self.lines[place])

    def end(self, task: Task, rows: Sequence[Row], place: str = "") -> None:
        self.advance(task, place=place)
        for line in self.failures(rows):
            terminal.note(f"{self.name(task)}: {line}")


def make_progress(tasks: Sequence[Task]) -> PlainProgress:
    """The progress display that suits stderr."""
    sessions = max((task.session for task in tasks), default=0) + 1
    return (LiveProgress if sys.stderr.isatty() else PlainProgress)(len(tasks), sessions)


def describe_fastest(rows: Sequence[Row]) -> str:
    """The shortest time of a case and its provider. The summary, which knows the noise, says whether that is the fastest."""
    timed = [row for row in rows if row.of_provider and row.ms is not None]
    if not timed:
        return "nothing timed"
    best = min(timed, key=lambda row: row.ms or 0.0)
    who = f"shortest time: {best.configuration_name}" if len(timed) > 1 else f"{best.configuration_name} takes"
    return f"{who} {microseconds(best.ms or 0.0)} us"

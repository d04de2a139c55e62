"""`kbench why --timers`: the readings of several timers side by side."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kbench.text import terminal

if TYPE_CHECKING:
    from kbench.why.facts import RowFacts
    from kbench.why.second_opinion import TimerReading


def measured_again(path: Path, terms: str, names: Sequence[str]) -> list[list[TimerReading]]:
    """The readings of each of these configurations of a case with every timer. Raises what `measure_with_each_timer` raises."""
    from kbench.resolving.each_timer import measure_with_each_timer
    from kbench.why.second_opinion import readings_of

    rows = measure_with_each_timer(path, terms, terminal.note, beside=names)
    return [readings_of(rows, name) for name in names]


def print_readings(name: str, readings: Sequence[TimerReading]) -> None:
    """Print the readings of a configuration, and which to believe."""
    from kbench.why.second_opinion import judge_readings, reading_rows

    print()
    terminal.print_paragraph(f"{name}: measured again with each timer")
    header = ["timer", "reading", "of which the timer", "without that", "between kernels", "no reading because"]
    terminal.print_table(header, reading_rows(readings), numeric=header[1:5])
    terminal.print_paragraph(judge_readings(readings).sentence, indent=2)


def offer(facts: RowFacts) -> str:
    """How to get the readings of all timers. Empty for a row without a time, for one of a host, where one timer works, and for
    one of several devices, which kbench cannot measure again."""
    if facts.ms is None or facts.launch_ms is None or facts.several_devices:
        return ""
    command = shlex.join(["kbench", "why", facts.file, "--row", facts.terms, "--timers"])
    return f"A second opinion on the time, on the machine that measured it: {command}"

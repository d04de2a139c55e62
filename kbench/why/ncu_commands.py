"""The commands that count on another machine what the kernels of a row do, and that read the report here."""

from __future__ import annotations

import shlex

from kbench.counters.ncu import count_options
from kbench.why.facts import RowFacts

REPORT = "report.ncu-rep"


def call_arguments(facts: RowFacts) -> list[str]:
    """The arguments of the command that makes the call of a row once, for a profiler."""
    return ["why", facts.file, "--row", facts.terms, "--once"]


def is_cold(facts: RowFacts) -> bool:
    """Whether the row was measured with empty caches."""
    return facts.cache != "warm"


def count_command(facts: RowFacts) -> str:
    """The shell command that counts, and writes a report."""
    return shlex.join(["ncu", *count_options(REPORT, cold=is_cold(facts)), "kbench", *call_arguments(facts)])


def counters_command(facts: RowFacts) -> str:
    """The shell command that counts on this machine."""
    return shlex.join(["kbench", "why", facts.file, "--row", facts.terms, "--counters"])


def import_command(facts: RowFacts) -> str:
    """The shell command that shows the page of the row with that report."""
    return shlex.join(["kbench", "why", facts.file, "--row", facts.terms, "--import", REPORT])

"""What a call of a provider does in the case in which it is slowest beside a baseline, and why it takes its time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kbench.judging.answer import BaselineSpeed, Profile
from kbench.launches.kernels_file import read_kernels
from kbench.results.environment import read_environment
from kbench.results.row import Row
from kbench.results.vocabulary import Flag, Role
from kbench.why.facts import RowFacts
from kbench.why.reasons import find_reasons


def profile_of(provider: str, rows: Sequence[Row], baselines: Sequence[BaselineSpeed], path: Path) -> Profile | None:
    """The profile of a provider from the rows of the results file at `path`, and from what lies beside it. None if it has no
    time, or no other than suspect ones. Without a baseline, the case in which it takes longest counts."""
    own = [row for row in rows if row.role == Role.PROVIDER and row.configuration_name == provider and row.ms]
    own = [row for row in own if Flag.SUSPECT not in row.flags]
    if not own:
        return None
    slowest = max(own, key=lambda row: row.ms or 0.0).case
    if baselines:
        worst = min(baselines, key=lambda baseline: baseline.speedup).worst.case
        slowest = next(row.case for row in own if row.case.label == worst)
    of_case = [row for row in rows if row.case == slowest]
    own = [row for row in own if row.case == slowest]
    facts = RowFacts(own, of_case, read_kernels(path), read_environment(path)[0], path)
    kernels = [launch.kernel for launch in facts.call.launches] if facts.call else []
    return Profile(
        case=slowest.label,
        ms=facts.row.ms or 0.0,
        copy_fraction=facts.row.copy_fraction,
        launches=facts.row.kernels,
        registers=max((kernel.registers for kernel in kernels), default=None),
        spilled_bytes=max((kernel.local_bytes for kernel in kernels), default=None),
        causes=find_reasons(facts),
    )

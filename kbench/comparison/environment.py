"""The differences between the machines and settings of two results files, and how much each matters."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Sequence

from kbench.analysis.files import ResultsFile
from kbench.comparison.model import CONDITIONS, EnvironmentDifference, Severity
from kbench.launches.code_change import CLOCK_MOVED
from kbench.results.environment import Environment
from kbench.results.row import Row
from kbench.results.vocabulary import Status
from kbench.text.suggest import unknown

UNKNOWN = "unknown"
"""The value of a property in a file without times. It counts as equal to every other."""

TELLING = (
    "driver", "cuda", "hip", "nvcc", "python", "platform", "cpu_count", "threads", "multi_processor_count", "total_memory",
    "telemetry", "other_processes", "triton_interpreter", "kbench", "baseline", "profile",
)  # fmt: skip
"""Entries of the environment file that may explain a difference. Names, dates, paths and commits may not."""

NESTED = ("packages", "limits", "variables", "measure")
"""Entries of the environment file that are mappings of such entries."""

NOT_COMPARED = {
    f"measure.{key}" for key in ("sessions", "timer", "cache", "timeout_s", "build_timeout_s", "stages", "kernels")
}
"""Settings that are left out: the rows show them, or they affect no number."""

Property = str | float
"""The value of a property: text, or a measured clock in MHz."""


def differences(
    old: ResultsFile, new: ResultsFile, axes: Collection[str], vary: Collection[str]
) -> list[EnvironmentDifference]:
    """What differs between two files. Those that make rows incomparable come first.

    A column of `axes` identifies cases, so it does not count. `vary` names the properties that differ on purpose, such as
    `device`, `torch` or `measure.rounds`.
    """
    before, after = _from_rows(old.rows, axes), _from_rows(new.rows, axes)
    if old.environment.known and new.environment.known:  # otherwise, only the rows can be compared
        before |= environment_properties(old.environment)
        after |= environment_properties(new.environment)
    different = []
    for name in dict.fromkeys([*before, *after]):
        values = before.get(name, "none"), after.get(name, "none")
        if UNKNOWN not in values and not _equal(*values):
            severity = Severity.CONDITION if name in CONDITIONS else Severity.WARN
            if name in vary or name.partition(".")[2] in vary:
                severity = Severity.VARIED
            different.append(EnvironmentDifference(name, _written(values[0]), _written(values[1]), severity))
    return sorted(different, key=lambda difference: list(Severity).index(difference.severity))


def unknown_names(vary: Collection[str], *files: ResultsFile) -> list[str]:
    """A sentence for each name in `vary` that no file has. It is usually misspelt."""
    names = set(CONDITIONS)
    for file in files if vary else ():
        names |= {*_from_rows(file.rows), *environment_properties(file.environment)}
    names |= {name.partition(".")[2] for name in names} - {""}
    return [f"--vary: {unknown('property of these files', name, sorted(names))}" for name in sorted(set(vary) - names)]


def _from_rows(rows: Sequence[Row], axes: Collection[str] = ()) -> dict[str, Property]:
    ok = [row for row in rows if row.status is Status.OK]
    throttled = sorted({word for row in ok for word in row.throttle.split(";") if word})
    clocks_mhz = [row.sm_mhz for row in ok if row.sm_mhz is not None]
    conditions = [name for name in CONDITIONS if name not in ("case_hash", *axes)]
    return {
        **{name: "/".join(sorted({getattr(row, name) for row in ok})) or UNKNOWN for name in conditions},
        "sessions": str(len({row.session for row in ok})),
        "SM clock (median)": statistics.median(clocks_mhz) if clocks_mhz else UNKNOWN,
        "throttled by": "/".join(throttled) or "nothing",
    }


def environment_properties(environment: Environment) -> dict[str, str]:
    """What an environment file says that may affect times: `driver`, `packages.torch`, `measure.rep_ms`."""
    values = {name: str(value) for name in TELLING if (value := getattr(environment, name)) is not None}
    for group in NESTED:
        entries = getattr(environment, group)
        values |= {f"{group}.{name}": str(value) for name, value in entries.items() if value is not None}
    values |= {"uncommitted changes": "yes"} if environment.git and environment.git.dirty else {}
    return {name: value for name, value in values.items() if name not in NOT_COMPARED}


def _equal(old: Property, new: Property) -> bool:
    """Whether two values count as equal. Clocks are measured, so they may differ by CLOCK_MOVED."""
    if isinstance(old, float) and isinstance(new, float):
        return abs(old - new) <= CLOCK_MOVED * max(old, new)
    return old == new


def _written(value: Property) -> str:
    return f"{value:.0f} MHz" if isinstance(value, float) else value

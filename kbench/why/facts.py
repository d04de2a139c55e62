"""What is known of a row: its times, what its call launched, and what the device holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from kbench.analysis.chosen_row import find_row
from kbench.errors import UsageError
from kbench.launches.device_limits import DeviceLimits, Occupancy, launch_occupancy
from kbench.launches.kernels_file import KernelsFile, kernels_path, read_kernels
from kbench.launches.launched_call import KernelLaunch, LaunchedCall
from kbench.results.environment import Environment, read_environment
from kbench.results.reader import read_results
from kbench.results.row import COLUMNS, Row
from kbench.results.vocabulary import KERNELS_NOT_KNOWN, Control, Role
from kbench.text.suggest import nearest
from kbench.text.words import list_words


@dataclass(frozen=True)
class RowFacts:
    """What is known of a provider in one case.

    row       a row with the medians of its sessions
    rows      the rows of its sessions
    empty_ms  what the timer adds, from the control `empty`; None if it is not known
    call      what a call launches; None if it is not known, and `unknown` says why
    limits    what a multiprocessor of the device holds; None if it is not known
    top_mhz   the highest clock that the device can have; None if it is not known
    config    the path of the config that measured it; empty if it is not known, or for a script
    """

    row: Row
    rows: Sequence[Row]
    empty_ms: float | None
    call: LaunchedCall | None
    unknown: str
    limits: DeviceLimits | None
    top_mhz: float | None
    config: str

    @property
    def name(self) -> str:
        return self.row.configuration_name

    @property
    def call_bytes(self) -> int | None:
        """The algorithmic bytes of a call."""
        first = self.rows[0]
        return round(first.gbps * first.ms * 1e6) if first.gbps and first.ms else None

    @property
    def flops(self) -> int | None:
        first = self.rows[0]
        return round(first.tflops * first.ms * 1e9) if first.tflops and first.ms else None

    @property
    def moved(self) -> float | None:
        """The bytes that the provider says it moves, divided by the algorithmic bytes."""
        first = self.rows[0]
        return first.achieved_gbps / first.gbps if first.achieved_gbps and first.gbps else None

    def occupancy(self, launch: KernelLaunch) -> Occupancy | None:
        return launch_occupancy(launch, self.limits) if self.limits else None


def find_facts(path: Path, terms: str, versus: str = "") -> tuple[list[RowFacts], list[str]]:
    """The facts of the row that the terms choose and, with `versus`, of another configuration in the same case. Also returns
    notes for the user. Raises UsageError and ResultsError."""
    results = read_results(path)
    chosen = find_row(results, terms)[0]
    of_case = [row for row in results.rows if row.case == chosen.case and row.device == chosen.device]
    names = [chosen.configuration_name]
    if versus:
        others = list(dict.fromkeys(row.configuration_name for row in of_case if row.role == Role.PROVIDER))
        if versus not in others:
            near = nearest(versus, others)
            advice = f'did you mean "{near}"?' if near else f"the case has {list_words(others)}"
            raise UsageError(f"--versus {versus}: the case has no such provider; {advice}")
        names.append(versus)
    kernels, (environment, note) = read_kernels(path), read_environment(path)
    facts = [_facts(name, of_case, path, kernels, environment) for name in names]
    return facts, [*results.warnings, *filter(None, [kernels.note, note])]


def _facts(name: str, of_case: Sequence[Row], path: Path, kernels: KernelsFile, environment: Environment) -> RowFacts:
    sessions = [row for row in of_case if row.role == Role.PROVIDER and row.configuration_name == name]
    rows = [row for row in sessions if row.ms is not None] or sessions
    empty = [row.ms for row in of_case if row.provider == Control.EMPTY and row.role == Role.CONTROL and row.ms]
    row = _middle(rows)
    call = kernels.calls.get(row.code)
    top, config = environment.limits.get("max_sm_mhz"), environment.config
    return RowFacts(
        row=row,
        rows=rows,
        empty_ms=median(empty) if empty else None,
        call=call,
        unknown="" if call else _why_unknown(row, path, kernels, on_host=environment.device_type == "cpu"),
        limits=kernels.devices.get(row.device),
        top_mhz=None if top is None else float(top),
        config=config.path if config and not config.source else "",
    )


def _middle(rows: Sequence[Row]) -> Row:
    """One row of several sessions: the medians of their numbers, all their flags, and the first code that is known."""
    medians: dict[str, Any] = {}
    for column in COLUMNS.values():
        if column.kind in ("number", "integer"):
            known = [value for row in rows if (value := getattr(row, column.name)) is not None]
            if known:
                medians[column.name] = round(median(known)) if column.kind == "integer" else median(known)
    flags = tuple(dict.fromkeys(flag for row in rows for flag in row.flags))
    return replace(rows[0], **medians, flags=flags, code=next((row.code for row in rows if row.code), ""))


def _why_unknown(row: Row, path: Path, kernels: KernelsFile, *, on_host: bool) -> str:
    """Why it is not known what a call launches."""
    _, _, fault = row.reason.partition(KERNELS_NOT_KNOWN)
    if fault:
        return fault
    if row.ms is None:
        return f"the row is {row.status}, and kbench records the calls of timed rows only"
    if on_host:
        return f"it was measured on a CPU ({row.device}), and kbench records kernels of NVIDIA devices only"
    if not row.code:
        return (
            "the run recorded no kernels; possible reasons: it had no NVIDIA device, it had `kernels: false`, it measured a "
            "script, or kbench was older"
        )
    file = kernels_path(path).name
    if not kernels.there:
        return f"{file} is missing; copy it to the folder of the results file"
    return f"{file} has no entry with the digest {row.code}, which this row names"

"""What is known of a row: its times, what its call launched, and what the device holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

from kbench.errors import UsageError
from kbench.launches.kernels_file import KernelsFile, kernels_path, read_kernels
from kbench.launches.launched_call import DeviceLimits, KernelLaunch, LaunchedCall, Occupancy, launch_occupancy
from kbench.results.environment import Environment, read_environment
from kbench.results.reader import Results, read_results
from kbench.results.row import COLUMNS, Row
from kbench.results.row_filter import RowFilter
from kbench.results.vocabulary import KERNELS_NOT_KNOWN, Control, Status
from kbench.text.suggest import unknown
from kbench.text.words import list_words


@dataclass(frozen=True)
class RowFacts:
    """What is known of a provider in one case, from what lies beside the results.

    rows         the rows of its sessions
    of_case      all rows of the case on its device
    kernels      the content of the file of kernels at `path`
    environment  the file of the environment
    """

    rows: Sequence[Row]
    of_case: Sequence[Row]
    kernels: KernelsFile
    environment: Environment
    path: Path

    @property
    def name(self) -> str:
        return self.rows[0].configuration_name

    @cached_property
    def row(self) -> Row:
        """One row for all sessions: the medians of their numbers, all their flags, and the first code that is known. A provider
        that is wrong in a session has no time."""
        wrong = [row for row in self.rows if row.status in (Status.WRONG, Status.TAMPERED)]
        timed = wrong or [row for row in self.rows if row.ms is not None] or self.rows
        medians: dict[str, Any] = {}
        for column in COLUMNS.values():
            if column.cells.name in ("number", "integer"):
                numbers = [number for row in timed if (number := getattr(row, column.name)) is not None]
                if numbers:
                    medians[column.name] = round(median(numbers)) if column.cells.name == "integer" else median(numbers)
        flags = tuple(dict.fromkeys(flag for row in timed for flag in row.flags))
        return replace(timed[0], **medians, flags=flags, code=next((row.code for row in timed if row.code), ""))

    @property
    def light(self) -> float | None:
        """The share of the speed of light. None if that is the speed of the memory, and the cache was warm: what lies in the
        cache is read faster."""
        return self.row.sol if self.row.bound_by_arithmetic or self.row.cache != "warm" else None

    @property
    def empty_ms(self) -> float | None:
        """What the timer adds, from the control `empty`; None if it is not known."""
        empty = [row.ms for row in self.of_case if row.control is Control.EMPTY and row.ms]
        return median(empty) if empty else None

    @property
    def call(self) -> LaunchedCall | None:
        """What a call launches; None if it is not known, and `unknown` says why."""
        return self.kernels.calls.get(self.row.code)

    @property
    def limits(self) -> DeviceLimits | None:
        """What a multiprocessor of the device holds; None if it is not known."""
        return self.kernels.devices.get(self.row.device)

    @property
    def top_mhz(self) -> float | None:
        """The highest clock that the device can have; None if it is not known."""
        top = self.environment.limits.get("max_sm_mhz")
        return None if top is None else float(top)

    @property
    def config(self) -> str:
        """The path of the config that measured it; empty if it is not known, or for a script."""
        config = self.environment.config
        return config.path if config and not config.source else ""

    @property
    def call_bytes(self) -> int | None:
        """The algorithmic bytes of a call."""
        return next((round(row.gbps * row.ms * 1e6) for row in self.rows if row.gbps and row.ms), None)

    @property
    def flops(self) -> int | None:
        return next((round(row.tflops * row.ms * 1e9) for row in self.rows if row.tflops and row.ms), None)

    @property
    def moved(self) -> float | None:
        """The bytes that the provider says it moves, divided by the algorithmic bytes."""
        return next((row.achieved_gbps / row.gbps for row in self.rows if row.achieved_gbps and row.gbps), None)

    def occupancy(self, launch: KernelLaunch) -> Occupancy | None:
        return launch_occupancy(launch, self.limits) if self.limits else None

    @property
    def unknown(self) -> str:
        """Why it is not known what a call launches; empty if it is known."""
        row = self.row
        if self.call:
            return ""
        if fault := row.reason.partition(KERNELS_NOT_KNOWN)[2]:
            return fault
        if row.ms is None:
            return f"the row is {row.status}, and kbench records the calls of timed rows only"
        if self.environment.device_type == "cpu":
            return f"it was measured on a CPU ({row.device}), and kbench records kernels of NVIDIA devices only"
        file = kernels_path(self.path).name
        if not row.code:
            return "the run recorded no kernels: it had no NVIDIA device or `kernels: false`, or it measured a script"
        if not kernels_path(self.path).exists():
            return f"{file} is missing; copy it to the folder of the results file"
        return f"{file} has no entry with the digest {row.code}, which this row names"


def find_facts(path: Path, terms: str, versus: str = "") -> tuple[list[RowFacts], list[str]]:
    """The facts of the row that the terms choose and, with `versus`, of another configuration in the same case. Also returns
    notes for the user. Raises UsageError and ResultsError."""
    results = read_results(path)
    chosen = _find_row(results, terms)
    of_case = [row for row in results.rows if row.case == chosen.case and row.device == chosen.device]
    providers = [row for row in of_case if row.of_provider]
    names = [chosen.configuration_name]
    if versus:
        names_of_case = list(dict.fromkeys(row.configuration_name for row in providers))
        if versus not in names_of_case:
            raise UsageError(f"--versus: {unknown('provider of this case', versus, names_of_case)}")
        names.append(versus)
    kernels, (environment, note) = read_kernels(path), read_environment(path)
    facts = [
        RowFacts([row for row in providers if row.configuration_name == name], of_case, kernels, environment, path)
        for name in names
    ]
    return facts, [*results.warnings, *filter(None, [kernels.note, note])]


def _find_row(results: Results, terms: str) -> Row:
    """The first row of the configuration and case that the terms of `--row` choose. Raises UsageError if they choose none, or
    several."""
    chosen = RowFilter.parse(terms)
    rows = chosen.select(results).provider_rows
    if not rows:
        raise UsageError(chosen.nothing(results))
    if len({(row.case, row.configuration_name) for row in rows}) > 1:
        path = results.path
        message = f"--row {terms!r} chooses more than one row of {path}" if terms else f"{path} has more than one row"
        raise UsageError(f"{message}: {_differing(rows)}; add a term for each of these to --row")
    return rows[0]


def _differing(rows: Sequence[Row]) -> str:
    """What the rows differ in: `N is 256, 512, 1024; provider is triton, cuda`."""
    values: dict[str, dict[str, None]] = {}
    for row in rows:
        for name, value in {**row.case.axes, "dtype": row.case.dtype, "provider": row.configuration_name}.items():
            values.setdefault(name, {})[str(value)] = None
    return "; ".join(f"{name} is {list_words(list(words), 8)}" for name, words in values.items() if len(words) > 1)

"""What is known of a row: its times, what its call launched, and what the device holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from kbench.analysis.chosen_row import find_row, terms_of
from kbench.counters.kernel_counters import KernelCounters
from kbench.errors import UsageError
from kbench.launches.device_limits import DeviceLimits, Occupancy, launch_occupancy
from kbench.launches.kernels_file import KernelsFile, kernels_path, read_kernels
from kbench.launches.launched_call import KernelLaunch, LaunchedCall
from kbench.results import environment_file
from kbench.results.case import Case
from kbench.results.reader import read_results
from kbench.results.row import Row
from kbench.results.vocabulary import Control, Role
from kbench.text.printable import printable
from kbench.text.suggest import list_words, nearest


@dataclass(frozen=True)
class RowFacts:
    """What is known of a provider in one case. Numbers are medians over its sessions; None for what is not known.

    name             of the configuration
    gap_ms           the part of the time between the kernels of a call
    empty_ms         what the timer adds, from the control `empty`
    call_bytes       algorithmic bytes of a call
    moved            the bytes that the provider says it moves, divided by `call_bytes`
    sol              share of the speed of light
    copy_fraction    share of the speed of a copy of the same bytes
    top_mhz          the highest clock that the device can have
    call             what a call launches
    limits           what a multiprocessor of the device holds
    kernels_file     the name of the file that says what calls launch
    kernels_missing  whether there is no such file
    on_host          whether it was measured on a CPU
    config           the path of the config that measured it; empty if it is not known, or for a script
    file             the results file, and `terms`, which choose the row in it
    counters         what the hardware counted in its kernels; empty if nobody has counted
    """

    name: str
    case: Case
    device: str
    timer: str
    cache: str
    sessions: int
    status: str
    reason: str
    flags: tuple[str, ...]
    ms: float | None
    gap_ms: float | None
    launch_ms: float | None
    empty_ms: float | None
    call_bytes: int | None
    flops: int | None
    moved: float | None
    sol: float | None
    copy_fraction: float | None
    sm_mhz: float | None
    top_mhz: float | None
    kernels: int | None
    code: str
    peak_bytes: int | None
    energy_mj: float | None
    call: LaunchedCall | None
    limits: DeviceLimits | None
    kernels_file: str = ""
    kernels_missing: bool = False
    on_host: bool = False
    config: str = ""
    file: str = ""
    terms: str = ""
    counters: tuple[KernelCounters, ...] = ()

    @property
    def launches_known(self) -> bool:
        """Whether it is known which kernels a call launches, and there are any."""
        return bool(self.call and self.call.launches)

    def occupancy(self, launch: KernelLaunch) -> Occupancy | None:
        return launch_occupancy(launch, self.limits) if self.limits else None


def find_facts(path: Path, terms: str, versus: str = "") -> tuple[list[RowFacts], list[str]]:
    """The facts of the row that the terms choose and, with `versus`, of another configuration in the same case. Also returns
    notes for the user. Raises UsageError and ResultsError."""
    results = read_results(path)
    rows = find_row(results, terms)
    case, name = rows[0].case, rows[0].configuration_name
    of_case = [row for row in results.rows if row.case == case and row.device == rows[0].device]
    wanted = [name]
    if versus:
        others = list(dict.fromkeys(row.configuration_name for row in of_case if row.role == Role.PROVIDER))
        if versus not in others:
            near = nearest(versus, others)
            advice = f'did you mean "{near}"?' if near else f"the case has {list_words(others)}"
            raise UsageError(f"--versus {versus}: the case has no such provider; {advice}")
        wanted.append(versus)
    kernels, machine = read_kernels(path), environment_file.read_environment(path)
    providers = {row.configuration_name: row for row in of_case if row.role == Role.PROVIDER}
    found = [
        replace(
            _facts(each, of_case, kernels, machine.environment),
            kernels_file=printable(kernels_path(path).name),
            kernels_missing=not kernels.there,
            file=str(path),
            terms=terms_of(providers[each], results.rows),
        )
        for each in wanted
    ]
    notes = [*results.warnings, *([kernels.note] if kernels.note else [])]
    return found, [*notes, *([machine.note] if machine.there and machine.note else [])]


def _facts(name: str, of_case: Sequence[Row], kernels: KernelsFile, environment: dict[str, object]) -> RowFacts:
    rows = [row for row in of_case if row.role == Role.PROVIDER and row.configuration_name == name]
    timed = [row for row in rows if row.ms is not None] or rows
    empty = [row for row in of_case if row.role == Role.CONTROL and row.provider == Control.EMPTY]
    first = timed[0]
    code = next((row.code for row in timed if row.code), "")

    def middle(get: Callable[[Row], float | None], among: Sequence[Row] = timed) -> float | None:
        known = [value for row in among if (value := get(row)) is not None]
        return median(known) if known else None

    limits, config = environment.get("limits"), environment.get("config")
    top = limits.get("max_sm_mhz") if isinstance(limits, dict) else None
    return RowFacts(
        name=name,
        case=first.case,
        device=first.device,
        timer=first.timer,
        cache=first.cache,
        sessions=len(rows),
        status=first.status.value,
        reason=first.reason,
        flags=tuple(dict.fromkeys(flag for row in timed for flag in row.flags)),
        ms=middle(lambda row: row.ms),
        gap_ms=middle(lambda row: row.gap_ms),
        launch_ms=middle(lambda row: row.launch_ms),
        empty_ms=middle(lambda row: row.ms, empty),
        call_bytes=_whole(middle(lambda row: row.gbps and row.ms and row.gbps * row.ms * 1e6)),
        flops=_whole(middle(lambda row: row.tflops and row.ms and row.tflops * row.ms * 1e9)),
        moved=middle(lambda row: row.achieved_gbps / row.gbps if row.achieved_gbps and row.gbps else None),
        sol=middle(lambda row: row.sol),
        copy_fraction=middle(lambda row: row.copy_fraction),
        sm_mhz=middle(lambda row: row.sm_mhz),
        top_mhz=float(top) if isinstance(top, (int, float)) else None,
        kernels=_whole(middle(lambda row: row.kernels)),
        code=code,
        peak_bytes=_whole(middle(lambda row: row.peak_bytes)),
        energy_mj=middle(lambda row: row.energy_mj),
        call=kernels.calls.get(code),
        limits=kernels.devices.get(first.device),
        on_host=environment.get("device_type") == "cpu",
        config=str(config.get("path") or "") if isinstance(config, dict) and not config.get("source") else "",
    )


def _whole(number: float | None) -> int | None:
    return None if number is None else round(number)

"""A row of a results file: the outcome of one provider in one case and session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kbench.results.case import Case, configuration_name
from kbench.results.columns import COLUMNS, OUTCOME_COLUMNS, Kind, columns_of, format_cell, parse_cell
from kbench.results.vocabulary import Role, Status
from kbench.text.printable import safe_name, safe_reason

_LABELS = tuple(name for name in columns_of(Kind.WORD) if name != "params")
"""What a worker says in words. Other people's code runs there, so the words are made printable."""


@dataclass
class Row:
    """The outcome of case x provider x session. Times in ms, speeds in GB/s (1e9 bytes per second) and
    TFLOP/s (1e12 operations per second).

    A reason is kept as one printable line, cut after REASON_LIMIT characters, that no spreadsheet takes for a formula.

    Raises ValueError when a status and its numbers contradict each other: a time without `ok`, or a failure without a
    reason.
    """

    case: Case
    provider: str
    params: str = ""
    role: str = Role.PROVIDER
    session: int = 0
    status: Status = Status.OK
    reason: str = ""
    flags: tuple[str, ...] = ()
    ms: float | None = None
    ms_p20: float | None = None
    ms_p80: float | None = None
    ms_min: float | None = None
    round_ms: tuple[float, ...] = ()
    samples: int | None = None
    precision: float | None = None
    launch_ms: float | None = None
    build_ms: float | None = None
    gbps: float | None = None
    gbps_p20: float | None = None
    gbps_p80: float | None = None
    achieved_gbps: float | None = None
    copy_fraction: float | None = None
    ceiling_gbps: float | None = None
    tflops: float | None = None
    ceiling_tflops: float | None = None
    sol: float | None = None
    speedup: float | None = None
    max_rel_err: float | None = None
    max_ulp: float | None = None
    deterministic: bool | None = None
    agreement: str = ""
    noticed: str = ""
    counted: float | None = None
    script_ms: float | None = None
    kernels: int | None = None
    code: str = ""
    peak_bytes: int | None = None
    gap_ms: float | None = None
    alloc_ms: float | None = None
    h2d_ms: float | None = None
    kernel_ms: float | None = None
    d2h_ms: float | None = None
    timer: str = ""
    cache: str = ""
    device: str = ""
    device_index: int | None = None
    device_uuid: str = ""
    sm_mhz: float | None = None
    power_w: float | None = None
    energy_mj: float | None = None
    temp_c: float | None = None
    throttle: str = ""
    other_cores: float | None = None
    started_at: str = ""
    case_hash: str = ""
    source_hash: str = ""
    env_id: str = ""
    model: str = ""
    weight: float | None = None
    not_tried: bool = False  # no column: this run gave the configuration up after it took the worker down

    def __post_init__(self) -> None:
        self.status = Status(self.status)
        if self.reason:
            self.reason = safe_reason(str(self.reason))
        if self.status is Status.OK and self.ms is None:
            raise ValueError(f"{self.case.label} {self.provider}: the status is ok, but there is no time")
        if self.status is not Status.OK and (self.ms is not None or self.round_ms):
            raise ValueError(
                f"{self.case.label} {self.provider}: the status is {self.status.value}, but there is a time"
            )
        if self.status not in (Status.OK, Status.CHECKED) and not self.reason:
            raise ValueError(
                f"{self.case.label} {self.provider}: the status is {self.status.value}, but there is no reason"
            )

    @property
    def configuration_name(self) -> str:
        return configuration_name(self.provider, self.params)

    @property
    def bound_by_arithmetic(self) -> bool:
        """Whether the operations of a call need longer at their ceiling than its bytes at theirs. False if the operator does
        not count its operations, True if a ceiling is not known."""
        if self.tflops is None:
            return False
        if not self.gbps or not self.ceiling_gbps or not self.ceiling_tflops:
            return True
        return self.tflops / self.ceiling_tflops >= self.gbps / self.ceiling_gbps

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Row:
        tuples = {k: tuple(data[k]) for k in ("flags", "round_ms")}
        words = {name: safe_name(str(data[name])) for name in _LABELS if name in data}
        return cls(**{**data, **tuples, **words, "case": Case.from_json(data["case"])})

    def cells(self) -> dict[str, str]:
        """The row as CSV text: full precision, empty for "not known"."""
        cells = {"operator": self.case.operator, "provider": self.provider, "params": self.params}
        cells |= {name: format_cell(value) for name, value in self.case.axes.items()}
        cells["dtype"] = self.case.dtype
        return cells | {name: format_cell(getattr(self, name)) for name in OUTCOME_COLUMNS}

    @classmethod
    def from_cells(cls, case: Case, cells: Mapping[str, str]) -> Row:
        """The row of a case that `cells` wrote. Raises ValueError for a cell that does not hold what it should."""
        names = ("provider", "params", *OUTCOME_COLUMNS)
        missing = {name for name in names if name not in cells and COLUMNS[name].optional}
        return cls(case, **{name: _parsed(name, cells[name]) for name in names if name not in missing})


def _parsed(name: str, cell: str) -> Any:
    try:
        return parse_cell(COLUMNS[name].kind, cell)
    except ValueError:
        raise ValueError(f"{name} has the invalid value {cell[:40]!r}") from None

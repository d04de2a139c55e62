"""Rows: what a run produces, and the CSV and environment files that hold them.

The one module that both halves of kbench share: the worker makes rows, the parent stores them, `compare` and `plot` read
them. It imports neither torch nor pandas.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kbench.text.printable import label
from kbench.text.printable import reason as one_reason

Value = int | float | str | bool | None


ITEMSIZE = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}

TICK_MS = 32e-6
"""The resolution of device events: elapsed times are multiples of 32 ns on NVIDIA devices. No difference of two of them is
believed."""

DTYPE_ALIASES = {
    "fp64": "float64", "f64": "float64", "double": "float64",
    "fp32": "float32", "f32": "float32", "float": "float32",
    "fp16": "float16", "f16": "float16", "half": "float16",
    "bf16": "bfloat16",
}  # fmt: skip


class Status(str, enum.Enum):
    """How a row ended. Only `ok` rows carry a time."""

    OK = "ok"
    CHECKED = "checked"
    UNAVAILABLE = "unavailable"
    UNSUPPORTED = "unsupported"
    WRONG = "wrong"
    ERROR = "error"
    OOM = "oom"
    TIMEOUT = "timeout"
    CRASHED = "crashed"

    @property
    def failed(self) -> bool:
        """True for the outcomes that make `kbench run` exit with 1."""
        return self in _FAILED


_FAILED = frozenset({Status.WRONG, Status.ERROR, Status.OOM, Status.TIMEOUT, Status.CRASHED})


@dataclass(frozen=True)
class Case:
    """An operator at one point of the sweep: axis values, choices and dtype.

    `axes` maps axis names to sizes and choice names to words, in the operator's order; both read as attributes
    (`case.N`, `case.approximate`).
    """

    operator: str
    axes: Mapping[str, Value]
    dtype: str

    def __getattr__(self, name: str) -> Any:
        axes = self.__dict__.get("axes", {})
        if name in axes:
            return axes[name]
        raise AttributeError(f"case of {self.__dict__.get('operator')} has no axis {name!r}; it has {', '.join(axes)}")

    @property
    def itemsize(self) -> int:
        """Bytes per element of the case's dtype."""
        return ITEMSIZE[self.dtype]

    @property
    def label(self) -> str:
        """One-line name for progress and errors: `softmax M=4096 N=256 float32`."""
        return " ".join([self.operator, *(f"{k}={v}" for k, v in self.axes.items()), self.dtype])

    @property
    def key(self) -> tuple[Any, ...]:
        return (self.operator, tuple(self.axes.items()), self.dtype)

    def to_json(self) -> dict[str, Any]:
        return {"operator": self.operator, "axes": dict(self.axes), "dtype": self.dtype}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Case:
        return cls(data["operator"], dict(data["axes"]), data["dtype"])


def format_params(params: Mapping[str, Value]) -> str:
    """`{"num_warps": 4}` as the CSV and the curves' names write it: `num_warps=4`."""
    return ",".join(f"{k}={v}" for k, v in params.items())


def curve_name(provider: str, params: str) -> str:
    """The name of a provider's curve: `triton-row[num_warps=4]`."""
    return f"{provider}[{params}]" if params else provider


PROVIDER, CONTROL = "provider", "control"

STEPS = {"build": "building", "check": "checking", "time": "timing"}
"""What a worker may be doing to a provider, and how reasons and progress say it."""


@dataclass
class Row:
    """The outcome of case x provider x session. Times in ms, speeds in GB/s (1e9 bytes per second).

    A reason is kept as one printable line, cut after REASON_LIMIT characters, that no spreadsheet takes for a formula.

    Raises ValueError when a status and its numbers contradict each other: a time without `ok`, or a failure without a
    reason.
    """

    case: Case
    provider: str
    params: str = ""
    role: str = PROVIDER
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
    launch_ms: float | None = None
    build_ms: float | None = None
    gbps: float | None = None
    gbps_p20: float | None = None
    gbps_p80: float | None = None
    achieved_gbps: float | None = None
    copy_fraction: float | None = None
    ceiling_gbps: float | None = None
    speedup: float | None = None
    max_rel_err: float | None = None
    max_ulp: float | None = None
    deterministic: bool | None = None
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
    temp_c: float | None = None
    throttle: str = ""
    other_cores: float | None = None
    started_at: str = ""
    case_hash: str = ""
    source_hash: str = ""
    env_id: str = ""

    def __post_init__(self) -> None:
        self.status = Status(self.status)
        self.reason = one_reason(str(self.reason))
        if self.status is Status.OK and self.ms is None:
            raise ValueError(f"{self.case.label} {self.provider}: ok without a time")
        if self.status is not Status.OK and (self.ms is not None or self.round_ms):
            raise ValueError(f"{self.case.label} {self.provider}: {self.status.value} with a time")
        if self.status not in (Status.OK, Status.CHECKED) and not self.reason:
            raise ValueError(f"{self.case.label} {self.provider}: {self.status.value} without a reason")

    @property
    def curve(self) -> str:
        return curve_name(self.provider, self.params)

    def to_json(self) -> dict[str, Any]:
        """The row as the process boundary carries it."""
        data = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return data | {"case": self.case.to_json(), "status": self.status.value}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Row:
        tuples = {k: tuple(data[k]) for k in ("flags", "round_ms")}
        words = {name: label(str(data[name])) for name in _WORDS if name in data}
        return cls(**{**data, **tuples, **words, "case": Case.from_json(data["case"])})

    def cells(self) -> dict[str, str]:
        """The row as CSV text: full precision, empty for "not known"."""
        cells = {"operator": self.case.operator, "provider": self.provider, "params": self.params}
        cells |= {name: _cell(value) for name, value in self.case.axes.items()}
        cells["dtype"] = self.case.dtype
        return cells | {name: _cell(getattr(self, name)) for name in OUTCOME_COLUMNS}

    @classmethod
    def from_cells(cls, case: Case, cells: Mapping[str, str]) -> Row:
        """The row of a case that `cells` wrote. Raises ValueError for a cell that does not hold what it should."""
        known = dict.fromkeys(LATER_COLUMNS, "") | dict(cells)
        values = {f.name: _value(str(f.type), known[f.name]) for f in dataclasses.fields(cls) if f.name != "case"}
        return cls(case, **values)


LINE = "line"
"""What the index of a table is called that was read from a CSV. No column has this name."""

IDENTITY_COLUMNS = ("operator", "provider", "params")
LATER_COLUMNS = ("other_cores",)
"""Columns that files of earlier versions lack: there they are read as "not known"."""

OUTCOME_COLUMNS = tuple(f.name for f in dataclasses.fields(Row) if f.name not in ("case", "provider", "params"))
NUMBERS = tuple(f.name for f in dataclasses.fields(Row) if str(f.type) in ("int | None", "float | None"))
"""Columns that hold numbers. An empty cell is "not known"."""


def columns(axes: Iterator[str] | list[str] | tuple[str, ...]) -> list[str]:
    """The CSV header of an operator with these axes: identity, axes, dtype, then `role` and everything else."""
    return [*IDENTITY_COLUMNS, *axes, "dtype", *OUTCOME_COLUMNS]


def axis_columns(header: list[str]) -> list[str]:
    """The axis names of a results file: whatever stands between `params` and `dtype`."""
    return header[header.index("params") + 1 : header.index("dtype")]


_WORDS = ("timer", "cache", "device", "device_uuid", "throttle", "started_at", "source_hash")
"""What a worker, in which other people's code runs, says of a row in words."""

_UNREADABLE = {0: "\\0", ord("\r"): "\\r"}
"""Characters that a message may bring and a CSV cannot hold: older csv modules do not quote a lone carriage return."""


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, Status):
        return value.value
    if isinstance(value, tuple):
        return ";".join(_cell(v) for v in value)
    return repr(value) if isinstance(value, float) else str(value).translate(_UNREADABLE)


def _value(annotation: str, cell: str) -> Any:
    """What a cell holds, by the annotation of its field in `Row`: the inverse of `_cell`."""
    if annotation.startswith("tuple"):
        convert = float if "float" in annotation else str
        return tuple(convert(part) for part in cell.split(";")) if cell else ()
    if annotation.endswith("| None") and not cell:
        return None
    match annotation.removesuffix(" | None"):
        case "int":
            return int(cell)
        case "float":
            return float(cell)
        case "bool":
            return cell == "True"
    return cell


def digest(data: Any) -> str:
    """A short stable hash of JSON-able data, for `case_hash`, `source_hash` and `env_id`."""
    text = data if isinstance(data, str) else json.dumps(data, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def now() -> str:
    """The time as ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")

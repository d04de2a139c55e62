"""A row of a results file: the outcome of one provider in one case and session. Its fields are the columns of the file.

A field says what its column means. The report takes its headings from there, `kbench explain` and docs/reference their texts.
To add a column, add a field.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from kbench.results.case import FORWARD, Case, configuration_name
from kbench.results.cells import KINDS, Kind, format_cell
from kbench.results.timers import timers_in_words
from kbench.results.vocabulary import CHECKED_REASON, Control, Role, Status


@dataclass(frozen=True)
class Column:
    """A column of the CSV.

    label        a short heading, without the unit
    explanation  what it means, why it matters, what to do
    unit         of its numbers: "ms", "GB/s"; "" for none
    """

    name: str
    cells: Kind
    label: str
    explanation: str
    unit: str = ""

    def heading(self, unit: str = "") -> str:
        """The label with the unit, `time (ms)`. `unit` is the one that numbers are shown in, if it is another."""
        shown = unit or self.unit
        return f"{self.label} ({shown})" if shown and shown not in self.label else self.label


def column(label: str, explanation: str, unit: str = "", *, default: Any = None) -> Any:
    """A field of `Row` with what its column means. See Column."""
    return field(default=default, metadata={"label": label, "explanation": explanation, "unit": unit})


def word(label: str, explanation: str) -> Any:
    """A column of text, which is empty if nothing is known."""
    return column(label, explanation, default="")


OPERATOR = Column("operator", KINDS["str"], "operator", """What was computed: the name of the operator in the config. The
    columns between `params` and `dtype` are its axes (whole numbers), scalars (numbers, or True and False), choices (words)
    and `mode`, which operators with gradients have. With `dtype` they are the case of the row.""")  # fmt: skip

DTYPE = Column("dtype", KINDS["str"], "dtype", """The dtype of the case, by its full name. All inputs and outputs have it for
    which the operator does not declare another one.""")  # fmt: skip

_QUANTILES = """The 20th and 80th percentile over all samples of all rounds: in ms for `ms_p20` and `ms_p80`, in GB/s
        for `gbps_p20` and `gbps_p80`. `gbps_p20` is the smaller speed, so it belongs to the longer time, `ms_p80`.
        Pictures draw them as a band."""

_STAGES = """The times of the steps around a kernel in a program, in ms, measured with `measure: {stages: true}` on an
        accelerator: to allocate the inputs and an output with the driver (`alloc_ms`), to copy the inputs to the device
        (`h2d_ms`) and an output back (`d2h_ms`), both with pageable host memory. These are wall times on the host, medians of
        five, taken once per case. `kernel_ms` is the row's own `ms`."""


@dataclass(frozen=True)
class WrongElement:
    """The first wrong element of an output. The numbers are text, because JSON has no NaN and no infinity."""

    output: str
    index: tuple[int, ...]
    value: str
    expected: str


# fmt: off
@dataclass
class Row:
    """The outcome of case x provider x session. Times in ms, speeds in GB/s (1e9 bytes per second) and
    TFLOP/s (1e12 operations per second).

    Raises ValueError when a status and its numbers contradict each other: a time without `ok`, or a failure without a
    reason.
    """

    case: Case
    provider: str = column("provider", """The implementation of the operator: its name in the config, or
        the name of a control. A provider with `params` is one configuration: one line of a plot.""", default=MISSING)
    params: str = word("params", """The parameters that the config gave the provider, for example
        `num_warps=4,num_stages=2`. It is empty if the config gave none: the provider then uses its own defaults.""")
    role: Role = column("role", """`provider`, or `control` for the rows that kbench adds to every case: `copy`,
        `empty` and `repeat`. Leave controls out of averages over providers: `query('role ==
        "provider"')`.""", default=Role.PROVIDER)  # noqa: RUF009
    session: int = column("session", """The number of the session that measured the row, from 0. Each session
        measures the whole sweep in a fresh process. Memory layout, clocks and compilation differ between processes, so a
        session is one trial, however many samples it takes.""", default=0)
    status: Status = column("status", """How the row ended: ok, checked, unavailable, unsupported, wrong, tampered,
        error, oom, timeout or crashed. Only `ok` rows carry a time. All rows but `ok` and `checked` have a `reason`.
        """, default=Status.OK)  # noqa: RUF009
    reason: str = word("reason", """Why the row has its status: what is missing, what was wrong and where, the
        exception and its place. An `ok` row has one if a flag needs it (`altered-state`, `same-ops`, `weak-check`, `suspect`,
        `eager`), or if kbench could not record what a call launches.""")
    flags: tuple[str, ...] = column("flags", """Reasons to distrust the row's time, between semicolons: suspect, unchecked,
        same-ops, weak-check, eager, dynamic-shapes, host-bound, overhead-bound, l2-resident, throttled, noisy, altered-state.
        kbench found no reason to distrust a row without flags.""", default=())
    ms: float | None = column("time", """The time of one call in milliseconds: the median of the rounds' medians, which
        are in `round_ms`. It includes the timer's own overhead (the case's `empty` control).""", unit="ms")
    ms_p20: float | None = column("p20", _QUANTILES, unit="ms")
    ms_p80: float | None = column("p80", _QUANTILES, unit="ms")
    ms_min: float | None = column("shortest time", """The shortest of all samples, in ms. It falls as the number of samples
        grows, so compare rows by `ms`.""", unit="ms")
    round_ms: tuple[float, ...] = column("rounds", """The median of each round, in ms, between semicolons, in the order of
        the rounds. In every round each provider of the case has one turn, in shuffled order.""", unit="ms", default=())
    samples: int | None = column("samples", """The number of timed samples of the row, over all its rounds. Samples of one
        process are not independent trials: to become more certain, add sessions, not samples.""")
    precision: float | None = column("precision", """The uncertainty of the row's time, or of its ratio to the
        baseline if that is larger, as a share: 0.005 means ±0.5 %. It is three standard errors of the median of the rounds,
        but at least the rounding of the clock. It says nothing about another process. It is empty if the row has only one
        round.""")
    launch_ms: float | None = column("launch", """Launch overhead: the host's time to launch one call, in ms, the
        median of ten calls on an idle device. If it exceeds `ms`, a program that only makes these calls waits for the
        host.""", unit="ms")
    build_ms: float | None = column("build", """The time of the provider's first call, and of its factory if it
        has one, in ms: compiling, tuning and loading. It is short if the kernels were already in a compiler's
        cache.""", unit="ms")
    gbps: float | None = column("GB/s", """Algorithmic bytes divided by `ms`, in GB/s (1e9 bytes per second):
        each input read once and each output written once, however much the provider really moves. For rows of a benchmark
        script, they are the bytes that the script counts for the baseline.""", unit="GB/s")
    gbps_p20: float | None = column("p20 GB/s", _QUANTILES, unit="GB/s")
    gbps_p80: float | None = column("p80 GB/s", _QUANTILES, unit="GB/s")
    achieved_gbps: float | None = column("achieved GB/s", """Achieved bandwidth: the bytes that the provider says it
        moves (`moved_bytes=`, or the count of a benchmark script), divided by `ms`, in GB/s. It tells a kernel that moves
        its bytes slowly from one that moves too many.""", unit="GB/s")
    copy_fraction: float | None = column("of copy", """A row's GB/s divided by the GB/s of the case's `copy`
        control. Near 1 the kernel moves its bytes as fast as a copy. A little above 1 is possible: a copy is not the
        fastest way to move bytes at every size.""")
    ceiling_gbps: float | None = column("large copy GB/s", """The copy bandwidth of the device in GB/s, measured once
        per session at a size far beyond its last-level cache (on a host at most 128 MiB). Reads and writes both
        count.""", unit="GB/s")
    tflops: float | None = column("TFLOP/s", """The floating-point operations of a call divided by `ms`, in
        TFLOP/s (1e12 operations per second). The operator (`flops=`) or the script counts them, whatever the provider really
        computes. It is empty if neither does.""", unit="TFLOP/s")
    ceiling_tflops: float | None = column("large matmul TFLOP/s", """The TFLOP/s of the best large matrix product
        of the row's dtype that torch computes on the device, of several shapes, once per session and dtype. float32 products
        use TF32 only if torch's setting allows it. It is empty if the operator states no operations, or if torch cannot
        multiply matrices of this dtype here.""", unit="TFLOP/s")
    sol: float | None = column("sol", """The share of the speed of light: the shortest possible time of a call divided
        by `ms`. The shortest possible time is the larger of two times: the algorithmic bytes divided by `ceiling_gbps`, and
        the floating-point operations, if they are known, divided by `ceiling_tflops`. Both ceilings are measured, so a row
        may come out a little above 1, and well above 1 if it finds its data in the cache.""")
    speedup: float | None = column("speed-up", """The baseline's `ms` divided by the row's `ms`, in the same case
        and session. Above 1 the row is faster. It does not say whether the difference is noise: see `tie`. It is empty if
        the baseline has no time.""")
    max_rel_err: float | None = column("max relative error", """The largest error over all finite elements, as in
        `max_ulp`, but as a relative error: divided by the magnitude at which the unit is taken.""")
    max_ulp: float | None = column("max ulp", """The largest error over all finite elements, against the fp64
        reference, in units in the last place of the output's dtype. The unit is taken at the magnitude of the terms
        that the element is computed from, or at the scale that the operator states. It is empty if the operator judges all
        its outputs itself (`check=`).""", unit="ulp")
    deterministic: bool | None = column("deterministic", """Whether two calls on the same input gave the same
        output, bit for bit. False is not a fault by itself: atomics and split reductions add in an order that varies.""")
    agreement: str = word("agreement", """For rows of a benchmark script: whether the provider returns the same
        as the baseline. `agrees`: no element differs by more than 2 units in the last place of its dtype plus 64 units
        in the last place of float32. `differs by N ulp`: the largest difference, taken at the magnitude of the element, but at
        least at the mean magnitude of the output. `not comparable`: the reason follows. A script has no reference, so
        kbench cannot tell which of two outputs is right.""")
    noticed: str = word("noticed", """For rows of a benchmark script: what kbench noticed in one call, between
        semicolons. `copies-input`: it copies a tensor that it is given. `copies-from-host`: it copies data to the device.
        `draws-random`: it draws random numbers. `waits`: it reads a value of a tensor, so it waits for the device.
        `launches-nothing`: it runs nothing on the device. `allocates`: it allocates its output, and the baseline does not.
        `reuses-memory`: it returns memory that existed before the call, and the baseline does not. `warm`: the script's
        timer leaves the inputs in the cache. `divided-by N`: the script divides its time by N, because a call does the same
        work N times, and so does this row. `tensor-bytes N`: the tensors that it holds
        and returns show that it moves N bytes, and the script counts at most half or at least twice as many. `same-as NAME`:
        it runs the same kernels as that provider.""")
    counted: float | None = column("counted work", """For rows of a benchmark script: the bytes or the floating-point
        operations of one call, computed from the rate that the script reports, such as GB/s.""")
    script_ms: float | None = column("script's time", """For rows of a benchmark script: the median time that
        the script's timer reads by itself, with the arguments that the script gives it; empty if that is a profiler. If it is
        much longer than `ms`, the device waited for the host while the timer timed the call.""", unit="ms")
    kernels: int | None = column("kernels", """How many kernels one call launches; copies and fills by the driver do not
        count. kbench captures one extra call per provider and case in a CUDA graph, after the last round, and reads it. The
        `.kernels.jsonl` beside the CSV has the kernels. It is empty without an NVIDIA device, with `measure: {kernels:
        false}`, for rows of a benchmark script, and if the call cannot be captured: then `reason` says why.""")
    code: str = word("code", """Two digests of what one call launches, with a dash between them: of the machine code of its
        kernels, and of how they are launched. Rows with the same first digest ran the same code. kbench can read the
        machine code of kernels of Triton, torch.compile and C++ extensions. A tilde (~) at the beginning says that the
        call has a kernel of another kind; its name, its registers and the versions of packages stand for its
        code.""")
    peak_bytes: int | None = column("peak memory", """The memory that torch holds at most during one call, beyond
        what it held before the call, in bytes: with an output that the call allocates, without the inputs. Memory that a
        library takes directly from the driver is not seen.""", unit="bytes")
    gap_ms: float | None = column("gaps", """The part of `ms` in which none of the call's kernels, copies and fills
        ran, in ms: the median of the rounds' medians. Only `timer: cupti` sees it.""", unit="ms")
    alloc_ms: float | None = column("allocate", _STAGES, unit="ms")
    h2d_ms: float | None = column("host to device", _STAGES, unit="ms")
    kernel_ms: float | None = column("kernel", _STAGES, unit="ms")
    d2h_ms: float | None = column("device to host", _STAGES, unit="ms")
    timer: str = word("timer", f"""The timer that took the time: {timers_in_words()}. Times of different
        timers cannot be compared.""")
    cache: str = word("cache", """Whether calls found their data in the last-level cache. `cold` flushes the cache
        before each call (`timer: graph` rotates over buffers instead; on a host only the caches of a core are flushed).
        `warm` leaves in the cache what the previous call left there: the default on a host.""")
    device: str = word("device", """The name of the device that measured the row, as its driver reports it. `kbench compare`
        compares rows of different devices only with `--vary device`.""")
    device_index: int | None = column("device index", """The number of the device among those that the worker saw.""")
    device_uuid: str = word("device uuid", """The device's own identifier, if its driver reports one. All sessions of a case
        stay on one device, unless `--spread` is given or a run on a cluster is continued.""")
    sm_mhz: float | None = column("SM MHz", """The clock of the device's processors in MHz: the median of
        readings around the row's rounds. It is empty if NVML does not answer.""", unit="MHz")
    power_w: float | None = column("power", """The power that the device drew, in watts: the median of readings around the
        row's rounds. Near its power limit a device lowers its clock. It is empty if NVML does not answer.""", unit="W")
    temp_c: float | None = column("temp", """The temperature of the device in degrees Celsius: the median of readings
        around the row's rounds. It is empty if NVML does not answer.""", unit="°C")
    throttle: str = word("throttle", """Every reason for which the device lowered its clocks around the row's
        rounds, between semicolons. `idle` is harmless. Any other reason makes the row `throttled`.""")
    other_cores: float | None = column("other cores", """How many cores of the host other processes used on average
        while the row's case was measured. For measurements on the host, 0.1 or less is quiet. It is empty outside
        Linux.""", unit="cores")
    started_at: str = word("started at", """When kbench began to measure the row's case: UTC to the
        second, as ISO 8601. If the provider crashed its worker: when kbench noticed that.""")
    case_hash: str = word("case hash", """A hash of the definition of the case: the operator's source, its sizes,
        bytes and tolerance. Rows that differ in it are `incomparable`.""")
    source_hash: str = word("source hash", """A hash of the code that was measured: the file that defines the
        provider, the files that it names as `sources`, the `.cu` files that these name with the headers that they include, and
        kbench's own kernels that they import. `--resume` and `--append` refuse to mix two hashes.""")
    env_id: str = word("environment", """A hash of the machine that measured the row: its kind of device, driver,
        limits and packages. The `.env.json` beside the CSV describes it. Equal machines have the same hash.""")
    model: str = word("model", """The models whose sizes the case has, between semicolons, if the config names
        models: `llama-3-8b;qwen3-8b`. Models with the same sizes are one case, measured once.""")
    weight: float | None = column("weight", """How often the case occurs: the column `weight` of the file that
        `--shapes` names. Geometric means over cases are weighted by it; a case without a weight counts
        once.""")
    # no columns:
    not_tried: bool = False  # this run gave the configuration up after it took the worker down
    edge: str = ""  # of `kbench check`: the inputs that were checked
    shapes: str = ""  # of those of these inputs that have other shapes than in the case: `x 256x255`
    element: WrongElement | None = None  # of `kbench check`: the first one, if an output has wrong values
    # fmt: on

    def __post_init__(self) -> None:
        self.role, self.status = Role(self.role), Status(self.status)
        timed = self.ms is not None or bool(self.round_ms)
        contradiction = ""
        if self.status is Status.OK and self.ms is None:
            contradiction = "there is no time"
        elif self.status is not Status.OK and timed:
            contradiction = "there is a time"
        elif not self.status.right and not self.reason:
            contradiction = "there is no reason"
        if contradiction:
            who = f"{self.case.label} {self.provider}"
            raise ValueError(f"{who}: the status is {self.status.value}, but {contradiction}")

    @property
    def configuration_name(self) -> str:
        return configuration_name(self.provider, self.params)

    @property
    def of_provider(self) -> bool:
        """Whether it is the row of a provider, and not that of a control."""
        return self.role is Role.PROVIDER

    @property
    def control(self) -> Control | None:
        """The control that it is the row of; None for the row of a provider."""
        return next((control for control in Control if control == self.provider and not self.of_provider), None)

    @property
    def shown_reason(self) -> str:
        """The reason that readers see: a `checked` row need not have one itself."""
        return self.reason or (CHECKED_REASON if self.status is Status.CHECKED else "")

    @property
    def bound_by_arithmetic(self) -> bool:
        """Whether the operations of a call need longer at their ceiling than its bytes at theirs. False if the operator does
        not count its operations, True if a ceiling is not known."""
        if self.tflops is None:
            return False
        if not self.gbps or not self.ceiling_gbps or not self.ceiling_tflops:
            return True
        return self.tflops / self.ceiling_tflops >= self.gbps / self.ceiling_gbps

    def value(self, column: str) -> Any:
        """The value in a column: an axis, a scalar or a choice too, None for one that the case does not have. A case without
        modes is forward."""
        if column in ("operator", "dtype"):
            return getattr(self.case, column)
        if column in COLUMNS:
            return getattr(self, column)
        return self.case.axes.get(column, FORWARD if column == "mode" else None)

    def cells(self) -> dict[str, str]:
        """The row as CSV text: full precision, "" for what is not known."""
        return {name: format_cell(self.value(name)) for name in csv_header(self.case.axes)}


_OF_ROW = [Column(f.name, KINDS[str(f.type)], **f.metadata) for f in fields(Row) if f.metadata]

COLUMNS = {column.name: column for column in (OPERATOR, *_OF_ROW[:2], DTYPE, *_OF_ROW[2:])}
"""Every column by its name, in the order of the file. The operator's axes, scalars and choices stand between `params` and
`dtype`."""

IDENTITY_COLUMNS = ("operator", "provider", "params")
"""The columns before the axes."""

NEEDED_COLUMNS = (*IDENTITY_COLUMNS, "dtype", "role", "session", "status", "reason", "flags", "ms", "timer", "cache", "device")
"""A file without one of these says too little. Another column may be lacking: its cells are read as "not known"."""

CONDITION_COLUMNS = ("device", "timer", "cache")
"""How a row was measured. Times that differ in one of these cannot be compared."""

LINE = "line"
"""The name of the index of a frame that was read from a CSV: the line of the file. No column has this name."""


def csv_header(axes: Iterable[str] = ()) -> list[str]:
    """The header of a results file for an operator with these axes, scalars and choices."""
    return [*IDENTITY_COLUMNS, *axes, *(name for name in COLUMNS if name not in IDENTITY_COLUMNS)]


def axis_columns(names: Sequence[str]) -> tuple[str, ...]:
    """The axes, scalars and choices in the header of a results file: the columns between `params` and `dtype`."""
    return tuple(names[names.index("params") + 1 : names.index("dtype")])

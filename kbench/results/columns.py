"""The columns of a results file, declared once: what a cell holds, its unit, its heading, its explanation.

Rows are read and written by this table (row.py, table.py, notebook/frames.py). The report takes its headings from it,
`kbench explain` and docs/reference their texts. To add a column, add a line here and a field of the same name to `Row`.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kbench.results.timers import TIMERS, timers_in_words


class Kind(enum.Enum):
    """What the cells of a column hold. The value says it in words, for the documentation."""

    NAME = "name"
    """Printable text that is never empty."""
    WORD = "word"
    """Printable text, or nothing."""
    TEXT = "text"
    """Text that may have several lines."""
    DTYPE = "dtype"
    ROLE = "role"
    STATUS = "status"
    FLAGS = "flags"
    """Words between semicolons."""
    SESSION = "count"
    """A whole number from 0, always there."""
    INTEGER = "integer"
    """A whole number, or nothing."""
    NUMBER = "number"
    """A number, or nothing."""
    NUMBERS = "numbers"
    """Numbers between semicolons."""
    BOOLEAN = "boolean"
    """True, False, or nothing."""


@dataclass(frozen=True)
class Column:
    """A column of the CSV.

    unit         of its numbers: "ms", "GB/s"; "" for none
    label        a short heading, without the unit
    explanation  what it means, why it matters, what to do
    optional     files of earlier versions lack it; there its cells are read as "not known"
    """

    name: str
    kind: Kind
    unit: str
    label: str
    explanation: str
    optional: bool = False

    def heading(self, unit: str = "") -> str:
        """The label with the unit, `time (ms)`. `unit` is the one that numbers are shown in, if it is another."""
        shown = unit or self.unit
        return f"{self.label} ({shown})" if shown and shown not in self.label else self.label


_QUANTILES = """The 20th and 80th percentile over all samples of all rounds: in ms for `ms_p20` and `ms_p80`, in GB/s
        for `gbps_p20` and `gbps_p80`. `gbps_p20` is the smaller speed, so it belongs to the longer time, `ms_p80`.
        Pictures draw them as a band. A row whose percentiles lie far apart is `noisy`."""

_STAGES = """The times of the steps around a kernel in a program, in ms. kbench measures them with `measure: {stages:
        true}` on an accelerator. `alloc_ms` is the time to allocate the inputs and an output with the driver.
        `h2d_ms` is the time to copy the inputs to the device, and `d2h_ms` the time to copy an output back. Both copies
        use ordinary (pageable) host memory. All three are wall times on the host, medians of five, taken once per
        case. `kernel_ms` is the row's own `ms`."""

_COLUMNS = (
    Column("operator", Kind.NAME, "", "operator", """What was computed: the name of the operator in the config. The columns
        between `params` and `dtype` are its axes (whole numbers), scalars (numbers, or True and False), choices (words) and
        `mode`, which operators with gradients have. With `dtype` they are the case of the row. `kbench list` shows all
        operators."""),
    Column("provider", Kind.NAME, "", "provider", """The implementation of the operator: its name in the config, or
        the name of a control (the column `role` says which). Each combination of a provider and `params` is one configuration:
        one line of a plot."""),
    Column("params", Kind.WORD, "", "params", """The parameters that the config gave the provider, for example
        `num_warps=4,num_stages=2`. It is empty if the config gave none: the provider then uses its own defaults."""),
    Column("dtype", Kind.DTYPE, "", "dtype", """The dtype of the case, such as float32 or bfloat16. It is the dtype of all
        inputs and outputs for which the operator does not declare another one. A config may say fp16, bf16 and so
        on. The file always has the full name."""),
    Column("role", Kind.ROLE, "", "role", """`provider`, or `control` for the rows that kbench adds to every case: `copy`,
        `empty` and `repeat`. Leave controls out of averages over providers: `query('role == "provider"')`."""),
    Column("session", Kind.SESSION, "", "session", """The number of the session that measured the row, from 0. Each session
        measures the whole sweep in a fresh process. Memory layout, clocks and compilation differ between processes. So a
        session is one trial, however many samples it takes: `kbench compare` counts sessions."""),
    Column("status", Kind.STATUS, "", "status", """How the row ended: ok, checked, unavailable, unsupported, wrong, tampered,
        error, oom, timeout or crashed. Only `ok` rows carry a time. All rows but `ok` and `checked` have a `reason`.
        `kbench explain` has a paragraph on each status."""),
    Column("reason", Kind.TEXT, "", "reason", """Why the row has its status: what is missing, what was wrong and where, the
        exception and its place. It is empty for `ok` and `checked`, unless a flag needs one: `altered-state` names
        the settings that the provider changed, `same-ops` the operators of torch that it shares with the baseline, and
        `suspect` the numbers that contradict each other. It also says if kbench could not record these operators,
        or the kernels of a call."""),
    Column("flags", Kind.FLAGS, "", "flags", """Reasons to distrust the row's time, between semicolons: suspect, unchecked,
        same-ops, host-bound, overhead-bound, l2-resident, throttled, noisy, altered-state. kbench found no
        reason to distrust a row without flags. `kbench explain` has a paragraph on each flag."""),
    Column("ms", Kind.NUMBER, "ms", "time", """The time of one call in milliseconds: the median of the rounds' medians, which
        are in `round_ms`. It includes the timer's own overhead (the case's `empty` control), which kbench records and does
        not subtract."""),
    Column("ms_p20", Kind.NUMBER, "ms", "p20", _QUANTILES),
    Column("ms_p80", Kind.NUMBER, "ms", "p80", _QUANTILES),
    Column("ms_min", Kind.NUMBER, "ms", "shortest time", """The shortest of all samples, in ms. It shows the kernel at
        its best. It falls as the number of samples grows, so compare rows by `ms`."""),
    Column("round_ms", Kind.NUMBERS, "ms", "rounds", """The median of each round, in ms, between semicolons, in the order of
        the rounds. In every round each provider of the case has one turn, in shuffled order. A row whose medians differ
        much is `noisy`."""),
    Column("samples", Kind.INTEGER, "", "samples", """The number of timed samples of the row, over all its rounds. `rep_ms`,
        `rounds` and `precision` of the config set it. Samples of one process are not independent trials: to become more
        certain, add sessions, not samples."""),
    Column("precision", Kind.NUMBER, "", "precision", """The uncertainty of the row's time, or of its ratio to the
        baseline if that is larger, as a share: 0.005 means ±0.5 %. It is three standard errors of the median of the rounds,
        but at least the rounding of the clock. With `measure: {precision: 0.5%}` kbench adds
        rounds until the row has reached this, or has taken `max_ms`. Sessions differ by more: the column says nothing
        about another process. It is empty if the row has only one round.""", optional=True),
    Column("launch_ms", Kind.NUMBER, "ms", "launch", """Launch overhead: the host's time to launch one call, in ms. It is the
        median of ten calls on an idle device. If it exceeds `ms`, a program that only makes these calls waits for the host,
        however fast the kernel is. See the flag `host-bound`."""),
    Column("build_ms", Kind.NUMBER, "ms", "build", """The time of the provider's first call, and of its factory if it
        has one, in ms. It covers compiling, tuning and loading. No other time includes it. It is short if the kernels
        were already in a compiler's cache."""),
    Column("gbps", Kind.NUMBER, "GB/s", "GB/s", """Algorithmic bytes divided by `ms`, in GB/s (1e9 bytes per second).
        Algorithmic bytes are each input read once and each output written once, however much the provider really moves. For
        rows of a benchmark script, they are the bytes that the script counts for the baseline. Within one case, GB/s ranks
        providers exactly as the time does. `copy_fraction` compares it with a copy."""),
    Column("gbps_p20", Kind.NUMBER, "GB/s", "p20 GB/s", _QUANTILES),
    Column("gbps_p80", Kind.NUMBER, "GB/s", "p80 GB/s", _QUANTILES),
    Column("achieved_gbps", Kind.NUMBER, "GB/s", "achieved GB/s", """Achieved bandwidth: the bytes that the provider says it
        moves, divided by `ms`, in GB/s. Only providers that state their bytes (`moved_bytes=`) have it, such as one that
        passes over memory several times, and providers of a benchmark script that counts their bytes. It shows whether a
        kernel is slow because it moves its bytes slowly or because it moves too many bytes."""),
    Column("copy_fraction", Kind.NUMBER, "", "of copy", """A row's GB/s divided by the GB/s of the case's `copy`
        control. Near 1 the kernel moves its bytes as fast as a copy. A little above 1 is possible: a copy is not the
        fastest way to move bytes at every size."""),
    Column("ceiling_gbps", Kind.NUMBER, "GB/s", "large copy GB/s", """The copy bandwidth of the device in GB/s, measured once
        per session at a size far beyond its last-level cache (on a host at most 128 MiB): what memory really delivers
        here. Reads and writes both count."""),
    Column("tflops", Kind.NUMBER, "TFLOP/s", "TFLOP/s", """The floating-point operations of a call divided by `ms`, in
        TFLOP/s (1e12 operations per second). Only operators that state their operations (`flops=`) and benchmark
        scripts that count them have it. The count is the operator's, or the script's for its baseline, whatever the
        provider really computes. Within one case, TFLOP/s ranks providers exactly as the time does. `ceiling_tflops`
        is what the device reaches.""", optional=True),
    Column("ceiling_tflops", Kind.NUMBER, "TFLOP/s", "large matmul TFLOP/s", """The TFLOP/s of the best large matrix product
        of the row's dtype that torch computes on the device. kbench tries several shapes and sizes, once per session and
        dtype. It is empty if the operator states no operations, or if torch cannot multiply matrices of this dtype here.
        float32 products use TF32 only if torch's setting allows it (`torch.backends.cuda.matmul.allow_tf32`), as
        providers do.""", optional=True),
    Column("sol", Kind.NUMBER, "", "sol", """The share of the speed of light: the shortest possible time of a call divided
        by `ms`. The shortest possible time is the larger of two times: the algorithmic bytes divided by `ceiling_gbps`, and
        the floating-point operations divided by `ceiling_tflops`. For operators without `flops=` only the bytes count. Near
        1 there is little left to gain. Both ceilings are measured, so a row may come out a little above 1, and well above 1
        if it finds its data in the cache. It is empty if a ceiling that it needs is not known.""", optional=True),
    Column("speedup", Kind.NUMBER, "", "speed-up", """The baseline's `ms` divided by the row's `ms`, in the same case
        and session. Above 1 the row is faster. It is empty without a baseline, or if the baseline has no time. This
        column does not say whether the difference is inside the noise floor: see `tie`."""),
    Column("max_rel_err", Kind.NUMBER, "", "max relative error", """The largest relative error over all finite
        elements, against the fp64 reference. The error of an element is relative to the magnitude of the terms that
        the element is computed from, or to the scale that the operator states. `max_ulp` is the same error in units
        in the last place of the output's dtype, which can be compared between dtypes. Both are empty if the operator judges
        all its outputs itself (`check=`)."""),
    Column("max_ulp", Kind.NUMBER, "ulp", "max ulp", """The largest error over all finite elements, against the fp64
        reference, in units in the last place of the output's dtype. The unit is taken at the magnitude of the terms
        that the element is computed from, or at the scale that the operator states. `max_rel_err` is the same error
        as a relative error. Both are empty if the operator judges all its outputs itself (`check=`)."""),
    Column("deterministic", Kind.BOOLEAN, "", "deterministic", """Whether two calls on the same input gave the same
        output, bit for bit. False is not a fault by itself: atomics and split reductions add in an order that varies.
        But such a kernel cannot be tested by comparing bits."""),
    Column("agreement", Kind.WORD, "", "agreement", """For rows of a benchmark script: whether the provider returns the same
        as the baseline. `agrees`: no element differs by more than 2 units in the last place of its dtype plus 64 units
        in the last place of float32. `differs by N ulp`: N is the largest difference in units in the last place, taken at the
        magnitude of the element, but at least at the mean magnitude of the output. `not comparable`: the reason follows. A
        script has no reference, so kbench cannot tell which of two outputs is right. It is empty for the baseline and for
        rows of other sources.""", optional=True),
    Column("noticed", Kind.WORD, "", "noticed", """For rows of a benchmark script: what kbench noticed in one call, between
        semicolons. `copies-input`: it copies a tensor that it is given. `copies-from-host`: it copies data to the device.
        `draws-random`: it draws random numbers. `waits`: it reads a value of a tensor, so it waits for the device.
        `allocates`: it allocates its output in the timed call, and the baseline does not. `reuses-memory`: it returns
        memory that existed before the call, such as a buffer or an input that it changes, and the baseline does not.
        `do_bench_cudagraph`: the script times it with this function, which leaves the inputs in the cache. `same-as NAME`: it
        runs the same kernels as that provider, so it may have fallen back to it. `kbench show` turns these words into
        sentences. It is empty for rows of other sources.""", optional=True),
    Column("counted", Kind.NUMBER, "", "counted work", """For rows of a benchmark script: the bytes or the floating-point
        operations that the script counts for one call. kbench computes them from the rate that the script reports, such as
        GB/s. It is empty if the script reports no rate, or one in an unknown unit.""", optional=True),
    Column("script_ms", Kind.NUMBER, "ms", "script's time", """For rows of a benchmark script: the median time that
        `triton.testing.do_bench` reads by itself, with the arguments that the script gives it. If it is much longer than
        `ms`, the device waited for the host while `do_bench` timed the call. It is empty for
        rows of other sources.""", optional=True),
    Column("kernels", Kind.INTEGER, "", "kernels", """How many kernels one call launches. Each launch costs the host time, and
        between two kernels the device waits. Copies and fills by the driver do not count. kbench captures one extra call per
        provider and case in a CUDA graph, after the last round, and reads the graph; the graph never runs. The
        `.kernels.jsonl` beside the CSV has the kernels. It is empty without an NVIDIA device, with `measure: {kernels:
        false}`, for rows of a benchmark script, and if the call cannot be captured: then `reason` says why.""", optional=True),
    Column("code", Kind.WORD, "", "code", """Two digests of what one call launches, with a dash between them. The
        first stands for the machine code of its kernels, the second for how they are launched: grids, blocks, shared memory,
        copies and fills. If two rows have the same first digest, the device ran the same code. kbench can read the
        machine code of kernels of Triton, torch.compile and C++ extensions only. A tilde (~) at the beginning says that the
        call has a kernel of another kind, whose machine code kbench cannot read. The digest then covers its name, its
        registers and the versions of packages instead. Both digests together
        are the name of the call in the `.kernels.jsonl`. It is empty if `kernels` is.""", optional=True),
    Column("peak_bytes", Kind.INTEGER, "bytes", "peak memory", """The memory that torch holds at most during one call, beyond
        what it held before the call, in bytes. It includes an output that the call allocates, and not the inputs. Memory that
        a library takes directly from the driver is not seen. It is recorded in the same step as `kernels`. A call that
        cannot be captured in a CUDA graph has no `kernels`, but it has this value.""", optional=True),
    Column("gap_ms", Kind.NUMBER, "ms", "gaps", """The part of `ms` in which none of the call's kernels, copies and fills
        ran, in ms: the gaps between them. It is the median of the rounds' medians. Only `timer: cupti` sees it.""",
        optional=True),
    Column("alloc_ms", Kind.NUMBER, "ms", "allocate", _STAGES),
    Column("h2d_ms", Kind.NUMBER, "ms", "host to device", _STAGES),
    Column("kernel_ms", Kind.NUMBER, "ms", "kernel", _STAGES),
    Column("d2h_ms", Kind.NUMBER, "ms", "device to host", _STAGES),
    Column("timer", Kind.WORD, "", "timer", f"""The timer that took the time: {timers_in_words(TIMERS)}. Times of different
        timers cannot be compared, and `kbench compare` does not compare them."""),
    Column("cache", Kind.WORD, "", "cache", """Whether calls found their data in the last-level cache. `cold` flushes the cache
        before each call (`timer: graph` rotates over buffers instead; on a host only the caches of a core are flushed).
        `warm` leaves in the cache what the previous call left there: the default on a host. Use the mode that is like your
        program."""),
    Column("device", Kind.WORD, "", "device", """The name of the device that measured the row, as its driver reports
        it. Plots never connect rows of different devices by a line. `kbench compare` compares such rows only with
        `--vary device`."""),
    Column("device_index", Kind.INTEGER, "", "device index", """The number of the device among those that the worker saw. With
        `--devices` it tells the devices of a run apart. After a restart the same number may be another device;
        `device_uuid` does not change."""),
    Column("device_uuid", Kind.WORD, "", "device uuid", """The device's own identifier, if its driver reports one. It tells
        several devices of the same kind apart. All sessions of a case stay on one device unless `--spread` is given."""),
    Column("sm_mhz", Kind.NUMBER, "MHz", "SM MHz", """The clock of the device's processors in MHz: the median of
        readings around the row's rounds. A different clock alone makes the times of two rows differ. It is empty if
        neither NVML nor amdsmi answers."""),
    Column("power_w", Kind.NUMBER, "W", "power", """The power that the device drew, in watts: the median of readings around the
        row's rounds. Near its power limit a device lowers its clock: see `throttle`. It is empty if neither NVML nor
        amdsmi answers."""),
    Column("energy_mj", Kind.NUMBER, "mJ", "energy", """The energy that the device drew in the rounds of the row, divided by
        the number of calls, in millijoules. It includes the work between the calls: the salt, the cache flush and the spin of
        do_bench. So compare it only within a case, where this work is the same. The first round does not count if there are
        others, because it includes the warm-up. It is empty unless rounds take half a second on average (`rep_ms: 2000`),
        because the counter of the device moves only every 0.1 s. It is also empty if the device has no such counter, and
        for rows of a benchmark script.""", optional=True),
    Column("temp_c", Kind.NUMBER, "°C", "temp", """The temperature of the device in degrees Celsius: the median of readings
        around the row's rounds. It is empty if neither NVML nor amdsmi answers."""),
    Column("throttle", Kind.WORD, "", "throttle", """Every reason for which the device lowered its clocks around the row's
        rounds, between semicolons. `idle` is harmless. Any other reason makes the row `throttled`."""),
    Column("other_cores", Kind.NUMBER, "cores", "other cores", """How many cores of the host other processes used
        while the row's case was measured, on average. kbench's own processes and those that a provider starts do not
        count. For measurements on the host, a value of 0.1 or less is quiet. With a higher value, times become longer
        and vary. It is empty if it is not known: outside Linux, and in older files.""", optional=True),
    Column("started_at", Kind.WORD, "", "started at", """When kbench began to measure the row's case: UTC to the
        second, as ISO 8601. If the provider crashed its worker, this is the time at which kbench noticed the crash."""),
    Column("case_hash", Kind.WORD, "", "case hash", """A hash of the definition of the case: the operator's source, its sizes,
        bytes and tolerance. If two files differ in it, they measured different things, and their rows are
        `incomparable`."""),
    Column("source_hash", Kind.WORD, "", "source hash", """A hash of the code that was measured: the file that defines the
        provider, the files that it names as `sources`, the `.cu` files that these name with the headers that they include, and
        kbench's own kernels that they import. If it differs, a change of speed may come from a change of the code. `--resume`
        and `--append` refuse to mix two hashes."""),
    Column("env_id", Kind.WORD, "", "environment", """A hash of the machine that measured the row: its kind of device, driver,
        limits and packages. The `.env.json` beside the CSV describes the machine. Equal machines have the same hash."""),
    Column("model", Kind.WORD, "", "model", """The models whose sizes the case has, between semicolons, if the config names
        models: `llama-3-8b;qwen3-8b`. It does not belong to the case: models with the same sizes are one case, measured
        once. `--where model=llama-3-8b` chooses rows.""", optional=True),
    Column("weight", Kind.NUMBER, "", "weight", """How often the case occurs: the column `weight` of the file that
        `--shapes` names. Geometric means over cases are weighted by it; a case without a weight counts once. It is empty
        for runs without `--shapes`.""", optional=True),
)  # fmt: skip

COLUMNS = {column.name: column for column in _COLUMNS}
"""Every column by its name, in the order of the file. The operator's axes, scalars and choices stand between `params` and
`dtype`."""

NAMES = tuple(COLUMNS)
OPTIONAL_COLUMNS = tuple(column.name for column in _COLUMNS if column.optional)

IDENTITY_COLUMNS = NAMES[: NAMES.index("dtype")]
"""The columns before the axes."""

OUTCOME_COLUMNS = NAMES[NAMES.index("dtype") + 1 :]
"""The columns after the dtype."""

CONDITION_COLUMNS = ("device", "timer", "cache")
"""How a row was measured. Times that differ in one of these cannot be compared."""

LINE = "line"
"""The name of the index of a frame that was read from a CSV: the line of the file. No column has this name."""


def columns_of(*kinds: Kind) -> tuple[str, ...]:
    """The names of the columns that hold one of these kinds, in the order of the file."""
    return tuple(column.name for column in _COLUMNS if column.kind in kinds)


NUMERIC_COLUMNS = columns_of(Kind.NUMBER, Kind.INTEGER)
"""Columns of one number. An empty cell is "not known"."""


def csv_header(axes: Iterable[str] = ()) -> list[str]:
    """The header of a results file for an operator with these axes, scalars and choices."""
    return [*IDENTITY_COLUMNS, *axes, "dtype", *OUTCOME_COLUMNS]


def axis_columns(names: Sequence[str]) -> list[str]:
    """The axes, scalars and choices in the header of a results file: the columns between `params` and `dtype`."""
    found = list(names)
    return found[found.index("params") + 1 : found.index("dtype")]


_UNREADABLE = {0: "\\0", ord("\r"): "\\r"}
"""Characters that a message may contain and a CSV cannot: older csv modules do not quote a lone carriage return."""


def format_cell(value: Any) -> str:
    """A value as CSV text: numbers with full precision, several values between semicolons, "" for "not known"."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, tuple):
        return ";".join(map(format_cell, value))
    return repr(value) if isinstance(value, float) else str(value).translate(_UNREADABLE)


def parse_cell(kind: Kind, cell: str) -> Any:
    """The value in a cell that `format_cell` wrote. None is "not known". Raises ValueError for a cell of another kind."""
    match kind:
        case Kind.NUMBER:
            return float(cell) if cell else None
        case Kind.INTEGER:
            return int(cell) if cell else None
        case Kind.SESSION:
            return int(cell)
        case Kind.BOOLEAN:
            return cell == "True" if cell else None
        case Kind.NUMBERS:
            return tuple(map(float, cell.split(";"))) if cell else ()
        case Kind.FLAGS:
            return tuple(cell.split(";")) if cell else ()
    return cell

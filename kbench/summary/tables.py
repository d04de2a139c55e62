"""The tables of a summary: the standings of providers, their times on every case, and the fastest of each case."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from statistics import median
from typing import Any

from kbench.analysis import Analysis, CaseKey, Outcome, Standing, Winner
from kbench.analysis.cases import values_of
from kbench.analysis.ranking import MARKS, TIED, UNCLEAR
from kbench.results.case import value_order
from kbench.results.row import Row
from kbench.results.timers import DEFAULT_TIMER
from kbench.results.vocabulary import Flag
from kbench.text.numbers import arithmetic_unit, median_share, microseconds, speed, ulps
from kbench.text.table import NO_VALUE, Table

STAGES = {
    "alloc_ms": "allocate",
    "h2d_ms": "host to device",
    "kernel_ms": "kernel",
    "d2h_ms": "device to host",
}

LEAST_OF_CASES = ("weight", "model")
"""Columns of cases that do not belong to their identity, the least important first."""

DEFAULT_CONDITIONS = {"timer": DEFAULT_TIMER, "cache": "cold"}
"""Conditions that titles do not mention."""

UNEQUAL_PEAKS = 4
"""The memory of calls is shown if the largest of two providers differ by more than this factor."""

UNMARKED = " "
"""Stands in the place of a mark, so that numbers are aligned."""


def standings_table(analysis: Analysis, width: int | None = None, *, untimed: bool = False) -> Table:
    """A line for each provider. The means of modes are there if a provider is faster in some only, TFLOP/s where arithmetic
    bounds a case, and memory if it differs much. The least important columns are left out if the table is wider than `width`.
    `untimed`: providers without a time have a line, too."""
    lines = [line for line in analysis.standings if line.timed or untimed]
    names = [line.configuration_name for line in lines]
    columns = {"provider": names}
    if analysis.baseline is not None and not analysis.noise.too_noisy:
        means = [_mean(line) for line in lines]
        columns[f"vs {analysis.baseline}"] = [
            "baseline" if name == analysis.baseline else mean for name, mean in zip(names, means, strict=True)
        ]
        if any(line.varies_by_mode for line in lines):
            for mode in dict.fromkeys(key.case.mode for line in lines for key in line.over_baseline):
                columns[f"mode={mode}"] = [_mean(line, mode) for line in lines]
        with_unclear = any(line.count(Outcome.UNCLEAR) for line in lines)
        columns["faster/tie/slower" + "/?" * with_unclear] = [record(line, with_unclear=with_unclear) for line in lines]
    if not analysis.noise.too_noisy:
        columns["fastest"] = [str(line.sole) for line in lines]
        columns["tied"] = [str(line.shared) for line in lines]
        if any(line.undecided for line in lines):
            columns["?"] = [str(line.undecided) for line in lines]
    columns["cases"] = [str(line.timed) for line in lines]
    tflops = [max(_bound_tflops(line.rows), default=0.0) for line in lines]
    if any(tflops):
        per_s, scale = arithmetic_unit(max(tflops))
        columns[f"best {per_s}"] = [speed(best * scale) if best else NO_VALUE for best in tflops]
        columns["sol"] = [median_share(values_of(line.rows, "sol")) for line in lines]
    else:
        columns["of copy"] = [median_share(values_of(line.rows, "copy_fraction")) for line in lines]
    peaks = [max(values_of(line.rows, "peak_bytes"), default=None) for line in lines]
    used = [peak for peak in peaks if peak]
    if used and max(used) > UNEQUAL_PEAKS * min(used):
        columns["peak MiB"] = [NO_VALUE if peak is None else speed(peak / 2**20) for peak in peaks]
    right = [[row for row in line.rows if not row.status.failed] for line in lines]
    columns["ulp"] = [ulps(max(values_of(rows, "max_ulp"), default=None)) for rows in right]
    return (
        Table.of(columns.items())
        .without_empty(("of copy", "ulp"))
        .without(("cases", "ulp", "?", "tied", "of copy", "sol", "peak MiB"), width)
    )


def _mean(line: Standing, mode: str | None = None) -> str:
    """The mean speed-up, of one mode or of all, with a mark if it is unclear in every case."""
    mean = line.mean(mode)
    if mean is None:
        return NO_VALUE
    outcomes = {pair.outcome for key, pair in line.over_baseline.items() if mode in (None, key.case.mode)}
    return f"{mean:.2f}x{UNCLEAR if outcomes == {Outcome.UNCLEAR} else ''}"


def _bound_tflops(rows: Iterable[Row]) -> list[float]:
    """The TFLOP/s of the rows that arithmetic bounds."""
    return values_of((row for row in rows if row.bound_by_arithmetic), "tflops")


def record(line: Standing, *, with_unclear: bool) -> str:
    """`74/17/3`: in how many cases the provider is faster than the baseline, ties, is slower and, if asked, unclear."""
    outcomes = [Outcome.FASTER, Outcome.TIE, Outcome.SLOWER, *([Outcome.UNCLEAR] if with_unclear else [])]
    return "/".join(str(line.count(outcome)) for outcome in outcomes) if line.over_baseline else NO_VALUE


def _cases(analysis: Analysis) -> tuple[list[CaseKey], Table]:
    """The cases, sorted by dtype and size, because several devices finish cases in any order. And a table of what tells them
    apart, with what they have in common as its title."""
    dtypes = list(dict.fromkeys(key.case.dtype for key in analysis.cases))

    def place(key: CaseKey) -> tuple[Any, ...]:
        sizes = tuple(map(value_order, key.case.axes.values()))
        return (key.case.operator, dtypes.index(key.case.dtype), sizes, key)

    keys = sorted(analysis.cases, key=place)
    axes = dict.fromkeys(name for key in keys for name in key.case.axes)
    columns = {
        "operator": [key.case.operator for key in keys],
        **{name: [str(key.case.axes.get(name, "")) for key in keys] for name in axes},
        "weight": [f"{analysis.weights[key]:g}" if key in analysis.weights else "" for key in keys],
        "model": [_models(chain(*analysis.cases[key].values())) for key in keys],
        "dtype": [key.case.dtype for key in keys],
        "device": [key.device for key in keys],
        "timer": [key.timer for key in keys],
        "cache": [key.cache for key in keys],
    }
    varying = {name: cells for name, cells in columns.items() if len(set(cells)) > 1}
    shared = [
        _named(name, cells[0])
        for name, cells in columns.items()
        if len(set(cells)) == 1 and cells[0] not in ("", DEFAULT_CONDITIONS.get(name))
    ]
    rows = list(zip(*varying.values(), strict=True)) if varying else [()] * len(keys)
    return keys, Table(tuple(varying), rows, ", ".join(shared))


def _models(rows: Iterable[Row]) -> str:
    """The names of the models that have a case."""
    return next((row.model for row in rows if row.model), "").replace(";", ", ")


def _named(name: str, value: str) -> str:
    if name in ("operator", "dtype", "device"):
        return value
    return f"{name} {value}" if name in DEFAULT_CONDITIONS else f"{name}={value}"


def times_table(analysis: Analysis, width: int) -> Table | None:
    """The times in us with the fastest marked: a line for each case, a column for each provider. If that is wider than `width`,
    a line for each provider and a column for each case. None if that is too wide also."""
    keys, cases = _cases(analysis)
    providers = [line.configuration_name for line in analysis.standings if line.timed]
    winners = {winner.key: winner for winner in analysis.winners}
    lost = {}
    for row in analysis.rows:
        name = row.case, row.configuration_name
        if row.of_provider and row.status.failed:
            lost[name] = row.status.value
        elif row.of_provider and row.ms is not None:
            lost.setdefault(name, Flag.SUSPECT.value)
    times = [
        [
            _time(analysis, winners[key], provider)
            if provider in analysis.cases[key]
            else lost.get((key.case, provider), NO_VALUE) + UNMARKED
            for provider in providers
        ]
        for key in keys
    ]
    used = {cell[-1] for cells in times for cell in cells if cell[-1] in MARKS and cell[0].isdigit()}
    sessions = len({row.session for row in analysis.rows})
    pooled = f", median of {sessions} sessions" if sessions > 1 else ""
    title = f"{cases.title}: time in us{pooled}{_meaning(used)}"
    heads = [f"{provider}{UNMARKED}" for provider in providers]
    rows = [[*case, *cells] for case, cells in zip(cases.rows, times, strict=True)]
    table = Table((*cases.header, *heads), rows, title).without(LEAST_OF_CASES, width)
    if table.width <= width:
        return table
    labels = []
    for case in cases.rows:
        named = zip(cases.header, case, strict=True)
        labels.append(" ".join(_named(*part) for part in named if part[0] not in LEAST_OF_CASES) + UNMARKED)
    lines = [[provider, *column] for provider, column in zip(providers, zip(*times, strict=True), strict=True)]
    turned = Table(("provider", *labels), lines, title)
    return turned if turned.width <= width else None


def _time(analysis: Analysis, won: Winner, provider: str) -> str:
    configurations = analysis.cases[won.key]
    ranked = len(configurations) > 1 and not analysis.noise.too_noisy
    mark = won.mark if ranked and provider in won.first else UNMARKED
    return microseconds(median(row.ms or 0.0 for row in configurations[provider])) + mark


def _meaning(used: set[str]) -> str:
    """The meaning of marks, in parentheses; empty for none."""
    signs = ", ".join(f"{sign} {words}" for sign, words in MARKS.items() if sign in used)
    return f" ({signs})" if signs else ""


def details_table(analysis: Analysis, width: int | None = None) -> Table:
    """One line per case: the fastest provider with those that tie (`cuda ~ triton`) or may be as fast (`cuda ? triton`), and
    its numbers. The least important columns are left out if the table is wider than `width`."""
    keys, cases = _cases(analysis)
    winner_by_key = {winner.key: winner for winner in analysis.winners}
    winners = [winner_by_key[key] for key in keys]
    bound = [tflops for winner in winners for tflops in _bound_tflops(winner.rows)]
    columns, units, scale = ("gbps", "copy_fraction"), ("GB/s", "of copy"), 1.0
    if bound:
        per_s, scale = arithmetic_unit(max(bound))
        columns, units = ("tflops", "sol"), (per_s, "sol")
    rows = [
        [
            *case,
            _fastest(winner, too_noisy=analysis.noise.too_noisy),
            microseconds(winner.ms),
            speed(median(speeds) * scale) if (speeds := values_of(winner.rows, columns[0])) else NO_VALUE,
            median_share(values_of(winner.rows, columns[1])),
            _speedup(analysis, winner),
            ulps(max(values_of(winner.rows, "max_ulp"), default=None)),
            ", ".join(dict.fromkeys(flag for row in winner.rows for flag in row.flags)),
        ]
        for case, winner in zip(cases.rows, winners, strict=True)
    ]
    over = f"vs {analysis.baseline}" if analysis.baseline else "speed-up"
    used = {sign for row in rows for sign in row[len(cases.header)].split()} & {TIED, UNCLEAR}
    title = f"{cases.title}: the fastest of each case{_meaning(used)}" if rows else ""
    table = Table((*cases.header, "fastest", "us", *units, over, "ulp", "flags"), rows, title)
    least = ("flags", "ulp", "GB/s", "of copy", "sol", *LEAST_OF_CASES)
    return table.without_empty(("GB/s", "of copy", "speed-up", "ulp", "flags")).without(least, width)


def _fastest(won: Winner, *, too_noisy: bool) -> str:
    winner, *others = won.first
    if not others:
        return winner
    if too_noisy:
        return f"{winner} {UNCLEAR}"
    rivals = others[0] if len(others) == 1 else f"{len(others)} others"
    return f"{winner} {won.mark} {rivals}"


def _speedup(analysis: Analysis, won: Winner) -> str:
    if analysis.baseline is None or analysis.baseline not in analysis.cases[won.key]:
        return NO_VALUE
    if analysis.noise.too_noisy:
        return "noisy"
    if won.configuration_name == analysis.baseline:
        return "baseline"
    pair = analysis.compare_pair(won.key, analysis.baseline, won.configuration_name)
    if pair.outcome is Outcome.UNCLEAR:
        return "unclear"
    return "tie" if pair.outcome is Outcome.TIE else f"{1 / pair.ratio:.2f}x"


def stages_table(rows: Sequence[Row]) -> Table:
    """The times in ms of allocation, copies and kernel: a line for each case and provider whose stages were measured."""
    measured = [row for row in rows if row.of_provider and row.alloc_ms is not None]
    axes = list(dict.fromkeys(name for row in measured for name in row.case.axes))
    lines = [
        [
            *(str(row.case.axes[name]) for name in axes),
            row.case.dtype,
            row.configuration_name,
            *(NO_VALUE if (ms := getattr(row, name)) is None else f"{ms:.3f}" for name in STAGES),
        ]
        for row in measured
    ]
    return Table((*axes, "dtype", "provider", *STAGES.values()), lines, "Stages, ms:")

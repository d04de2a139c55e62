"""The tables of a summary: the standing of every provider, the time of every provider on every case, and the fastest provider
of each case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any

from kbench.analysis import Analysis, CaseKey, Outcome, Standing, Winner
from kbench.results.case import Case, value_order
from kbench.results.row import Row
from kbench.results.vocabulary import Flag, Role
from kbench.summary.case_columns import CaseColumns, Notes, axes_of_words
from kbench.summary.sentences import copy_share, light_share, ulps
from kbench.text.terminal import GAP, arithmetic_unit, microseconds, speed

STAGES = {
    "alloc_ms": "allocate",
    "h2d_ms": "host to device",
    "kernel_ms": "kernel",
    "d2h_ms": "device to host",
}

TEXT_COLUMNS = ("operator", "model", "dtype", "provider", "flags", "device", "timer", "cache")
"""Columns that hold text."""

WON, TIED, UNCLEAR, UNMARKED = "*", "~", "?", " "

_NO_VALUE = "-"
"""The cell of a value that a row lacks."""

MARKS = {WON: "fastest", TIED: "tie", UNCLEAR: "unclear"}


@dataclass(frozen=True)
class Table:
    """Cells as text. `title` names what all rows have in common. `text_columns` hold words; all other columns hold numbers."""

    header: tuple[str, ...]
    rows: list[list[str]]
    title: str = ""
    text_columns: tuple[str, ...] = TEXT_COLUMNS

    @property
    def numeric(self) -> tuple[str, ...]:
        return tuple(name for name in self.header if name not in self.text_columns)

    @property
    def width(self) -> int:
        """The width of the printed table in characters."""
        columns = zip(self.header, *self.rows, strict=True)
        return sum(max(map(len, column)) for column in columns) + GAP * (len(self.header) - 1)

    def without(self, least: Sequence[str], width: int | None) -> Table:
        """The table without some of the columns `least`. It drops them one by one until the table fits the width."""
        table = self
        for name in least:
            if width is None or table.width <= width:
                break
            table = table._without_column(name)
        return table

    def known(self, names: Sequence[str]) -> Table:
        """The table without those of the columns `names` that say nothing in any row, such as the errors of scripts."""
        table = self
        for name in names:
            cells = {row[self.header.index(name)] for row in self.rows} if name in self.header else set()
            table = table._without_column(name) if cells == {_NO_VALUE} else table
        return table

    def _without_column(self, name: str) -> Table:
        if name not in self.header:
            return self
        place = self.header.index(name)
        rows = [[*row[:place], *row[place + 1 :]] for row in self.rows]
        return replace(self, header=(*self.header[:place], *self.header[place + 1 :]), rows=rows)


# -- standings


def standings_table(found: Analysis, width: int | None = None) -> Table:
    """A line for each provider: its mean speed-up over the baseline, the numbers of cases in which it is faster, ties and is
    slower, the number of cases in which it is the fastest, its share of the copy control (if arithmetic bounds a
    case: the largest TFLOP/s and the share of the speed of light), and its largest error. The least important columns
    are left out if the table is wider than `width`."""
    lines = [line for line in found.standings if line.timed]
    columns: dict[str, Callable[[Standing], str]] = {"provider": lambda line: line.configuration_name}
    if found.baseline is not None and not found.noise.too_noisy:
        columns[f"vs {found.baseline}"] = lambda line: _mean(line, found)
        with_unclear = any(line.count(Outcome.UNCLEAR) for line in lines)
        columns["faster/tie/slower" + "/?" * with_unclear] = lambda line: record(line, with_unclear=with_unclear)
    if not found.noise.too_noisy:
        columns["fastest"] = lambda line: str(line.sole)
        columns["tied"] = lambda line: str(line.shared)
        if any(line.undecided for line in lines):
            columns["?"] = lambda line: str(line.undecided)
    columns["cases"] = lambda line: str(line.timed)
    if any(line.tflops is not None for line in lines):
        per_s, scale = arithmetic_unit(max(line.tflops or 0.0 for line in lines))
        columns[f"best {per_s}"] = lambda line: "-" if line.tflops is None else speed(line.tflops * scale)
        columns["sol"] = lambda line: light_share([] if line.sol is None else [line.sol])
    else:
        columns["of copy"] = lambda line: copy_share([] if line.copy_fraction is None else [line.copy_fraction])
    columns["ulp"] = lambda line: ulps(line.max_ulp)
    rows = [[say(line) for say in columns.values()] for line in lines]
    return (
        Table(tuple(columns), rows)
        .known(("of copy", "ulp"))
        .without(("cases", "ulp", "?", "tied", "of copy", "sol"), width)
    )


def _mean(line: Standing, found: Analysis) -> str:
    if line.configuration_name == found.baseline:
        return "baseline"
    if line.geomean is None:
        return "-"
    unclear = line.count(Outcome.UNCLEAR) == len(line.over_baseline)
    return f"{line.geomean:.2f}x{UNCLEAR * unclear}"


def record(line: Standing, *, with_unclear: bool) -> str:
    """`74/17/3`: the numbers of cases in which the provider is faster than the baseline, ties and is slower; `with_unclear`
    adds the cases in which this is unclear."""
    outcomes = [Outcome.FASTER, Outcome.TIE, Outcome.SLOWER, *([Outcome.UNCLEAR] if with_unclear else [])]
    return "/".join(str(line.count(outcome)) for outcome in outcomes) if line.over_baseline else "-"


# -- times


def times_tables(found: Analysis, width: int | None = None) -> list[Table]:
    """The time of every provider on every case, in us, with the fastest marked.

    There is a column for each provider, in one table or, if that is too wide, in a table for each dtype. If these are too wide
    as well, there is a column for each case. The list is empty if no layout fits `width`.
    """
    cases = _in_order([(_case(found, key), key) for key in found.cases])
    whole = _row_per_case(found, cases).without(tuple(_notes(found)), width)
    if width is None or whole.width <= width:
        return [whole]
    by_dtype = [[case for case in cases if case[0].dtype == dtype] for dtype in _dtypes(cases)]
    parts = [_row_per_case(found, part).without(tuple(_notes(found)), width) for part in by_dtype]
    if all(part.width <= width for part in parts):
        return parts
    per_provider = _row_per_provider(found, cases)
    return [per_provider] if per_provider.width <= width else []


def _notes(found: Analysis) -> Notes:
    """The weights and the models of the cases, the least important first."""
    return {"weight": {key: f"{weight:g}" for key, weight in found.weights.items()}, "model": found.models}


KeyedCases = Sequence[tuple[Case, CaseKey]]


def _in_order(cases: KeyedCases) -> KeyedCases:
    """Cases sorted by dtype and size, because several devices finish cases in any order."""
    dtypes = _dtypes(cases)

    def place(named: tuple[Case, CaseKey]) -> tuple[Any, ...]:
        sizes = tuple(map(value_order, named[0].axes.values()))
        return (named[0].operator, dtypes.index(named[0].dtype), sizes, named[1])

    return sorted(cases, key=place)


def _dtypes(cases: KeyedCases) -> list[str]:
    return list(dict.fromkeys(case.dtype for case, _ in cases))


def _row_per_case(found: Analysis, cases: KeyedCases) -> Table:
    """A table with a line for each case."""
    columns_of_cases, configurations, cell = CaseColumns(cases, _notes(found)), _timed_names(found), _Cells(found)
    rows = [
        [*columns_of_cases.cells(case, key), *(cell(key, configuration) for configuration in configurations)]
        for case, key in cases
    ]
    header = (*columns_of_cases.names, *(f"{configuration}{UNMARKED}" for configuration in configurations))
    return Table(header, rows, _title(columns_of_cases, rows, found), (*TEXT_COLUMNS, *columns_of_cases.words))


def _row_per_provider(found: Analysis, cases: KeyedCases) -> Table:
    """A table with a line for each provider."""
    columns_of_cases, cell = CaseColumns(cases), _Cells(found)
    header = ("provider", *(_named(columns_of_cases.names, columns_of_cases.cells(*case)) + UNMARKED for case in cases))
    rows = [[configuration, *(cell(key, configuration) for _, key in cases)] for configuration in _timed_names(found)]
    return Table(header, rows, _title(columns_of_cases, rows, found))


def _timed_names(found: Analysis) -> list[str]:
    return [line.configuration_name for line in found.standings if line.timed]


def _title(columns_of_cases: CaseColumns, rows: list[list[str]], found: Analysis) -> str:
    """What all cases share, what a time is, and the meaning of the marks that occur."""
    used = {cell[-1] for row in rows for cell in row if cell[-1:] in MARKS and cell[:1].isdigit()}
    sessions = len({row.session for row in found.rows})
    pooled = f", median of {sessions} sessions" if sessions > 1 else ""
    return f"{columns_of_cases.shared}: time in us{pooled}{_meaning(used)}"


def _meaning(used: set[str]) -> str:
    """The meaning of marks, in parentheses; empty for none."""
    marks = ", ".join(f"{mark} {words}" for mark, words in MARKS.items() if mark in used)
    return f" ({marks})" if marks else ""


class _Cells:
    """The cells of a table of times: the time of a provider on a case with its mark, or the reason for a missing time."""

    def __init__(self, found: Analysis) -> None:
        self.found = found
        self.won = {won.key: won for won in found.winners}
        self.without: dict[tuple[Any, str], str] = {}
        for row in found.rows:
            if row.role == Role.PROVIDER and (row.status.failed or row.ms is not None):
                self.without[row.case, row.configuration_name] = row.status.value if row.status.failed else Flag.SUSPECT

    def __call__(self, key: CaseKey, configuration: str) -> str:
        rows = self.found.cases[key].get(configuration)
        if not rows:
            return self.without.get((key.case, configuration), "-") + UNMARKED
        ranked = len(self.found.cases[key]) > 1 and not self.found.noise.too_noisy
        return microseconds(median(row.ms or 0.0 for row in rows)) + (
            _mark(self.won[key], configuration) if ranked else UNMARKED
        )


def _named(names: Sequence[str], values: Sequence[str]) -> str:
    return " ".join(value if name == "dtype" else f"{name}={value}" for name, value in zip(names, values, strict=True))


def _case(found: Analysis, key: CaseKey) -> Case:
    return next(iter(found.cases[key].values()))[0].case


def _mark(won: Winner, configuration: str) -> str:
    if configuration not in (won.configuration_name, *won.tied, *won.unclear):
        return UNMARKED
    return UNCLEAR if won.unclear else TIED if won.tied else WON


# -- details


def details_table(found: Analysis, width: int | None = None) -> Table:
    """One line per case: the fastest provider with those that tie (`cuda ~ triton`) or may be as fast (`cuda ? triton`), its
    time, GB/s and share of the copy control (or TFLOP/s and share of the speed of light), speed-up over the baseline, largest
    error, and flags if any winner has one. The least important columns are left out if the table is wider than `width`."""
    cases = _in_order([(won.case, won.key) for won in found.winners])
    columns_of_cases, of = CaseColumns(cases, _notes(found)), {won.key: won for won in found.winners}
    bound = [row.tflops or 0.0 for won in found.winners for row in won.rows if row.bound_by_arithmetic]
    per_s, scale = arithmetic_unit(max(bound, default=0.0))
    speeds = partial(_arithmetic, scale=scale) if bound else _traffic
    lines, notes = [], []
    for won in (of[key] for _, key in cases):
        lines.append(
            [
                *columns_of_cases.cells(won.case, won.key),
                _fastest(won, too_noisy=found.noise.too_noisy),
                microseconds(won.ms),
                *speeds(won.rows),
                _speedup(found, won),
                ulps(max((row.max_ulp for row in won.rows if row.max_ulp is not None), default=None)),
            ]
        )
        notes.append(", ".join(dict.fromkeys(flag for row in won.rows for flag in row.flags)))
    over = f"vs {found.baseline}" if found.baseline else "speed-up"
    header = (
        *columns_of_cases.names,
        "fastest",
        "us",
        *((per_s, "sol") if bound else ("GB/s", "of copy")),
        over,
        "ulp",
    )
    if any(notes):
        header = (*header, "flags")
        lines = [[*line, flags] for line, flags in zip(lines, notes, strict=True)]
    used = {sign for line in lines for sign in line[len(columns_of_cases.names)].split()} & {TIED, UNCLEAR}
    title = f"{columns_of_cases.shared}: the fastest of each case{_meaning(used)}" if lines else ""
    least = ("flags", "ulp", "GB/s", "of copy", "sol", *_notes(found))
    text_columns = (*TEXT_COLUMNS, *columns_of_cases.words, "fastest")
    table = Table(header, lines, title, text_columns).known(("GB/s", "of copy", "speed-up", "ulp"))
    return table.without(least, width)


def _traffic(rows: Sequence[Row]) -> tuple[str, str]:
    copies = [row.copy_fraction for row in rows if row.copy_fraction]
    known = [row.gbps for row in rows if row.gbps is not None]
    return f"{median(known):.1f}" if known else "-", copy_share(copies)


def _arithmetic(rows: Sequence[Row], scale: float) -> tuple[str, str]:
    known = [row.tflops for row in rows if row.tflops is not None]
    lights = [row.sol for row in rows if row.sol is not None]
    return speed(median(known) * scale) if known else "-", light_share(lights)


def _fastest(won: Winner, *, too_noisy: bool) -> str:
    others, sign = (won.unclear + won.tied, "?") if won.unclear else (won.tied, "~")
    if not others:
        return won.configuration_name
    if too_noisy:
        return f"{won.configuration_name} ?"
    return f"{won.configuration_name} {sign} {others[0] if len(others) == 1 else f'{len(others)} others'}"


def _speedup(found: Analysis, won: Winner) -> str:
    if found.baseline is None or found.baseline not in found.cases[won.key]:
        return "-"
    if found.noise.too_noisy:
        return "noisy"
    if won.configuration_name == found.baseline:
        return "baseline"
    pair = found.compare_pair(won.key, found.baseline, won.configuration_name)
    if pair.outcome is Outcome.UNCLEAR:
        return "unclear"
    return "tie" if pair.outcome is Outcome.TIE else f"{1 / pair.ratio:.2f}x"


def stages_table(rows: Sequence[Row]) -> Table:
    """The times in ms of allocation, copies and kernel: a line for each case and provider whose stages were measured."""
    measured = [row for row in rows if row.role == Role.PROVIDER and row.alloc_ms is not None]
    axes = list(dict.fromkeys(name for row in measured for name in row.case.axes))
    return Table(
        (*axes, "dtype", "provider", *STAGES.values()),
        [
            [
                *(str(row.case.axes[name]) for name in axes),
                row.case.dtype,
                row.configuration_name,
                *("-" if (ms := getattr(row, name)) is None else f"{ms:.3f}" for name in STAGES),
            ]
            for row in measured
        ],
        "Stages, ms:",
        (*TEXT_COLUMNS, *axes_of_words([row.case for row in measured])),
    )

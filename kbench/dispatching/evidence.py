"""What results files say about every case: how much slower than the best each provider is, and where it may not be chosen."""

from __future__ import annotations

import keyword
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbench.analysis import Analysis, CaseKey, Outcome
from kbench.analysis.files import ResultsFile
from kbench.analysis.winners import winner
from kbench.errors import ResultsError, UsageError
from kbench.results.case import Case, Value, value_order
from kbench.results.vocabulary import Flag, Role, Status

Point = Mapping[str, Value]
"""The values of the arguments at one case."""

Regrets = NDArray[np.float64]
"""Of shape (cases, providers): the share by which a provider takes longer than the best. It is infinite where the provider may
not be chosen."""


@dataclass(frozen=True)
class Argument:
    """An argument of `choose`. `words` are the measured values of an argument that is a word or a boolean; a number has
    none."""

    name: str
    type_name: str
    words: tuple[Value, ...] = ()


@dataclass(frozen=True)
class Gap:
    """Where a provider may not be chosen, although another may: the number of cases, the label of the first, and what
    happened to the provider there."""

    cases: int
    example: str
    outcome: str


@dataclass(frozen=True)
class Evidence:
    """The cases of one operator.

    arguments  what the function decides on, in the order of its signature, the dtype last
    fixed      words, booleans and fractions that have one value in all cases; they are no arguments
    points     the values of the arguments, by case
    providers  the configurations that may be chosen in at least one case
    measured   the regrets as they were measured, ties included
    decided    the regrets of which kbench is certain: 0 for a tie and for an unclear difference
    possible   the regrets that noise does not rule out: 0 for a tie only
    omitted    the cases of the files in which no provider may be chosen; the tables lack them
    gaps       by provider, where it may not be chosen; providers that may be chosen everywhere are not there
    """

    operator: str
    arguments: tuple[Argument, ...]
    fixed: Mapping[str, Value]
    points: tuple[Point, ...]
    providers: tuple[str, ...]
    measured: Regrets
    decided: Regrets
    possible: Regrets
    omitted: tuple[str, ...] = ()
    gaps: Mapping[str, Gap] = field(default_factory=dict)

    @property
    def numbers(self) -> list[str]:
        return [argument.name for argument in self.arguments if not argument.words]

    def values(self, name: str) -> list[float]:
        """The values of a number, by case. Sizes are whole numbers."""
        return [value for point in self.points if isinstance(value := point[name], (int, float))]

    def shape(self, index: int) -> tuple[Value, ...]:
        """The numbers of a case, without its words such as the dtype."""
        return tuple(self.points[index][name] for name in self.numbers)

    def part(self, cases: Sequence[int]) -> Evidence:
        """The same for some of the cases. The arguments keep all their words."""
        chosen = list(cases)
        points = tuple(self.points[index] for index in chosen)
        tables = (self.measured[chosen], self.decided[chosen], self.possible[chosen])
        return Evidence(self.operator, self.arguments, self.fixed, points, self.providers, *tables)


class _Regret(NamedTuple):
    """The regret of a provider at a case, as in the tables of Evidence."""

    measured: float
    decided: float
    possible: float


def evidence_of(sources: Sequence[ResultsFile]) -> Evidence:
    """The evidence in results files.

    Raises UsageError if the files hold several operators or devices, a case that was measured in several ways, or an axis
    whose name cannot be an argument; ResultsError if noise hides the winners, or if nothing was timed.
    """
    _check_one_operator_and_device(sources)
    found: dict[Case, tuple[Case, dict[str, _Regret], str]] = {}
    for source in sources:
        if source.analysis.noise.too_noisy:
            raise ResultsError(f"{source.path}: {source.analysis.noise.sentence()}; measure again on a quiet machine")
        for key, case, regrets in _regrets(source.analysis):
            where = f"{source.path} ({', '.join(filter(None, key[1:]))})"
            if case in found:
                raise UsageError(
                    f"{case.label} was measured twice: in {found[case][2]} and in {where}; choose one of them with --where "
                    "timer=NAME or --where cache=NAME, or name one of the files"
                )
            found[case] = case, regrets, where
    if not found:
        named = ", ".join(str(source.path) for source in sources)
        raise ResultsError(f"{named}: no provider has a time that can be trusted; kbench show says why")
    in_order = sorted(
        found.values(), key=lambda entry: _place(entry[0])
    )  # not in that of the files: the same tree for any
    cases = [case for case, _, _ in in_order]
    arguments, fixed = _arguments(cases)
    names = sorted({name for _, regrets, _ in found.values() for name in regrets})
    nothing = _Regret(math.inf, math.inf, math.inf)
    table = np.array([[regrets.get(name, nothing) for name in names] for _, regrets, _ in in_order])
    omitted = {
        row.case: row.case.label
        for source in sources
        for row in source.analysis.rows
        if row.role == Role.PROVIDER and row.case not in found
    }
    points = tuple(
        {a.name: case.dtype if a.name == "dtype" else case.axes[a.name] for a in arguments} for case in cases
    )
    measured, decided, possible = np.moveaxis(table, 2, 0)
    return Evidence(
        operator=cases[0].operator,
        arguments=arguments,
        fixed=fixed,
        points=points,
        providers=tuple(names),
        measured=measured,
        decided=decided,
        possible=possible,
        omitted=tuple(omitted.values()),
        gaps=dict(_gaps(sources, names, [(case, regrets) for case, regrets, _ in in_order])),
    )


def _gaps(
    sources: Sequence[ResultsFile], names: Sequence[str], cases: Sequence[tuple[Case, Mapping[str, _Regret]]]
) -> Iterator[tuple[str, Gap]]:
    """The gap of each provider that has one."""
    outcomes: dict[tuple[Any, str], str] = {}
    for row in (row for source in sources for row in source.analysis.rows if row.role == Role.PROVIDER):
        if row.status is not Status.OK:
            outcomes.setdefault((row.case, row.configuration_name), row.status.value)
        elif Flag.SUSPECT in row.flags:
            outcomes.setdefault((row.case, row.configuration_name), Flag.SUSPECT.value)
    for name in names:
        lacking = [case for case, regrets in cases if name not in regrets]
        if lacking:
            outcome = outcomes.get((lacking[0], name), "not measured")
            yield name, Gap(len(lacking), lacking[0].label, outcome)


def _place(case: Case) -> tuple[Any, ...]:
    return case.dtype, [(name, value_order(value)) for name, value in case.axes.items()]


def _check_one_operator_and_device(sources: Sequence[ResultsFile]) -> None:
    where = {row.case.operator: source.path for source in sources for row in source.analysis.rows}
    devices = sorted({row.device for source in sources for row in source.analysis.rows if row.ms is not None})
    if len(devices) > 1:
        raise UsageError(
            f"the rows are of several devices ({', '.join(devices)}), but a dispatch function serves only "
            "one; choose the device with --where device=NAME"
        )
    if len(where) > 1:
        named = ", ".join(f"{operator} in {path}" for operator, path in sorted(where.items()))
        raise UsageError(
            f"the rows are of several operators ({named}), but a dispatch function serves only one; "
            "choose the operator with --where operator=NAME"
        )


def _regrets(found: Analysis) -> Iterator[tuple[CaseKey, Case, dict[str, _Regret]]]:
    """Of each case: the measured and the decided regret of every provider that may be chosen. One that failed in one of the
    sessions may not."""
    failed = {
        (row.case, row.configuration_name)
        for row in found.rows
        if row.role == Role.PROVIDER and row.status is not Status.OK
    }
    for key, configurations in found.cases.items():
        usable = {name: rows for name, rows in configurations.items() if (key.case, name) not in failed}
        if not usable:
            continue
        best = winner(key, usable, found.compare_pair)
        regrets = {best.configuration_name: _Regret(0.0, 0.0, 0.0)}
        for name in usable.keys() - regrets.keys():
            pair = found.compare_pair(key, best.configuration_name, name)
            slower = max(0.0, pair.ratio - 1)
            decided = slower if pair.outcome is Outcome.SLOWER else 0.0
            regrets[name] = _Regret(slower, decided, 0.0 if pair.outcome is Outcome.TIE else slower)
        yield key, best.case, regrets


def _arguments(cases: Sequence[Case]) -> tuple[tuple[Argument, ...], dict[str, Value]]:
    """The arguments, and the values that are the same in all cases. Sizes and the dtype are always arguments."""
    arguments, fixed = [], {}
    names = list(dict.fromkeys(name for case in cases for name in case.axes))
    for name in names:
        if lacking := next((case for case in cases if case.axes.get(name) is None), None):
            raise UsageError(
                f"the case {lacking.label} lacks {name}, which other cases have; run kbench dispatch once for each file"
            )
        values = dict.fromkeys(case.axes[name] for case in cases)
        sizes = all(type(value) is int for value in values)
        if len(values) == 1 and not sizes:
            fixed[name] = next(iter(values))
            continue
        if not name.isidentifier() or keyword.iskeyword(name):
            raise UsageError(f"the axis {name!r} cannot be the name of an argument in Python; rename the column")
        words = () if all(isinstance(v, (int, float)) and type(v) is not bool for v in values) else tuple(values)
        type_name = "int" if sizes else "float" if not words else "bool" if type(words[0]) is bool else "str"
        arguments.append(Argument(name, type_name, words))
    dtypes = tuple(sorted({case.dtype for case in cases}))
    return (*arguments, Argument("dtype", "str", dtypes)), fixed


def features(evidence: Evidence) -> dict[tuple[str, ...], NDArray[np.float64]]:
    """What a threshold can be on, by the names of its factors: each number that varies, and each product of two sizes."""
    columns = {name: np.array(evidence.values(name), dtype=float) for name in evidence.numbers}
    varying = [name for name, column in columns.items() if len(set(column)) > 1]
    sizes = [
        argument.name for argument in evidence.arguments if argument.type_name == "int" and argument.name in varying
    ]
    single = {(name,): columns[name] for name in varying}
    return single | {(one, other): columns[one] * columns[other] for one, other in combinations(sizes, 2)}

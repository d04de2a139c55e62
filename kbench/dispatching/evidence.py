"""What results files say about every case: how much slower than the best each provider is, and where it may not be chosen."""

from __future__ import annotations

import keyword
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from kbench.analysis import Analysis, CaseKey, Outcome
from kbench.analysis.files import ResultsFile
from kbench.errors import ResultsError, UsageError
from kbench.results.case import Case, Value, value_order
from kbench.results.vocabulary import Flag, Status

Point = Mapping[str, Value]
"""The values of the arguments at one case."""

Regrets = NDArray[np.float64]
"""Of shape (cases, providers): the share by which a provider takes longer than the best. It is infinite where the provider may
not be chosen."""


@dataclass(frozen=True)
class Argument:
    """An argument of `choose`. `words` are the measured values of a word or a boolean; a number has none."""

    name: str
    type_name: str
    words: tuple[Value, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """The cases of one operator.

    arguments  what the function decides on, in the order of its signature, the dtype last
    fixed      words, booleans and fractions that have one value in all cases; they are no arguments
    points     the values of the arguments, by case
    providers  the configurations that may be chosen in at least one case
    measured   the regrets as they were measured, ties included
    decided    the regrets of which kbench is certain: 0 for a tie and for an unclear difference
    omitted    the cases of the files in which no provider may be chosen; the tables lack them
    gaps       by provider: in how many cases it may not be chosen although another may, with one of them and what happened
    """

    operator: str
    arguments: tuple[Argument, ...]
    fixed: Mapping[str, Value]
    points: tuple[Point, ...]
    providers: tuple[str, ...]
    measured: Regrets
    decided: Regrets
    omitted: tuple[str, ...] = ()
    gaps: Mapping[str, str] = field(default_factory=dict)

    @property
    def numbers(self) -> list[str]:
        return [argument.name for argument in self.arguments if not argument.words]

    def values(self, name: str) -> list[float]:
        """The values of a number, by case. Sizes are whole numbers."""
        return [value for point in self.points if isinstance(value := point[name], (int, float))]

    def shape(self, case: int) -> tuple[Value, ...]:
        """The numbers of a case, without its words such as the dtype."""
        return tuple(self.points[case][name] for name in self.numbers)

    def words(self, case: int) -> tuple[Value, ...]:
        """The words and booleans of a case."""
        return tuple(self.points[case][argument.name] for argument in self.arguments if argument.words)

    def part(self, cases: Sequence[int]) -> Evidence:
        """The same for some of the cases. The arguments keep all their words."""
        chosen = list(cases)
        points = tuple(self.points[case] for case in chosen)
        return replace(self, points=points, measured=self.measured[chosen], decided=self.decided[chosen])


def evidence_of(sources: Sequence[ResultsFile]) -> Evidence:
    """The evidence in results files. Raises UsageError for files that no function can serve, and ResultsError if noise hides
    the winners or nothing was timed."""
    _check_one_operator_and_device(sources)
    regrets_of: dict[Case, dict[str, tuple[float, float]]] = {}
    origins: dict[Case, str] = {}
    outcomes = _outcomes(sources)
    for source in sources:
        if source.analysis.noise.too_noisy:
            raise ResultsError(f"{source.path}: {source.analysis.noise.sentence()}; measure again on a quiet machine")
        for key in source.analysis.cases:
            origin = f"{source.path} ({', '.join(filter(None, key[1:]))})"
            if not (regrets := _regrets(source.analysis, key, outcomes)):
                continue
            if key.case in regrets_of:
                raise UsageError(
                    f"{key.case.label} was measured twice: in {origins[key.case]} and in {origin}; choose one of them with "
                    "--where timer=NAME or --where cache=NAME, or name one of the files"
                )
            regrets_of[key.case], origins[key.case] = regrets, origin
    if not regrets_of:
        named = ", ".join(str(source.path) for source in sources)
        raise ResultsError(f"{named}: no provider has a time that can be trusted; kbench show says why")
    by_axes = {case: [(name, value_order(value)) for name, value in case.axes.items()] for case in regrets_of}
    # the same tree for any order of the files
    cases = sorted(by_axes, key=lambda case: (case.dtype, by_axes[case]))
    arguments, fixed = _arguments(cases)
    names = sorted({name for regrets in regrets_of.values() for name in regrets})
    table = np.array([[regrets_of[case].get(name, (math.inf, math.inf)) for name in names] for case in cases])
    rows = [row for source in sources for row in source.results.provider_rows]
    return Evidence(
        operator=cases[0].operator,
        arguments=arguments,
        fixed=fixed,
        points=tuple(
            {a.name: case.dtype if a.name == "dtype" else case.axes[a.name] for a in arguments} for case in cases
        ),
        providers=tuple(names),
        measured=table[:, :, 0],
        decided=table[:, :, 1],
        omitted=tuple({row.case: row.case.label for row in rows if row.case not in regrets_of}.values()),
        gaps=_gaps(names, {case: regrets_of[case] for case in cases}, outcomes),
    )


_Outcomes = dict[tuple[Case, str], str]


def _outcomes(sources: Sequence[ResultsFile]) -> _Outcomes:
    """What happened where a provider has no trusted time in one of the sessions, by case and configuration."""
    outcomes: _Outcomes = {}
    for source in sources:
        for row in source.results.provider_rows:
            if row.status is not Status.OK or Flag.SUSPECT in row.flags:
                outcome = Flag.SUSPECT.value if row.status is Status.OK else row.status.value
                outcomes.setdefault((row.case, row.configuration_name), outcome)
    return outcomes


def _regrets(analysis: Analysis, key: CaseKey, outcomes: _Outcomes) -> dict[str, tuple[float, float]]:
    """The measured and the decided regret of every provider that may be chosen in a case."""
    usable = {name: rows for name, rows in analysis.cases[key].items() if (key.case, name) not in outcomes}
    if not usable:
        return {}
    best = analysis.winner(key, usable).configuration_name
    regrets = {best: (0.0, 0.0)}
    for name in usable.keys() - regrets.keys():
        pair = analysis.compare_pair(key, best, name)
        slower = max(0.0, pair.ratio - 1)
        regrets[name] = slower, slower if pair.outcome is Outcome.SLOWER else 0.0
    return regrets


def _gaps(names: Sequence[str], cases: Mapping[Case, Mapping[str, object]], outcomes: _Outcomes) -> dict[str, str]:
    gaps = {}
    for name in names:
        if lacking := [case for case, regrets in cases.items() if name not in regrets]:
            outcome = outcomes.get((lacking[0], name), "not measured")
            gaps[name] = f"{len(lacking)} of {len(cases)} cases, for example {lacking[0].label} ({outcome})"
    return gaps


def _check_one_operator_and_device(sources: Sequence[ResultsFile]) -> None:
    rows = [row for source in sources for row in source.analysis.rows]
    names = {
        "device": {row.device for row in rows if row.ms is not None},
        "operator": {row.case.operator for row in rows},
    }
    for column, several in names.items():
        if len(several) > 1:
            raise UsageError(
                f"the rows are of several {column}s ({', '.join(sorted(several))}), but a dispatch function serves only one; "
                f"choose the {column} with --where {column}=NAME"
            )


def _arguments(cases: Sequence[Case]) -> tuple[tuple[Argument, ...], dict[str, Value]]:
    """The arguments, and the values that are the same in all cases. Sizes and the dtype are always arguments."""
    arguments, fixed = [], {}
    for name in dict.fromkeys(name for case in cases for name in case.axes):
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
        if all(type(value) in (int, float) for value in values):
            arguments.append(Argument(name, "int" if sizes else "float", ()))
        else:
            words = tuple(values)
            arguments.append(Argument(name, "bool" if type(words[0]) is bool else "str", words))
    dtypes = tuple(sorted({case.dtype for case in cases}))
    return (*arguments, Argument("dtype", "str", dtypes)), fixed

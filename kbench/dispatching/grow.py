"""A decision, which is a Python function that names a provider. It grows from the evidence, by regret: the share of time that a
choice loses to the best.

The method is that of regression trees with several outputs, with cost-complexity pruning (Breiman, Friedman, Olshen and
Stone, "Classification and Regression Trees", 1984). The outputs of a case are the regrets of the providers. A branch divides
the cases where this leaves the least variance of the regrets. It stays if it helps a case that loses more than the margin,
and if what it saves over all cases pays for its question. The tree grows as the statements of the function.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbench.dispatching.evidence import Argument, Evidence, Point
from kbench.errors import ResultsError
from kbench.results.case import Value

FORBIDDEN = 1e6
"""Stands for an infinite regret in sums."""

LARGEST_REGRET = 0.5
"""A regret counts as at most this in the variance. Otherwise a few slow cases would decide where all branches are."""

DEEPEST = 8
"""Branches on the way to a leaf before pruning."""

PRICE = 0.5
"""What a question costs, as a share of the margin. Regrets below the margin count too, and those of a whole range of shapes
should be able to pay for a question."""

CODE_INDENT = "    "

Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Decision:
    """The function.

    statements  what it does with measured words; all paths return a provider
    providers   what it can return, the general one first. That has a trusted time in every case, and is returned for words
                that were not measured, and outside of the bounds of a provider that lacks one
    """

    arguments: Sequence[Argument]
    statements: Sequence[str]
    providers: Sequence[str]

    @property
    def general(self) -> str:
        return self.providers[0]

    @property
    def words(self) -> dict[str, tuple[Value, ...]]:
        """The measured words by argument, without booleans."""
        return {argument.name: argument.words for argument in self.arguments if argument.type_name == "str"}

    @cached_property
    def lines(self) -> list[str]:
        arguments = ", ".join(f"{argument.name}: {argument.type_name}" for argument in self.arguments)
        body = ['"""The provider for a shape. The head of this file says which shapes were measured."""']
        if len(self.statements) > 1:
            for name, words in self.words.items():
                body += [f"if {name} not in {_tuple(words)}:", *_indented([_returned(self.general)])]
        return [f"def choose({arguments}) -> str:", *_indented([*body, *self.statements])]

    @cached_property
    def _function(self) -> Callable[..., str]:
        names: dict[str, Any] = {}
        exec("\n".join(self.lines), names)
        function: Callable[..., str] = names["choose"]
        return function

    def choose(self, point: Point) -> str:
        """The provider for a point: what the function returns."""
        return self._function(**point)

    def source(self, header: Sequence[str]) -> str:
        """The Python file, which needs no package. `header` are the lines of the comment at its top."""
        lines = [
            *(f"# {line}".rstrip() for line in header),
            "",
            "from __future__ import annotations",
            "",
            f"PROVIDERS = {_tuple(self.providers)}",
            '"""All that `choose` can return. The first one has a trusted time in every measured case."""',
            "",
            "",
            *self.lines,
        ]
        return "\n".join(lines) + "\n"


def grow(evidence: Evidence, limit: int, margin: float) -> Decision:
    """A decision that names at most `limit` providers. A regret of at most `margin` is good enough. Raises ResultsError if no
    provider has a trusted time in every case."""
    used = _used(evidence, limit, margin)
    cases = np.arange(len(evidence.points))
    grown = _Grower(evidence, used, margin).grow(cases, cases)
    names = [evidence.providers[used[0]], *grown.providers]
    if len(grown.statements) == 1:
        names = grown.providers  # for words that were not measured, too
    return Decision(evidence.arguments, grown.statements, list(dict.fromkeys(names)))


def _used(evidence: Evidence, limit: int, margin: float) -> list[int]:
    """The providers that the tree may name: the general one, which has the least regret among those with a trusted time in
    every case (the least measured one among equals), then those that save most beside those before them, and at least the
    margin."""
    totals = evidence.decided.sum(axis=0)
    general = int(np.lexsort((evidence.measured.sum(axis=0), totals))[0])
    if not math.isfinite(totals[general]):
        ran = np.isfinite(evidence.decided)
        most = int(np.argmax(ran.sum(axis=0)))
        point = evidence.points[int(np.argmin(ran[:, most]))]
        where = " ".join(f"{name}={value}" for name, value in point.items())
        raise ResultsError(
            "no provider has a trusted time in every case, so none is safe for shapes that nobody measured; "
            f"{evidence.providers[most]} comes closest, but has no trusted time at {where}; add a provider that runs "
            "everywhere, or choose cases with --where"
        )
    losses = np.where(evidence.decided > margin, evidence.decided, 0.0)
    used = [general]
    while len(used) < limit:
        reached = losses[:, used].min(axis=1)
        saved = (reached[:, None] - np.minimum(losses, reached[:, None])).sum(axis=0)
        best = int(np.argmax(saved))
        if best in used or saved[best] < margin or saved[best] <= 0:
            break
        used.append(best)
    return used


class _Question(NamedTuple):
    """A Python expression, and which cases of the evidence say yes. A product counts as as many questions as it has
    `factors`."""

    text: str
    yes: NDArray[np.bool_]
    factors: int = 1
    is_word: bool = False


class _Grown(NamedTuple):
    """A tree for some cases.

    statements  all its paths return a provider, so no `else` is needed
    providers   those that it names
    losses      what it loses at each of the cases; 0 at all others
    questions   how many it asks
    """

    statements: list[str]
    providers: list[str]
    losses: NDArray[np.float64]
    questions: int = 0


class _Grower:
    """Grows the tree of some evidence. `used` are the providers that it may name, the general one first."""

    def __init__(self, evidence: Evidence, used: list[int], margin: float) -> None:
        self.evidence, self.margin = evidence, margin
        self.names = [evidence.providers[place] for place in used]
        decided = evidence.decided[:, used]
        self.losses = np.where(np.isfinite(decided), decided, FORBIDDEN)
        self.outputs = np.minimum(self.losses, LARGEST_REGRET)
        numbers: dict[tuple[Value, ...], int] = {}
        self.shapes = np.array(
            [numbers.setdefault(evidence.shape(case), len(numbers)) for case in range(len(evidence.points))]
        )
        columns = {name: np.array(evidence.values(name), dtype=float) for name in evidence.numbers}
        self.numbers = {name: column for name, column in columns.items() if len(set(column)) > 1}
        sizes = [a.name for a in evidence.arguments if a.type_name == "int" and a.name in self.numbers]
        self.features = {(name,): column for name, column in self.numbers.items()} | {
            (first, second): columns[first] * columns[second] for first, second in combinations(sizes, 2)
        }

    def grow(self, cases: Indices, allowed: Indices, depth: int = 0) -> _Grown:
        """The tree for some cases, at a depth below the root. `allowed` are those that come here if only words are asked."""
        leaf = self._leaf(cases, allowed)
        if depth == DEEPEST or not (leaf.losses > self.margin).any():
            return leaf
        question = min(self._questions(cases), key=lambda asked: self._variance(cases, asked), default=None)
        if question is None or math.isinf(self._variance(cases, question)):
            return leaf
        sides = []
        for answers in (question.yes, ~question.yes):
            of_side = allowed[answers[allowed]] if question.is_word else allowed
            sides.append(self.grow(cases[answers[cases]], of_side, depth + 1))
        yes, no = sides
        losses, questions = yes.losses + no.losses, question.factors + yes.questions + no.questions
        helps = ((leaf.losses > self.margin) & (losses < leaf.losses)).any()
        pays = losses.sum() + PRICE * self.margin * questions < leaf.losses.sum()
        if not (helps and pays):
            return leaf
        statements = [f"if {question.text}:", *_indented(yes.statements), *no.statements]
        return _Grown(statements, yes.providers + no.providers, losses, questions)

    def _leaf(self, cases: Indices, allowed: Indices) -> _Grown:
        """The best single provider for some cases. One without a trusted time somewhere gets bounds, and is taken only if it
        ran with each combination of words that can come here."""
        choice = int(np.argmin(self.losses[cases].sum(axis=0)))  # of equals the one that is used already
        bounds: dict[str, tuple[float, float]] = {}
        if (self.losses[:, choice] == FORBIDDEN).any():
            bounds = self._bounds(cases)
            measured, possible = ({*map(self.evidence.words, some)} for some in (cases, allowed))
            if measured != possible or any(low > high for low, high in bounds.values()):
                choice, bounds = 0, {}
        losses = np.zeros(len(self.losses))
        losses[cases] = self.losses[cases, choice]
        statements = [_returned(self.names[choice])]
        if bounds:
            within = " and ".join(f"{low} <= {name} <= {high}" for name, (low, high) in bounds.items())
            statements = [f"if {within}:", *_indented(statements), _returned(self.names[0])]
        return _Grown(statements, [self.names[choice]], losses)

    def _bounds(self, cases: Indices) -> dict[str, tuple[float, float]]:
        """For every number that varies, the range in which each combination of words among the cases was measured. The lower
        bound is above the upper one if there is no such range."""
        groups: dict[tuple[Value, ...], list[int]] = {}
        for case in map(int, cases):
            groups.setdefault(self.evidence.words(case), []).append(case)
        bounds: dict[str, tuple[float, float]] = {}
        for name in self.numbers:
            values = self.evidence.values(name)
            spans = [[values[case] for case in group] for group in groups.values()]
            bounds[name] = max(map(min, spans)), min(map(max, spans))
        return bounds

    def _questions(self, cases: Indices) -> Iterator[_Question]:
        for factors, column in self.features.items():
            for low, high in pairwise(np.unique(column[cases])):
                text = f"{' * '.join(factors)} <= {_between(float(low), float(high))}"
                yield _Question(text, column <= low, len(factors))
        for argument in self.evidence.arguments:
            for word in argument.words:
                yes = np.array([point[argument.name] == word for point in self.evidence.points])
                yield _Question(_is_word(argument.name, word), yes, is_word=True)

    def _variance(self, cases: Indices, question: _Question) -> float:
        """The sum of squares of the distances of regrets to their means on both sides of a question. It is infinite if a side
        has a single shape, which says little about its neighbours."""
        variance = 0.0
        yes = question.yes[cases]
        for side in (cases[yes], cases[~yes]):
            if len(set(self.shapes[side])) < 2:
                return math.inf
            outputs = self.outputs[side]
            variance += float(((outputs - outputs.mean(axis=0)) ** 2).sum())
        return variance


def _between(low: float, high: float) -> float:
    """The middle between two measured sizes, in logarithms. Sizes are whole numbers."""
    middle = math.sqrt(low * high) if low > 0 else (low + high) / 2
    return math.floor(middle) if low.is_integer() and high.is_integer() else middle


def _indented(statements: Sequence[str]) -> list[str]:
    return [CODE_INDENT + line for line in statements]


def _returned(provider: str) -> str:
    return f"return {_literal(provider)}"


def _is_word(name: str, word: Value) -> str:
    """The question whether an argument is a word."""
    if isinstance(word, bool):
        return name if word else f"not {name}"
    return f"{name} == {_literal(word)}"


def _tuple(words: Sequence[Value]) -> str:
    elements = ", ".join(map(_literal, words))
    return f"({elements},)" if len(words) == 1 else f"({elements})"


def _literal(value: Value) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)

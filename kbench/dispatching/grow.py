"""Grows the tree from the evidence, by regret: the share of time that a choice loses to the best.

The method is that of regression trees with several outputs, with cost-complexity pruning (Breiman, Friedman, Olshen and
Stone, "Classification and Regression Trees", 1984). The outputs of a case are the regrets of the providers. A branch divides
the cases where this leaves the least variance of the regrets. Accuracy would count a lost 0.1 % and a lost 50 % alike. Near the
root several divisions are tried. The tree with the least cost is kept: its regret, summed over the cases, plus a price for each
question. No question is asked for regrets below the margin alone. But where one is asked, such regrets also decide where the
thresholds lie: many small ones in a row show a range better than a single large one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from kbench.dispatching.evidence import Evidence, Regrets, features
from kbench.dispatching.tree import Branch, Decision, Leaf, OneOf, Threshold, Tree, leaves
from kbench.errors import ResultsError
from kbench.results.case import Value

FORBIDDEN = 1e6
"""Stands for an infinite regret in sums."""

LARGEST_REGRET = 0.5
"""A regret counts as at most this in the variance. Otherwise a few slow cases would decide where all branches are."""

DEEPEST = 8
"""Branches on the way to a leaf before pruning."""

TRIED = (5, 5, 3)
"""How many divisions are tried at the root, one below, and so on; further below only the best. A greedy search misses corners
that several questions have to cut out together."""

LEAST_SHAPES = 2
"""Each side of a division has this many shapes. One shape alone says little about those between it and its neighbours."""

MANY_SHAPES = 40
"""With more shapes than this, each side has one shape more: the more places there are for a division, the more often two shapes
agree by chance. Where a provider failed, LEAST_SHAPES are enough: a failure is not noise."""

APART = 1.1
"""Products that differ by a smaller factor are not divided. A sweep often keeps a product about constant, and what is left of
it are the odd sizes."""

PRICE = 0.5
"""What a question costs, as a share of the margin. Regrets below the margin count too, and those of a whole range of shapes
should be able to pay for a question. From 1 to 1/4, the regret on held-out shapes of softmax and GELU hardly changes."""

ROUNDING = 1e-9
"""A smaller difference of costs is rounding."""

MOST_DIVISIONS = 6
"""An argument with more words than this is only asked for one word at a time."""

Indices = NDArray[np.intp]

Words = frozenset[tuple[Value, ...]]
"""Combinations of the words of a case, such as its dtype and mode."""


def grow(evidence: Evidence, limit: int, margin: float) -> Decision:
    """A decision that names at most `limit` providers.

    A regret of at most `margin` is good enough: each question helps in a case that loses more. Summed over the cases, it saves
    at least PRICE times the margin, and each further provider saves at least the margin. Raises ResultsError if no provider has
    a trusted time in every case.
    """
    general = _general(evidence)
    losses = _losses(evidence, general)
    used = _used(np.where(losses > margin, losses, 0.0), general, limit, margin)
    grower = _Grower(evidence, losses, used, margin)
    everything = np.arange(len(evidence.points))
    tree = grower.shortened(grower.tree(everything, 0, frozenset(grower.words_of)).tree, everything)
    words = {argument.name: argument.words for argument in evidence.arguments if argument.type_name == "str"}
    settled = grower.settled(tree, everything)
    if isinstance(settled, Leaf) and not settled.within:
        return Decision(settled, settled.provider, words)  # for words that were not measured, too
    return Decision(settled, evidence.providers[general], words)


def _general(evidence: Evidence) -> int:
    """The provider with the least regret among those with a trusted time in every case."""
    totals = evidence.decided.sum(axis=0)
    best = int(np.argmin(totals))
    if not math.isfinite(totals[best]):
        ran = np.isfinite(evidence.decided)
        most = int(np.argmax(ran.sum(axis=0)))
        point = evidence.points[int(np.argmin(ran[:, most]))]
        where = " ".join(f"{name}={value}" for name, value in point.items())
        raise ResultsError(
            "no provider has a trusted time in every case, so none is safe for shapes that nobody measured; "
            f"{evidence.providers[most]} comes closest, but has no trusted time at {where}; add a provider that runs "
            "everywhere, or choose cases with --where"
        )
    return best


def _losses(evidence: Evidence, general: int) -> Regrets:
    """The regrets that count. An unclear difference never speaks for another provider than the general one."""
    losses = evidence.possible.copy()
    losses[:, general] = evidence.decided[:, general]
    return losses


def _used(losses: Regrets, general: int, limit: int, margin: float) -> list[int]:
    """The providers that the tree may name: the general one, then always the one that saves most beside those before it."""
    used = [general]
    while len(used) < limit:
        reached = losses[:, used].min(axis=1)
        saved = (reached[:, None] - np.minimum(losses, reached[:, None])).sum(axis=0)
        best = int(np.argmax(saved))
        if best in used or saved[best] < margin or saved[best] <= 0:
            break
        used.append(best)
    return used


@dataclass(frozen=True)
class _Division:
    """A question: the cases that say yes, those that say no, and the variance of the regrets that is left in both. A product
    counts as as many questions as it has factors."""

    test: Threshold | OneOf
    yes: Indices
    no: Indices
    variance: float
    questions: int


@dataclass(frozen=True)
class _Grown:
    """A tree, its regret at each case (0 at the cases of other parts), and the number of its questions."""

    tree: Tree
    lost: NDArray[np.float64]
    questions: int

    def cost(self, price: float) -> float:
        return float(self.lost.sum()) + price * self.questions


class _Grower:
    """Grows the tree of some evidence. `used` are the providers that it may name, the general one first."""

    def __init__(self, evidence: Evidence, losses: Regrets, used: list[int], margin: float) -> None:
        self.evidence, self.margin, self.price = evidence, margin, PRICE * margin
        everything = range(len(evidence.points))
        self.names = [evidence.providers[index] for index in used]
        self.losses = np.where(np.isfinite(losses), losses, FORBIDDEN)[:, used]
        self.outputs = np.minimum(self.losses, LARGEST_REGRET)
        self.failed = np.asarray(np.isinf(losses[:, used]).any(axis=1))
        self.partial = [not ran.all() for ran in np.isfinite(losses[:, used]).T]
        self.features = features(evidence)
        numbers: dict[tuple[Value, ...], int] = {}
        self.shape_numbers = [numbers.setdefault(evidence.shape(case), len(numbers)) for case in everything]
        self.least_shapes = LEAST_SHAPES + (len(numbers) > MANY_SHAPES)
        self.worded = [argument.name for argument in evidence.arguments if argument.words]
        self.words_of = [tuple(point[name] for name in self.worded) for point in evidence.points]
        self.known: dict[tuple[int, bytes, Words], _Grown] = {}

    def tree(self, cases: Indices, depth: int, words: Words) -> _Grown:
        """The best tree that was found for some cases, at a depth below the root. `words` are those that can come here."""
        key = depth, np.sort(cases).tobytes(), words
        if key not in self.known:
            self.known[key] = self._tree(cases, depth, words)
        return self.known[key]

    def _tree(self, cases: Indices, depth: int, words: Words) -> _Grown:
        totals = self.losses[cases].sum(axis=0)
        choice = int(np.argmin(totals))  # of equals the one that is used already
        bounds = self._bounds(cases) if self.partial[choice] else {}
        seen = {self.words_of[case] for case in cases}
        if bounds and (seen != words or any(low > high for low, high in bounds.values())):
            choice, bounds = 0, {}
        lost = np.zeros(len(self.losses))
        lost[cases] = self.losses[cases, choice]
        leaf = best = _Grown(Leaf(self.names[choice], bounds), lost, 0)
        if depth == DEEPEST or not (lost > self.margin).any():
            return leaf
        tried = TRIED[depth] if depth < len(TRIED) else 1
        for division in sorted(self._divisions(cases), key=lambda division: division.variance)[:tried]:
            yes_words, no_words = self._divided(words, division.test)
            yes, no = self.tree(division.yes, depth + 1, yes_words), self.tree(division.no, depth + 1, no_words)
            questions = yes.questions + no.questions + division.questions
            found = _Grown(Branch(division.test, yes.tree, no.tree), yes.lost + no.lost, questions)
            if found.cost(self.price) < best.cost(self.price) - ROUNDING and self._helps(leaf.lost, found.lost):
                best = found
        return best

    def _divided(self, words: Words, test: Threshold | OneOf) -> tuple[Words, Words]:
        """The words that can come to each side of a question."""
        if isinstance(test, Threshold):
            return words, words
        place = self.worded.index(test.name)
        yes = frozenset(each for each in words if each[place] in test.words)
        return yes, words - yes

    def _divisions(self, cases: Indices) -> Iterator[_Division]:
        """The best division by each feature and by each choice of words."""
        for factors, column in self.features.items():
            order = cases[np.argsort(column[cases], kind="stable")]
            ends = self._ends(order, column[order], 1.0 if len(factors) == 1 else APART)
            if len(ends):
                variances = _variances(self.outputs[order])[ends - 1]
                end = int(ends[int(np.argmin(variances))])
                test = Threshold(factors, float(column[order[end - 1]]))
                yield _Division(test, order[:end], order[end:], float(variances.min()), len(factors))
        for argument in self.evidence.arguments:
            for words in _divisions_of(argument.words):
                inside = np.array([self.evidence.points[case][argument.name] in words for case in cases])
                yes, no = cases[inside], cases[~inside]
                if self._enough(yes) and self._enough(no):
                    variance = _variance(self.outputs[yes]) + _variance(self.outputs[no])
                    yield _Division(OneOf(argument.name, words), yes, no, variance, 1)

    def _ends(self, order: Indices, values: NDArray[np.float64], apart: float) -> Indices:
        """How many of the ordered cases can be before a threshold: both sides have enough shapes, and the values beside the
        threshold differ by a factor of more than `apart`."""
        steps = values[1:] - values[:-1]
        ends = np.flatnonzero(steps > np.maximum(0.0, (apart - 1) * values[:-1])) + 1
        enough = [end for end in map(int, ends) if self._enough(order[:end]) and self._enough(order[end:])]
        return np.array(enough, dtype=np.intp)

    def _enough(self, cases: Indices) -> bool:
        """Whether the cases of one side have enough shapes."""
        least = LEAST_SHAPES if self.failed[cases].any() else self.least_shapes
        seen: set[int] = set()
        for case in cases:
            seen.add(self.shape_numbers[case])
            if len(seen) == least:
                return True
        return False

    def _bounds(self, cases: Indices) -> dict[str, tuple[float, float]]:
        """The bounds of every number that varies: all words that occur among the cases have cases on both sides of what lies
        between them. The lower bound is above the upper one if there is no such place."""
        groups: dict[tuple[Value, ...], list[int]] = {}
        for case in map(int, cases):
            groups.setdefault(self.words_of[case], []).append(case)
        bounds: dict[str, tuple[float, float]] = {}
        for name in [factors[0] for factors in self.features if len(factors) == 1]:
            values = self.evidence.values(name)
            spans = [[values[case] for case in group] for group in groups.values()]
            bounds[name] = max(map(min, spans)), min(map(max, spans))
        return bounds

    def shortened(self, tree: Tree, cases: Indices) -> Tree:
        """The tree without questions that save nothing: one of the two trees behind a question takes its place if that costs
        less. A greedy search asks such questions on its way to others (subtree raising; Quinlan, "C4.5", 1993)."""
        if isinstance(tree, Leaf):
            return tree
        says_yes = self._says_yes(tree.test, cases)
        short = Branch(tree.test, self.shortened(tree.yes, cases[says_yes]), self.shortened(tree.no, cases[~says_yes]))
        whole = self._lost(short, cases)
        for part in (short.yes, short.no):
            bounded = any(leaf.within for leaf in leaves(part))  # the bounds hold for the words of these leaves only
            lost = self._lost(part, cases)
            cheaper = lost.sum() <= whole.sum() + self.price
            if not bounded and (cheaper or not self._helps(lost, whole)):
                return self.shortened(part, cases)
        return short

    def settled(self, tree: Tree, cases: Indices) -> Tree:
        """The tree with every threshold moved to where both sides are expected to be as fast.

        Between the two measured sizes around a threshold, the regret is taken to be linear in the logarithm of the size. Where
        the provider of one side may not be chosen at the other, its side ends at its last measured size. Cases for which both
        sides choose the same provider say nothing about the place, so the threshold may lie beyond them.
        """
        if isinstance(tree, Leaf):
            return tree
        test = tree.test
        grown = settled = self._says_yes(test, cases)
        if isinstance(test, Threshold):
            differ = self._chosen(tree.yes, cases) != self._chosen(tree.no, cases)
            yes, no = (cases[side & differ] if (side & differ).any() else cases[side] for side in (grown, ~grown))
            column = self.features[test.factors]
            low, high = float(column[yes].max()), float(column[no].min())
            last, first = yes[column[yes] == low], no[column[no] == high]
            below = float((self._lost(tree.no, last) - self._lost(tree.yes, last)).sum())
            above = float((self._lost(tree.yes, first) - self._lost(tree.no, first)).sum())
            test = Threshold(test.factors, _between(low, high, max(below, 0.0), max(above, 0.0)))
            settled = self._says_yes(test, cases)
        # a case that the threshold passed counts on both sides, so that none is left without cases
        yes, no = cases[grown | settled], cases[~grown | ~settled]
        return Branch(test, self.settled(tree.yes, yes), self.settled(tree.no, no))

    def _says_yes(self, test: Threshold | OneOf, cases: Indices) -> NDArray[np.bool_]:
        return np.array([test.holds(self.evidence.points[case]) for case in cases], dtype=bool)

    def _lost(self, tree: Tree, cases: Indices) -> NDArray[np.float64]:
        """The regret of a tree at each of some cases."""
        return self.losses[cases, self._chosen(tree, cases)]

    def _chosen(self, tree: Tree, cases: Indices) -> Indices:
        """The provider that a tree chooses at each of some cases."""
        decision = Decision(tree, self.names[0], {})
        return np.array(
            [self.names.index(decision.choose(self.evidence.points[case])) for case in cases], dtype=np.intp
        )

    def _helps(self, before: NDArray[np.float64], after: NDArray[np.float64]) -> bool:
        """Whether a case loses less now that lost more than the margin before."""
        return bool(((before > self.margin) & (after < before)).any())


def _variances(outputs: Regrets) -> NDArray[np.float64]:
    """For each place in ordered cases, how far the regrets before it and after it lie from their means (sums of squares)."""
    count = np.arange(1, len(outputs) + 1)[:, None]
    sums, squares = outputs.cumsum(axis=0), (outputs**2).cumsum(axis=0)
    before = squares - sums**2 / count
    rest = len(outputs) - count
    after = squares[-1] - squares - (sums[-1] - sums) ** 2 / np.maximum(rest, 1)
    both: NDArray[np.float64] = (before + after).sum(axis=1)
    return both


def _variance(outputs: Regrets) -> float:
    return float(((outputs - outputs.mean(axis=0)) ** 2).sum())


def _divisions_of(words: tuple[Value, ...]) -> Iterator[tuple[Value, ...]]:
    """The ways to divide words in two, without the mirror images."""
    if len(words) > MOST_DIVISIONS:
        yield from ((word,) for word in words)
        return
    for size in range(1, len(words) // 2 + 1):
        for chosen in combinations(words, size):
            if 2 * size < len(words) or words[0] in chosen:
                yield chosen


def _between(low: float, high: float, below: float, above: float) -> float:
    """Where the difference of two sides changes its sign: it is `below` at `low` and `above` at `high`."""
    share = below / (below + above) if below + above > 0 else 0.5
    if share < 1e-3:
        return low
    whole = low.is_integer() and high.is_integer()
    found = low + (high - low) * share if low <= 0 else low * (high / low) ** share
    if whole:
        return float(min(max(math.floor(found), low), high - 1))
    return found if low <= found < high else low

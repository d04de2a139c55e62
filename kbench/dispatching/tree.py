"""A decision tree: it asks for a size, a product of sizes or a word, and names a provider at each end."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kbench.dispatching.evidence import Point
from kbench.results.case import Value


@dataclass(frozen=True)
class Leaf:
    """An end of the tree.

    provider  the configuration that is chosen
    within    for a provider without a trusted time in every case: the bounds, both included, between which its cases lie
    """

    provider: str
    within: Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Threshold:
    """The product of some arguments is at most a limit."""

    factors: tuple[str, ...]
    limit: float

    def holds(self, point: Point) -> bool:
        return math.prod(point[name] for name in self.factors) <= self.limit  # type: ignore[misc]


@dataclass(frozen=True)
class Is:
    """An argument is a word."""

    name: str
    word: Value

    def holds(self, point: Point) -> bool:
        return point[self.name] == self.word


@dataclass(frozen=True)
class Branch:
    """A question and the two trees behind it."""

    test: Threshold | Is
    yes: Tree
    no: Tree


Tree = Leaf | Branch


@dataclass(frozen=True)
class Decision:
    """A tree, and what it does not cover.

    general  the provider with a trusted time in every case: for words that were not measured, and outside of `Leaf.within`
    words    the measured words by argument, without booleans
    """

    tree: Tree
    general: str
    words: Mapping[str, tuple[Value, ...]]

    def choose(self, point: Point) -> str:
        """The provider for a point, as the emitted function chooses it."""
        if any(point[name] not in words for name, words in self.words.items()):
            return self.general
        node = self.tree
        while isinstance(node, Branch):
            node = node.yes if node.test.holds(point) else node.no
        inside = all(low <= point[name] <= high for name, (low, high) in node.within.items())  # type: ignore[operator]
        return node.provider if inside else self.general

    @property
    def providers(self) -> list[str]:
        """What can be chosen, the general one first."""
        return list(dict.fromkeys([self.general, *(leaf.provider for leaf in leaves(self.tree))]))


def leaves(tree: Tree) -> Iterator[Leaf]:
    if isinstance(tree, Leaf):
        yield tree
    else:
        yield from leaves(tree.yes)
        yield from leaves(tree.no)

"""A decision tree, and the Python function that it is: it asks for sizes and words, and names a provider at each end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kbench.dispatching.evidence import Argument, Point
from kbench.results.case import Value

CODE_INDENT = "    "


@dataclass(frozen=True)
class Leaf:
    """An end of the tree.

    provider  the configuration that is chosen
    within    for a provider without a trusted time in every case: the bounds, both included, between which its cases lie
    """

    provider: str
    within: Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Branch:
    """A question, which is a Python expression such as `M * N <= 4096`, and the two trees behind it."""

    question: str
    yes: Tree
    no: Tree


Tree = Leaf | Branch


@dataclass(frozen=True)
class Decision:
    """A tree. `general` is the provider with a trusted time in every case: for words that were not measured, and outside of
    `Leaf.within`."""

    tree: Tree
    general: str
    arguments: Sequence[Argument]

    @property
    def words(self) -> dict[str, tuple[Value, ...]]:
        """The measured words by argument, without booleans."""
        return {argument.name: argument.words for argument in self.arguments if argument.type_name == "str"}

    @property
    def providers(self) -> list[str]:
        """What can be chosen, the general one first."""
        return list(dict.fromkeys([self.general, *(leaf.provider for leaf in leaves(self.tree))]))

    @cached_property
    def lines(self) -> list[str]:
        arguments = ", ".join(f"{argument.name}: {argument.type_name}" for argument in self.arguments)
        general = f"return {_literal(self.general)}"
        body = ['"""The provider for a shape. The head of this file says which shapes were measured."""']
        if isinstance(self.tree, Branch) or self.tree.within:
            for name, words in self.words.items():
                body += [f"if {name} not in {_tuple(words)}:", CODE_INDENT + general]
        body += _statements(self.tree, general)
        return [f"def choose({arguments}) -> str:", *(CODE_INDENT + line for line in body)]

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


def leaves(tree: Tree) -> Iterator[Leaf]:
    if isinstance(tree, Leaf):
        yield tree
    else:
        yield from leaves(tree.yes)
        yield from leaves(tree.no)


def _statements(tree: Tree, general: str) -> Iterator[str]:
    """The statements of a tree. All its paths return, so no `else` is needed."""
    if isinstance(tree, Branch):
        yield f"if {tree.question}:"
        yield from (CODE_INDENT + line for line in _statements(tree.yes, general))
        yield from _statements(tree.no, general)
    elif tree.within:
        yield f"if {' and '.join(f'{low} <= {name} <= {high}' for name, (low, high) in tree.within.items())}:"
        yield f"{CODE_INDENT}return {_literal(tree.provider)}"
        yield general
    else:
        yield f"return {_literal(tree.provider)}"


def is_word(name: str, word: Value) -> str:
    """The question whether an argument is a word."""
    if isinstance(word, bool):
        return name if word else f"not {name}"
    return f"{name} == {_literal(word)}"


def _tuple(words: Sequence[Value]) -> str:
    elements = ", ".join(map(_literal, words))
    return f"({elements},)" if len(words) == 1 else f"({elements})"


def _literal(value: Value) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)

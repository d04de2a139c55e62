"""The decision as a Python file that needs no package."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from kbench.dispatching.evidence import Evidence
from kbench.dispatching.tree import Branch, Decision, OneOf, Threshold, Tree
from kbench.results.case import Value

CODE_INDENT = "    "


def python_source(decision: Decision, evidence: Evidence, header: Sequence[str]) -> str:
    """The file. `header` are the lines of the comment at its top."""
    arguments = ", ".join(f"{argument.name}: {argument.type_name}" for argument in evidence.arguments)
    names = ", ".join(map(_literal, decision.providers)) + "," * (len(decision.providers) == 1)
    lines = [
        *(f"# {line}".rstrip() for line in header),
        "",
        "from __future__ import annotations",
        "",
        f"PROVIDERS = ({names})",
        '"""All that `choose` can return. The first one has a trusted time in every measured case."""',
        "",
        "",
        f"def choose({arguments}) -> str:",
        f'{CODE_INDENT}"""The provider for a shape. The head of this file says which shapes were measured."""',
        *(CODE_INDENT + line for line in _body(decision)),
    ]
    return "\n".join(lines) + "\n"


def _body(decision: Decision) -> Iterator[str]:
    general = f"return {_literal(decision.general)}"
    if isinstance(decision.tree, Branch) or decision.tree.within:
        for name, words in decision.words.items():
            yield f"if {name} not in {_tuple(words)}:"
            yield CODE_INDENT + general
    yield from _lines(decision.tree, general)


def _lines(tree: Tree, general: str) -> Iterator[str]:
    """The statements of a tree. All its paths return, so no `else` is needed."""
    if isinstance(tree, Branch):
        yield f"if {condition(tree.test)}:"
        yield from (CODE_INDENT + line for line in _lines(tree.yes, general))
        yield from _lines(tree.no, general)
    elif tree.within:
        yield f"if {' and '.join(f'{low} <= {name} <= {high}' for name, (low, high) in tree.within.items())}:"
        yield f"{CODE_INDENT}return {_literal(tree.provider)}"
        yield general
    else:
        yield f"return {_literal(tree.provider)}"


def condition(test: Threshold | OneOf) -> str:
    """A question as a Python expression."""
    if isinstance(test, Threshold):
        return f"{' * '.join(test.factors)} <= {number(test.limit)}"
    if test.words == (True,) or test.words == (False,):
        return test.name if test.words[0] else f"not {test.name}"
    return (
        f"{test.name} == {_literal(test.words[0])}" if len(test.words) == 1 else f"{test.name} in {_tuple(test.words)}"
    )


def number(value: float) -> int | float:
    """Whole numbers without a point."""
    return int(value) if float(value).is_integer() else value


def _tuple(words: Sequence[Value]) -> str:
    return f"({', '.join(map(_literal, words))}{',' * (len(words) == 1)})"


def _literal(value: Value) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)

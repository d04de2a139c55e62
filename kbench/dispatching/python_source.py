"""The decision as a Python file that needs no package."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from kbench.analysis.files import ResultsFile
from kbench.dispatching.evidence import Evidence
from kbench.dispatching.tree import Branch, Decision, Is, Threshold, Tree
from kbench.plotting.results import machine_line, method_line
from kbench.results.case import Value
from kbench.text.printable import printable
from kbench.version import __version__

CODE_INDENT = "    "


def python_source(decision: Decision, evidence: Evidence, header: Sequence[str]) -> str:
    """The file. `header` are the lines of the comment at its top."""
    lines = [
        *(f"# {line}".rstrip() for line in header),
        "",
        "from __future__ import annotations",
        "",
        f"PROVIDERS = {_tuple(decision.providers)}",
        '"""All that `choose` can return. The first one has a trusted time in every measured case."""',
        "",
        "",
        *function_lines(decision, evidence),
    ]
    return "\n".join(lines) + "\n"


def function_lines(decision: Decision, evidence: Evidence) -> Iterator[str]:
    """The function."""
    arguments = ", ".join(f"{argument.name}: {argument.type_name}" for argument in evidence.arguments)
    yield f"def choose({arguments}) -> str:"
    yield f'{CODE_INDENT}"""The provider for a shape. The head of this file says which shapes were measured."""'
    general = f"return {_literal(decision.general)}"
    if isinstance(decision.tree, Branch) or decision.tree.within:
        for name, words in decision.words.items():
            yield f"{CODE_INDENT}if {name} not in {_tuple(words)}:"
            yield CODE_INDENT + CODE_INDENT + general
    yield from (CODE_INDENT + line for line in _statements(decision.tree, general))


def _statements(tree: Tree, general: str) -> Iterator[str]:
    """The statements of a tree. All its paths return, so no `else` is needed."""
    if isinstance(tree, Branch):
        yield f"if {_condition(tree.test)}:"
        yield from (CODE_INDENT + line for line in _statements(tree.yes, general))
        yield from _statements(tree.no, general)
    elif tree.within:
        yield f"if {' and '.join(f'{low} <= {name} <= {high}' for name, (low, high) in tree.within.items())}:"
        yield f"{CODE_INDENT}return {_literal(tree.provider)}"
        yield general
    else:
        yield f"return {_literal(tree.provider)}"


def _condition(test: Threshold | Is) -> str:
    """A question as a Python expression."""
    if isinstance(test, Threshold):
        limit = int(test.limit) if test.limit.is_integer() else test.limit
        return f"{' * '.join(test.factors)} <= {limit}"
    if test.word is True or test.word is False:
        return test.name if test.word else f"not {test.name}"
    return f"{test.name} == {_literal(test.word)}"


def _tuple(words: Sequence[Value]) -> str:
    elements = ", ".join(map(_literal, words))
    return f"({elements},)" if len(words) == 1 else f"({elements})"


def _literal(value: Value) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def header(
    decision: Decision, evidence: Evidence, sources: Sequence[ResultsFile], report: Sequence[str], made_at: str
) -> list[str]:
    """What the emitted files say about their origin and their limits."""
    sizes = [
        f"{name} from {min(values)} to {max(values)}" if min(values) < max(values) else f"{name}={values[0]}"
        for name in evidence.numbers
        for values in [evidence.values(name)]
    ]
    words = [f"{name}: {', '.join(map(str, measured))}" for name, measured in decision.words.items()]
    fixed = [f"only {name}={value}" for name, value in evidence.fixed.items()]
    lines = [
        f"The provider of {evidence.operator} for a shape. kbench {__version__} made this file at {made_at}; do not edit it.",
        *(f"From {source.path}: {machine_line(source)} · {method_line([source])}" for source in sources),
        f"Measured: {'; '.join([*sizes, *words, *fixed])}.",
        *(f"{line[0].upper()}{line[1:]}." for line in report),
    ]
    if decision.providers == [decision.general]:
        lines.append(f"{decision.general} has a trusted time in every measured case. `choose` always returns it.")
    else:
        lines += [
            f"{decision.general} has a trusted time in every measured case. "
            "It is also returned if the dtype, or another argument that is text, has a value that was not measured.",
            "Sizes that were not measured follow the thresholds, which lie between measured sizes. Where a size is outside the "
            f"bounds of the chosen provider (low <= N <= high), `choose` returns {decision.general}.",
        ]
    return [printable(line) for line in lines]

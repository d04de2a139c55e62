"""The part of a Python file that defines an operator, without the kernels in the same file.

People keep an operator and its providers in one file. Rows of different definitions cannot be compared, so a change to a
kernel must not look like a change to the operator.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from kbench.contract.operator import Operator
from kbench.files import source_text
from kbench.measure.definition.definition import Definition
from kbench.results.stamps import digest


def case_hash(definition: Definition, call_bytes: int, flops: int | None = None) -> str:
    """Distinguishes two definitions of the same case: a hash of the operator's source, bytes, floating-point operations and
    tolerances. Kernels in the same file are not part of it."""
    operator = definition.operator
    return digest(
        [
            digest(_source_of(operator)),
            definition.case.to_json(),
            call_bytes,
            [(output.name, str(output.dtype), output.tolerance, output.ulps) for output in definition.outputs],
            *([] if flops is None else [flops]),
        ]
    )


def _source_of(operator: Operator) -> str | None:
    """The text that defines an operator."""
    if operator.source:
        return operator.source
    file = _file_of(operator.reference)
    source: str | None = source_text(Path(file)) if file else getattr(operator.reference, "__name__", None)
    return source and defining(source, operator.name)


def _file_of(reference: Callable[..., Any]) -> str | None:
    """The file that defines a reference; None if it is not written in Python, as torch.matmul is not."""
    function = inspect.unwrap(reference)
    while isinstance(function, functools.partial):
        function = function.func
    for each in (function, type(function)):
        with suppress(TypeError):
            return inspect.getsourcefile(each)
    return None


@functools.lru_cache(maxsize=16)
def defining(text: str, operator: str) -> str:
    """The top-level statements that construct the operator of this name, and those that they use, in the order of the file.

    The whole text if no such statement is found: the operator is made in a function or a loop, or its name is computed.
    """
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError):
        return text
    wanted = [statement for statement in body if _constructs(statement, operator)]
    if len(wanted) != 1:
        return text
    bound: dict[str, list[ast.stmt]] = {}
    for statement in body:
        for name in _binds(statement):
            bound.setdefault(name, []).append(statement)
    for statement in wanted:  # grows while it is walked
        used = (node.id for node in ast.walk(statement) if isinstance(node, ast.Name))
        wanted += [other for name in used for other in bound.get(name, []) if other not in wanted]
    lines = text.splitlines()
    aside = _lines_aside(wanted[0], lines)
    numbers = [number for s in body if s in wanted for number in range(_first_line(s), (s.end_lineno or 0) + 1)]
    return "\n".join(lines[number - 1] for number in numbers if number not in aside)


def _lines_aside(statement: ast.stmt, lines: list[str]) -> set[int]:
    """The lines of `model_axes=`, if they hold nothing else. It says which cases people choose, and nothing about what a case
    is."""
    assert isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Expr)) and isinstance(statement.value, ast.Call)
    for keyword in statement.value.keywords:
        if keyword.arg == "model_axes" and keyword.end_lineno is not None:
            before = lines[keyword.lineno - 1].encode()[: keyword.col_offset].decode()
            after = lines[keyword.end_lineno - 1].encode()[keyword.end_col_offset :].decode().partition("#")[0]
            if not before.strip() and after.strip() in ("", ","):
                return set(range(keyword.lineno, keyword.end_lineno + 1))
    return set()


def _constructs(statement: ast.stmt, operator: str) -> bool:
    """Whether the statement is `... = Operator("name", ...)`, with the name as the first or as a keyword argument."""
    if not isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Expr)) or not isinstance(statement.value, ast.Call):
        return False
    call = statement.value
    function = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    names = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg == "name")]
    return function == "Operator" and any(isinstance(n, ast.Constant) and n.value == operator for n in names)


def _binds(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement binds at the top level, including those inside `if` and `try`."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield statement.name
        return
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        yield from ((alias.asname or alias.name).partition(".")[0] for alias in statement.names)
    for node in ast.iter_child_nodes(statement):
        if isinstance(node, ast.stmt):
            yield from _binds(node)
        elif isinstance(node, ast.ExceptHandler):
            yield from (name for inner in node.body for name in _binds(inner))
        else:
            names = (inner for inner in ast.walk(node) if isinstance(inner, ast.Name))
            yield from (inner.id for inner in names if isinstance(inner.ctx, ast.Store))


def _first_line(statement: ast.stmt) -> int:
    """The first line of a statement, or of its decorators if it has any."""
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])

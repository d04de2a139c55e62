"""Sizes of tensors, written as axes: `M`, `2*N`, `N/2`, `heads*(D+1)`.

A size is an axis, a whole number, or arithmetic on both with `+ - * /` and parentheses. A division must leave no remainder.
Both the parent process and the workers evaluate sizes, so this module needs nothing but Python.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Mapping
from operator import add, floordiv, mul, sub

Size = int | str
"""A whole number, or an expression in axes."""


class SizeError(ValueError):
    """A size that cannot be read, or that has no value for the axes of a case. The message says why."""


def axes_of(size: Size) -> frozenset[str]:
    """The axes that a size is made of. Raises SizeError for text that is no size."""
    return frozenset(node.id for node in ast.walk(_parsed(str(size))) if isinstance(node, ast.Name))


def evaluate(size: Size, axes: Mapping[str, object]) -> int:
    """The number that a size stands for. Raises SizeError for a remainder, a negative number, or an axis that is no integer."""
    if isinstance(size, str) and type(value := axes.get(size)) is int:
        return value  # the common case: the size is an axis
    number = evaluate_bound(size, axes)
    if number < 0:
        raise SizeError(f"{size} is {number}{_at(size, axes)}; a size cannot be negative")
    return number


def evaluate_bound(size: Size, axes: Mapping[str, object]) -> int:
    """The number that a bound of values stands for. It may be negative. Raises SizeError."""
    return size if isinstance(size, int) else _value(_parsed(size), size, axes)


@functools.cache
def _parsed(text: str) -> ast.expr:
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        raise SizeError(f"{text!r:.80} is not a size; write an axis, a number, or arithmetic on both") from None
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED) or (isinstance(node, ast.Constant) and type(node.value) is not int):
            raise SizeError(
                f"{text!r:.80} is not a size; only axes, whole numbers, + - * / and parentheses are allowed"
            )
    return tree


_OPERATIONS: dict[type[ast.operator], Callable[[int, int], int]]
_OPERATIONS = {ast.Add: add, ast.Sub: sub, ast.Mult: mul, ast.Div: floordiv, ast.FloorDiv: floordiv}
_ALLOWED = (ast.BinOp, ast.UnaryOp, ast.Name, ast.Load, ast.Constant, ast.USub, *_OPERATIONS)


def _value(node: ast.expr, size: Size, axes: Mapping[str, object]) -> int:
    if isinstance(node, ast.Constant):
        assert isinstance(node.value, int)
        return node.value
    if isinstance(node, ast.Name):
        value = axes.get(node.id)
        if type(value) is not int:
            raise SizeError(f"{node.id} in the size {size} is {'not an axis' if value is None else 'not an integer'}")
        return value
    if isinstance(node, ast.UnaryOp):
        return -_value(node.operand, size, axes)
    assert isinstance(node, ast.BinOp)
    left, right = _value(node.left, size, axes), _value(node.right, size, axes)
    if isinstance(node.op, (ast.Div, ast.FloorDiv)) and right == 0:
        raise SizeError(f"{size} divides by zero{_at(size, axes)}")
    if isinstance(node.op, ast.Div) and left % right:
        raise SizeError(f"{size} is not a whole number{_at(size, axes)}")
    return _OPERATIONS[type(node.op)](left, right)


def _at(size: Size, axes: Mapping[str, object]) -> str:
    """` at N=7`: the values of the axes in a size."""
    named = [f"{axis}={axes[axis]}" for axis in sorted(axes_of(size))]
    return f" at {', '.join(named)}" if named else ""

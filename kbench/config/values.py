"""The values of one key of a sweep: sizes of an axis, values of a scalar, or words of a choice.

Every function takes the node of the values, and calls `report` with the place of each wrong value and what is allowed there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from kbench.config.document import Node, scalar
from kbench.config.schema import MAX_SIZE, expected
from kbench.errors import SourceLocation
from kbench.results.case import DTYPE_ALIASES, ITEMSIZE
from kbench.text.suggest import as_written, unknown

INTEGERS = "an integer, a list of integers, {pow2: [a, b]} or {start, stop, step}"

ReportIssue = Callable[[SourceLocation, str], None]


def read_integers(name: str, node: Node, report: ReportIssue, least: int = 0, why: str = "") -> Sequence[int]:
    """Sizes of an axis, or values of an integer scalar, from `least` to MAX_SIZE. `why` says why other numbers are wrong."""
    match node.plain:
        case {"pow2": [first, last]}:
            return [2**exponent for exponent in range(first, last + 1)]
        case {"start": start, "stop": stop, "step": step}:
            return range(start, stop + 1, step)
    values = []
    for element in node.elements:
        value = element.value
        if type(value) is not int:
            allowed = "an integer" + why if why or element is not node else INTEGERS
            report(element.where, expected(name, allowed, element.plain))
        elif not least <= value <= MAX_SIZE:
            allowed = f"at least {least}" if value < least else f"at most {MAX_SIZE}"
            report(element.where, expected(name, allowed, value))
        else:
            values.append(value)
    return values


def read_scalars(name: str, default: float, node: Node, report: ReportIssue) -> Sequence[bool | int | float]:
    """Values of a scalar, in the type of its default. Integers and text such as "1e-6" are numbers too."""
    if type(default) is int:
        return read_integers(name, node, report, -MAX_SIZE, f", like the default {default}")
    values: list[bool | float] = []
    for element in node.elements:
        value = scalar(element.value) if isinstance(element.value, str) else element.value
        if isinstance(value, bool) != isinstance(default, bool) or not isinstance(value, (int, float)):
            allowed = "true or false" if isinstance(default, bool) else "a number"
            report(element.where, expected(name, allowed, element.plain))
        elif not math.isfinite(value):
            report(element.where, expected(name, "a finite number", element.plain))
        else:
            # -0.0 becomes 0.0, the same case
            values.append(value if isinstance(value, bool) else float(value) + 0.0)
    return values


def read_words(name: str, meanings: Mapping[str, str], node: Node, report: ReportIssue) -> list[str]:
    """Words of a choice, or dtypes. `meanings` maps each word that may be written to the word that it stands for."""
    words = []
    for element in node.elements:
        if isinstance(element.value, str) and element.value in meanings:
            words.append(meanings[element.value])
        elif name != "dtype":
            report(element.where, f"{name}: {unknown('value', element.plain, list(meanings))}")
        elif isinstance(element.value, str) and DTYPE_ALIASES.get(element.value, element.value) in ITEMSIZE:
            choices = ", ".join(dict.fromkeys(meanings.values()))
            message = f"the operator does not list the dtype {as_written(element.plain)}"
            report(element.where, f"{message}; choose from {choices}, or add it to dtypes= of the operator")
        else:
            report(element.where, unknown("dtype", element.plain, list(meanings)))
    return words

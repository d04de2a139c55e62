"""The arguments of a script's function as columns of a case: sizes, numbers, words, and a dtype.

An argument may be any object. A word stands for each that is neither a size nor a number, and the column remembers which.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from kbench.contract.sizes import axes_of
from kbench.results.case import DTYPE_ALIASES, ITEMSIZE, LIKE_NUMBER, Value
from kbench.results.names import fault, taken
from kbench.text.printable import FORMULA_SIGNS

LONGEST_WORD = 60
LARGEST_SIZE = 2**62


@dataclass(frozen=True)
class ArgumentColumn:
    """An argument of the script's function, as a column of the results.

    argument  its name in the script
    name      the name of the column: the same, unless a column of the results has it already
    kind      `axis` (sizes), `scalar` (numbers or booleans), `choice` (words) or `dtype`
    values    what a case holds, with the object that the function is given
    """

    argument: str
    name: str
    kind: str
    values: dict[Value, Any] = field(default_factory=dict)

    def knows(self, given: Any) -> bool:
        """Whether a value of a case stands for this object."""
        return any(_same(known, given) for known in self.values.values())

    def value(self, given: Any) -> Value:
        """The value of a case that stands for this object."""
        return next(value for value, known in self.values.items() if _same(known, given))


def argument_columns(points: Sequence[Mapping[str, Any]]) -> list[ArgumentColumn]:
    """The columns of some points, in the order of their arguments."""
    names = list(dict.fromkeys(name for point in points for name in point))
    found: list[ArgumentColumn] = []
    for name in names:
        values = [point[name] for point in points if name in point]
        found.append(_column(name, values, {each.name for each in found}))
    return found


def _column(argument: str, values: Sequence[Any], used: set[str]) -> ArgumentColumn:
    dtypes = [dtype_of(value) for value in values]
    if all(dtypes) and "dtype" not in used:
        return ArgumentColumn(argument, "dtype", "dtype", dict(zip(dtypes, values, strict=True)))
    name = argument
    while name in used or name == "dtype" or taken(name) or fault(name):
        name += "_"
    plain = [_plain(value) for value in values]
    if all(type(value) is int and 0 <= value <= LARGEST_SIZE for value in plain) and _is_axis(name):
        return ArgumentColumn(argument, name, "axis", dict(zip(plain, values, strict=True)))
    if all(isinstance(value, bool) for value in plain):
        return ArgumentColumn(argument, name, "scalar", dict(zip(plain, values, strict=True)))
    if all(type(value) in (int, float) and abs(value) < LARGEST_SIZE for value in plain):
        made = int if all(type(value) is int for value in plain) else float
        return ArgumentColumn(argument, name, "scalar", dict(zip(map(made, plain), values, strict=True)))
    words: dict[Value, Any] = {}
    for value in values:
        words[word(value, words)] = value
    return ArgumentColumn(argument, name, "choice", words)


def _plain(value: Any) -> Any:
    """The Python number that a number of numpy stands for; anything else as it is."""
    return value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") and not value.shape else value


def _is_axis(name: str) -> bool:
    try:
        return bool(axes_of(name))
    except ValueError:
        return False


def dtype_of(value: Any) -> str | None:
    """The dtype that an argument names: a torch.dtype, or its usual name."""
    text = str(value).removeprefix("torch.") if isinstance(value, (str, torch.dtype)) else ""
    text = DTYPE_ALIASES.get(text, text)
    return text if text in ITEMSIZE else None


def word(value: Any, others: Mapping[Value, Any]) -> str:
    """A word for an object: its text without signs that a config or a CSV could misread. Objects whose words are the same get
    numbers, unless they are equal."""
    text = value if isinstance(value, str) else getattr(value, "__name__", None) or str(value)
    text = text.removeprefix("torch.")
    text = re.sub(r"\s*[,;\[\](){}]+\s*", " ", text).strip().lstrip("".join(FORMULA_SIGNS))
    text = re.sub(r"\s+", "-" if not isinstance(value, str) else " ", text)[:LONGEST_WORD].strip() or "empty"
    text = "".join(sign for sign in text if sign.isprintable())
    if LIKE_NUMBER.fullmatch(text) or text.lower() in ("true", "false"):
        text = f"'{text}'"  # a reader of the CSV would take it for a number or a boolean
    found, number = text, 1
    while found in others and not _same(others[found], value):
        number += 1
        found = f"{text}-{number}"
    return found


def _same(a: Any, b: Any) -> bool:
    try:
        return a is b or (type(a) is type(b) and bool(a == b))
    except (ValueError, RuntimeError):  # arrays and tensors of several elements
        return False


def words_of(values: Iterable[Any]) -> dict[str, Any]:
    """A different word for each object, in the same order."""
    found: dict[Value, Any] = {}
    for value in values:
        found[word(value, found)] = value
    return {str(each): value for each, value in found.items()}

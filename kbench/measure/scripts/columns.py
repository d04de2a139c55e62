"""The arguments of a script's function as columns of a case: numbers, words, and a dtype.

An argument may be any object. A word stands for each that is no number, and the column remembers which.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from kbench.contract.names import fault, taken
from kbench.results.case import DTYPE_ALIASES, ITEMSIZE, LIKE_NUMBER, Value
from kbench.text.printable import FORMULA_SIGNS

LONGEST_WORD = 60
LARGEST_NUMBER = 2**62

Number = type[bool] | type[int] | type[float]


@dataclass(frozen=True)
class ArgumentColumn:
    """An argument of the script's function, as a column of the results.

    argument  its name in the script
    name      the name of the column: the same, unless a column of the results has it already
    number    the type of its values, if they are numbers or booleans
    words     the objects of a column of words, by their words
    """

    argument: str
    name: str
    number: Number | None = None
    words: dict[str, Any] = field(default_factory=dict)

    def value(self, argument: Any) -> Value:
        """The value of a case that stands for an object."""
        if self.name == "dtype":
            return dtype_of(argument)
        if self.number and _number_type([argument]):
            plain = _plain(argument)
            number = self.number(plain)
            return number if number == plain else plain  # 1.5 is no integer
        name = word(argument, self.words)
        self.words[name] = argument
        return name


def argument_columns(points: Sequence[Mapping[str, Any]]) -> list[ArgumentColumn]:
    """The columns of some points, in the order of their arguments."""
    columns: dict[str, ArgumentColumn] = {}
    for argument in dict.fromkeys(name for point in points for name in point):
        values = [point[argument] for point in points if argument in point]
        name = argument
        if "dtype" not in columns and all(map(dtype_of, values)):
            name = "dtype"
        else:
            while name in columns or name == "dtype" or taken(name) or fault(name):
                name += "_"
        columns[name] = ArgumentColumn(argument, name, _number_type(values))
    return list(columns.values())


def _number_type(values: Sequence[Any]) -> Number | None:
    """The type that all values have as numbers; None if one of them is no number."""
    kinds = {type(value) for value in map(_plain, values)}
    if not kinds <= {int, float, bool} or not all(abs(_plain(value)) < LARGEST_NUMBER for value in values):
        return None  # NaN is not smaller either
    if bool in kinds:
        return bool if kinds == {bool} else None
    return int if kinds == {int} else float


def _plain(value: Any) -> Any:
    """The Python number that a number of numpy stands for; anything else as it is."""
    return value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") and not value.shape else value


def dtype_of(value: Any) -> str | None:
    """The dtype that an argument names: a torch.dtype, or its usual name."""
    text = str(value).removeprefix("torch.") if isinstance(value, (str, torch.dtype)) else ""
    text = DTYPE_ALIASES.get(text, text)
    return text if text in ITEMSIZE else None


def word(value: Any, words: Mapping[str, Any]) -> str:
    """A word for an object, that no config or CSV misreads. Unequal objects of one word get numbers."""
    text = value if isinstance(value, str) else getattr(value, "__name__", None) or str(value)
    text = text.removeprefix("torch.")
    if not isinstance(value, str):
        text = re.sub(r"['\"]|(?<=:)\s+", "", text)  # "{'M': 8}" would become "'M':-8"
    text = re.sub(r"\s*[,;\[\](){}]+\s*", " ", text).strip().lstrip("".join(FORMULA_SIGNS))
    text = re.sub(r"\s+", "-" if not isinstance(value, str) else " ", text)[:LONGEST_WORD].strip() or "empty"
    text = "".join(sign for sign in text if sign.isprintable())
    if LIKE_NUMBER.fullmatch(text) or text.lower() in ("true", "false"):
        text = f"'{text}'"  # a reader of the CSV would take it for a number or a boolean
    name, number = text, 1
    while name in words and not same(words[name], value):
        number += 1
        name = f"{text}-{number}"
    return name


def same(a: Any, b: Any) -> bool:
    """Whether two values of an argument are equal."""
    try:
        return a is b or (type(a) is type(b) and bool(a == b))
    except (ValueError, RuntimeError):  # arrays and tensors of several elements
        return False


def words_of(values: Iterable[Any]) -> dict[str, Any]:
    """A different word for each object, in the same order."""
    words: dict[str, Any] = {}
    for value in values:
        words[word(value, words)] = value
    return words

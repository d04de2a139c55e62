"""Reads JSON and keeps the place of each value, so that a fault can name the line and the column of the wrong word."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from kbench.files import TooLong, Unreadable, read_bytes
from kbench.sources.fault import SourceFault
from kbench.text.suggest import as_written

MAX_BYTES = 64 << 20
"""Limit for a JSON file. Solutions hold the source code of kernels."""


@dataclass(frozen=True)
class JsonValue:
    """A value of a JSON file. Its methods raise SourceFault with the place of a value that is not as it should be.

    keys   the keys and indices that lead to it
    text   the JSON text that it is part of
    line   the line of the file before the first line of `text`
    root   how a message calls the value that `text` stands for
    """

    value: Any
    file: Path
    text: str = field(repr=False)
    line: int = 0
    keys: tuple[str | int, ...] = ()
    root: str = "the file"

    def at(self, key: str | int) -> JsonValue:
        """A member of an object or a list. None stands for a key that is missing."""
        value = self.value[key] if isinstance(key, int) else self.value.get(key)
        return JsonValue(value, self.file, self.text, self.line, (*self.keys, key), self.root)

    def __contains__(self, key: str) -> bool:
        return self.value.get(key) is not None

    @property
    def name(self) -> str:
        """How a message calls it: `inputs.x.shape`."""
        return ".".join(map(str, self.keys)) or self.root

    def fault(self, message: str) -> SourceFault:
        return SourceFault(_place(self), message)

    def expect(self, right: bool, what: str) -> None:
        if not right:
            absent = self.value is None and bool(self.keys) and isinstance(self.keys[-1], str)
            is_ = "is missing" if absent else "is null" if self.value is None else f"is {as_written(self.value)}"
            raise self.fault(f"{self.name} {is_}; it must be {what}")

    def mapping(self) -> dict[str, JsonValue]:
        """The members of an object."""
        self.expect(isinstance(self.value, dict), "an object")
        return {key: self.at(key) for key in self.value}

    def elements(self) -> list[JsonValue]:
        """The elements of a list."""
        self.expect(isinstance(self.value, list), "a list")
        return [self.at(number) for number in range(len(self.value))]

    def word(self, allowed: Sequence[str] = ()) -> str:
        """A string that is not empty, and one of `allowed` if there are any."""
        right = isinstance(self.value, str) and bool(self.value)
        self.expect(
            right and (not allowed or self.value in allowed), f"one of {', '.join(allowed)}" if allowed else "text"
        )
        return str(self.value)

    def whole(self) -> int:
        """A whole number that is not negative."""
        right = isinstance(self.value, int) and not isinstance(self.value, bool) and self.value >= 0
        self.expect(right, "a whole number that is not negative")
        return int(self.value)

    def number(self) -> int | float | bool:
        """A number or a boolean."""
        self.expect(isinstance(self.value, (int, float)), "a number, true or false")
        number: int | float | bool = self.value
        return number


def read_json(file: Path) -> JsonValue:
    """The value in a file. Raises SourceFault."""
    return _parsed(file, _read(file), 0, "the file")


def read_json_lines(file: Path) -> Iterator[JsonValue]:
    """The value in each line of a file that is not blank. Raises SourceFault."""
    for number, line in enumerate(_read(file).split("\n")):
        if line.strip():
            yield _parsed(file, line, number, "the line")


def _read(file: Path) -> str:
    try:
        return read_bytes(file, MAX_BYTES).decode("utf-8-sig")
    except TooLong as error:
        raise SourceFault(str(file), str(error)) from None
    except Unreadable as error:
        raise SourceFault(str(file), f"{error}; name a JSON file") from None
    except OSError as error:
        raise SourceFault(str(file), (error.strerror or str(error)).lower()) from None
    except UnicodeDecodeError:
        raise SourceFault(str(file), "not UTF-8 text; save the file as UTF-8") from None


def _parsed(file: Path, text: str, line: int, root: str) -> JsonValue:
    try:
        return JsonValue(json.loads(text), file, text, line, root=root)
    except json.JSONDecodeError as error:
        raise SourceFault(f"{file}:{error.lineno + line}:{error.colno}", f"not JSON: {error.msg.lower()}") from None
    except (RecursionError, ValueError) as error:  # ValueError: a number of too many digits
        raise SourceFault(f"{file}:{line + 1}", f"not readable as JSON: {error}") from None


def _place(value: JsonValue) -> str:
    """`file:line:column` of a value, or of the innermost object around it that exists."""
    try:
        node = yaml.compose(value.text, Loader=yaml.SafeLoader)  # JSON is YAML
    except (yaml.YAMLError, RecursionError):
        return f"{value.file}:{value.line + 1}"
    if node is None:
        return f"{value.file}:{value.line + 1}"
    mark = node.start_mark
    for key in value.keys:
        found = None
        if isinstance(node, yaml.MappingNode):
            found = next(((name, child) for name, child in node.value if name.value == key), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(key, int):
            found = (node.value[key], node.value[key])
        if found is None:
            break
        mark, node = found[0].start_mark, found[1]
    return f"{value.file}:{mark.line + 1 + value.line}:{mark.column + 1}"

"""A YAML document, a Python mapping or a CSV of shapes, in which each value knows its place: an error can point to the word.

Scalars are those of YAML 1.2: `on` and `12:30` are words, and `1e-6` is a number.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kbench.errors import ConfigError, ConfigIssue, SourceLocation
from kbench.text.words import plural

Scalar = int | float | str | bool | None
Location = tuple[int | str, ...]
"""The path from the root to a value: keys and list indices."""

INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
FLOAT = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
WORDS: dict[str, Scalar] = {"": None, "~": None, "null": None, "true": True, "false": False}

WEIGHT = "weight"
"""The column of a CSV of shapes that says how often a shape occurs."""

_UNCLEAR = ("<block end>", "<document start>", "mapping values are not allowed", "could not find")
"""Parts of PyYAML's messages that do not tell what to look for."""


@dataclass(frozen=True)
class Node:
    """A value and its place. `key` is the place of its key, or of the value itself where it has no key."""

    value: Scalar | list[Node] | dict[str, Node]
    where: SourceLocation
    key: SourceLocation

    @property
    def entries(self) -> dict[str, Node]:
        """The entries of a mapping. Empty for any other value."""
        return self.value if isinstance(self.value, dict) else {}

    def section(self, key: str) -> dict[str, Node]:
        """The entries of the mapping under a key. Empty if the key is missing."""
        return self.entries[key].entries if key in self.entries else {}

    @property
    def elements(self) -> list[Node]:
        """The elements of a list. Any other value counts as a list of one."""
        return self.value if isinstance(self.value, list) else [self]

    @property
    def plain(self) -> Any:
        """The value without places, as `yaml.safe_load` would return it."""
        if isinstance(self.value, dict):
            return {key: node.plain for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain for node in self.value]
        return self.value

    def at(self, location: Location) -> Node:
        """The value at a location, or the last value on the path that exists."""
        node = self
        for step in location:
            if isinstance(step, str) and step in node.entries:
                node = node.entries[step]
            elif isinstance(step, int) and isinstance(node.value, list):
                node = node.value[step]
        return node

    def merged(self, over: Node, depth: int) -> Node:
        """This value with the entries of `over`. Mappings merge `depth` levels down; below that they replace each other. If
        this value is a list, `over` applies to each of its elements."""
        if not depth or not isinstance(over.value, dict):
            return over
        if isinstance(self.value, list):
            return Node([element.merged(over, depth) for element in self.value], self.where, self.key)
        entries = self.entries
        new = {
            key: entries[key].merged(node, depth - 1) if key in entries else node for key, node in over.value.items()
        }
        return Node(entries | new, self.where, self.key)


def read_text(path: Path) -> str:
    """The text of a config file. Raises ConfigError if it cannot be read."""
    where = SourceLocation(str(path))
    if path.suffix == ".py":
        message = (
            "is a Python file, not a YAML config; give a plug-in with --plugin, or measure a script with kbench run"
        )
        raise ConfigError.at(where, message)
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        message = f"{(error.strerror or str(error)).lower()}; name a YAML config"
        raise ConfigError.at(where, message) from None
    except UnicodeDecodeError:
        raise ConfigError.at(where, "is not UTF-8 text; save the file as UTF-8") from None


def parse(text: str, source: str, where: SourceLocation | None = None) -> Node:
    """The document in `text`. Places are lines of `source`, or always `where` if that is given. Raises ConfigError."""

    def place(mark: Any) -> SourceLocation:
        return where or SourceLocation(source, mark.line + 1, mark.column + 1)

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        raise ConfigError.at(place(error.problem_mark or error.context_mark), _problem(error, where is None)) from None
    except yaml.YAMLError as error:  # a character that YAML does not allow
        raise ConfigError.at(where or SourceLocation(source), f"{error}; remove it") from None
    if root is None:
        message = (
            "the file has no keys (it is empty or holds only comments); `kbench init` writes a config to start from"
        )
        raise ConfigError.at(where or SourceLocation(source), message)
    issues: list[ConfigIssue] = []
    document = _located(root, place, issues)
    if issues:
        raise ConfigError(issues)
    return document


def _problem(error: yaml.MarkedYAMLError, with_line: bool) -> str:
    since = f" from line {error.context_mark.line + 1}" if error.context_mark and with_line else ""
    message = ", ".join(part for part in (error.context and error.context + since, error.problem) if part)
    if "'\\t'" in message:
        return "found a tab; indent YAML with spaces"
    unclear = any(phrase in message for phrase in _UNCLEAR)
    return message + ("; check the brackets, quotes and indentation up to here" if unclear else "")


def _located(
    node: yaml.Node,
    place: Callable[[Any], SourceLocation],
    issues: list[ConfigIssue],
    key: SourceLocation | None = None,
) -> Node:
    """PyYAML's node with aliases written out. Adds to `issues` what a config cannot hold."""
    where = place(node.start_mark)
    if node.tag not in yaml.SafeLoader.yaml_constructors:
        tag = node.tag.replace("tag:yaml.org,2002:", "!!")
        issues.append(ConfigIssue(where, f"YAML tag {tag} is not allowed; remove it"))
    value: Any
    if isinstance(node, yaml.MappingNode):
        value = {}
        for key_node, value_node in node.value:
            name, key_place = str(key_node.value), place(key_node.start_mark)
            if not isinstance(key_node, yaml.ScalarNode):
                issues.append(ConfigIssue(key_place, "a key must be a word"))
            if name in value:
                issues.append(ConfigIssue(key_place, f'duplicate key "{name}"'))
            value[name] = _located(value_node, place, issues, key_place)
    elif isinstance(node, yaml.SequenceNode):
        value = [_located(child, place, issues) for child in node.value]
    else:
        quoted = isinstance(node, yaml.ScalarNode) and node.style is not None
        value = node.value if quoted else scalar(node.value)
    return Node(value, where, key or where)


def scalar(text: str) -> Scalar:
    """The value of text without quotes."""
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    if INTEGER.fullmatch(text):
        return int(text)
    return float(text) if FLOAT.fullmatch(text) else text


def from_mapping(value: Any, place: str) -> Node:
    """The document that a Python mapping means. Its places are keys such as `config["sweep"]["N"]`. Tuples, sets, ranges and
    arrays count as lists. Numbers may be numpy's and dtypes torch's. Raises ConfigError."""
    where = SourceLocation(place)
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return Node({str(key): from_mapping(node, f'{place}["{key}"]') for key, node in value.items()}, where, where)
    if isinstance(value, (list, tuple, set, frozenset, range)):
        return Node([from_mapping(node, f"{place}[{index}]") for index, node in enumerate(value)], where, where)
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    elif type(value).__name__ == "dtype":
        value = str(value).removeprefix("torch.")
    if not isinstance(value, (int, float, str, type(None))):
        message = f"a config cannot hold a value of type {type(value).__name__}; use numbers, words and lists of them"
        raise ConfigError.at(where, message)
    return Node(value, where, where)


def read_shapes(path: Path) -> Node:
    """The lines of a CSV of shapes (`kbench run rmsnorm --shapes trace.csv`), as the list of mappings of a sweep.

    The first line names columns of the operator: axes, scalars, choices, `mode` and `dtype`, and also `model` and `tokens` as
    in a sweep. Each further line is a shape. The column `weight` says how often the shape occurs; without it, each line counts
    once. Raises ConfigError.
    """
    source = str(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, skipinitialspace=True)
            lines = [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader if any(cells)]
    except OSError as error:
        message = f"{(error.strerror or str(error)).lower()}; name a CSV with a column for each axis"
        raise ConfigError.at(source, message) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError.at(source, f"is no CSV in UTF-8: {error}") from None
    if len(lines) < 2:
        message = "expected the names of the columns, for example M,N,weight, and a line for each shape"
        raise ConfigError.at(source, message)
    (first, names), *shapes = lines
    if len(names) == 1 and {";", "\t"} & {*names[0]}:
        message = "expected commas between the columns; save the file with commas"
        raise ConfigError.at(SourceLocation(source, first, 1), message)
    if len(set(names)) < len(names):
        raise ConfigError.at(SourceLocation(source, first, 1), "two columns have the same name")
    points = []
    for number, cells in shapes:
        line = SourceLocation(source, number, 1)
        if len(cells) != len(names):
            numbers = f"expected {plural(len(names), 'field')}, as in the first line; got {len(cells)}"
            raise ConfigError.at(line, f"{numbers}; repair the line")
        entries = {}
        for index, (name, cell) in enumerate(zip(names, cells, strict=True)):
            place, head = (
                SourceLocation(source, n, _column(row, index)) for n, row in ((number, cells), (first, names))
            )
            # a list: a cell takes no range
            entries[name] = Node([Node(scalar(cell), place, place)], place, head)
        points.append(Node(entries, line, line))
    return Node(points, SourceLocation(source), SourceLocation(source))


def _column(cells: list[str], index: int) -> int:
    """Where a cell begins, if no cell has quotes or blanks around it."""
    return 1 + sum(len(cell) + 1 for cell in cells[:index])

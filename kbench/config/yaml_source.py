"""Reads YAML and keeps the place of each value, so that an error can point to the wrong word.

Supports the JSON-like part of YAML 1.2: mappings with word keys, lists, strings, numbers, booleans and null. Tags are
errors, so no file can name code. A Python mapping becomes the same tree. This module knows nothing about benchmarks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kbench.errors import ConfigError, ConfigIssue, SourceLocation
from kbench.files import TooLong, Unreadable, read_bytes
from kbench.text.suggest import as_written

Scalar = int | float | str | bool | None
Location = tuple[int | str, ...]
"""The path from the root to a value: keys and list indices."""

MAX_BYTES = 1 << 20
MAX_VALUES = 100_000
"""Limit of the keys and values in a document, also after its aliases are written out. A small file of nested aliases can
mean billions of values."""

MAX_DEPTH = 20
"""Limit of the levels of a Python mapping. A mapping may contain itself."""

_NEEDS_A_HINT = ("<block end>", "<document start>", "mapping values are not allowed", "could not find")
"""Parts of PyYAML's messages that do not tell what to look for."""

INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,99})")
FLOAT = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
SCALARS: dict[str, Scalar] = {"": None, "~": None, "null": None, "true": True, "false": False}


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
        for part in location:
            if isinstance(part, str) and part in node.entries:
                node = node.entries[part]
            elif isinstance(part, int) and isinstance(node.value, list):
                node = node.value[part]
        return node


def read_config_text(path: Path) -> str:
    """The text of a config file. Raises ConfigError if it cannot be read."""
    if path.suffix == ".py":
        what = "is a Python file, not a YAML config; give a plug-in with --plugin, or measure a script with kbench run"
        raise ConfigError([ConfigIssue(SourceLocation(str(path)), what)])
    try:
        data = read_bytes(path, MAX_BYTES)
    except TooLong as error:
        raise ConfigError([ConfigIssue(SourceLocation(str(path)), f"{error}; write long lists as ranges")]) from None
    except Unreadable as error:
        raise ConfigError([ConfigIssue(SourceLocation(str(path)), f"{error}; name a YAML config")]) from None
    except OSError as error:
        raise ConfigError([ConfigIssue(SourceLocation(str(path)), (error.strerror or str(error)).lower())]) from None
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        lines = data[: error.start].split(b"\n")
        where = SourceLocation(str(path), len(lines), len(lines[-1].decode(errors="replace")) + 1)
        raise ConfigError(
            [ConfigIssue(where, f"not UTF-8 text (byte 0x{data[error.start]:02x}); save the file as UTF-8")]
        ) from None


def from_mapping(value: Any, source: str) -> Node:
    """The document that a Python mapping means. Its places are keys such as `config["sweep"]["N"]`. Tuples, sets and ranges
    count as lists. Numbers may be numpy's and dtypes torch's. Raises ConfigError."""
    builder = _Mapping()
    document = builder.build(value, source)
    if builder.problems:
        raise ConfigError(builder.problems)
    return document


def parse(text: str, source: str, where: SourceLocation | None = None) -> Node:
    """The document in `text`. Places are lines of `source`, or always `where` if that is given. Raises ConfigError."""

    def place(mark: Any) -> SourceLocation:
        return where or SourceLocation(source, mark.line + 1, mark.column + 1)

    try:
        root = yaml.compose(text, Loader=_Loader)
        if root is None:
            what = "the file has no keys (it is empty or holds only comments)"
            remedy = "`kbench init` writes a config to start from"
            raise ConfigError([ConfigIssue(where or SourceLocation(source), f"{what}; {remedy}")])
        builder = _Builder(place)
        document = builder.build(root)
        if builder.problems:
            raise ConfigError(builder.problems)
        return document
    except yaml.MarkedYAMLError as error:
        since = f" from line {error.context_mark.line + 1}" if error.context_mark and not where else ""
        message = ", ".join(part for part in (error.context and error.context + since, error.problem) if part)
        if "'\\t'" in message:
            message = "found a tab; indent YAML with spaces"
        elif any(words in message for words in _NEEDS_A_HINT):
            message += "; check the brackets, quotes and indentation up to here"
        raise ConfigError([ConfigIssue(place(error.problem_mark or error.context_mark), message)]) from None
    except yaml.reader.ReaderError as error:
        before = text[: error.position].split("\n")
        here = where or SourceLocation(source, len(before), len(before[-1]) + 1)
        raise ConfigError(
            [ConfigIssue(here, f"character {code_point(text[error.position])} is not allowed; remove it")]
        ) from None
    except RecursionError:
        raise ConfigError([ConfigIssue(where or SourceLocation(source), "nested too deeply to read")]) from None


class _Loader(yaml.SafeLoader):
    count = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        self.count += 1
        if self.count > MAX_VALUES:
            what = f"more than {MAX_VALUES:,} keys and values are not allowed; write long lists as ranges"
            raise yaml.composer.ComposerError(None, None, what, event.start_mark)
        if getattr(event, "tag", None) is not None:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            raise yaml.composer.ComposerError(None, None, f"YAML tag {tag} is not allowed; remove it", event.start_mark)
        return super().compose_node(parent, index)


class _Builder:
    """Turns PyYAML's graph into a tree of Nodes. Writes aliases out. Reports duplicate keys and loops as errors."""

    def __init__(self, place: Callable[[Any], SourceLocation]) -> None:
        self.place = place
        self.problems: list[ConfigIssue] = []
        self.open: set[int] = set()
        self.count = 0

    def build(self, node: yaml.Node, key: SourceLocation | None = None) -> Node:
        where = self.place(node.start_mark)
        self.count += 1
        if self.count > MAX_VALUES:
            what = f"with its aliases written out, the config has more than {MAX_VALUES:,} values; use fewer aliases"
            raise ConfigError([ConfigIssue(where, what)])
        if id(node) in self.open:
            raise ConfigError([ConfigIssue(where, "this value contains itself through an alias")])
        self.open.add(id(node))
        value: Any
        if isinstance(node, yaml.MappingNode):
            value = self.mapping(node)
        elif isinstance(node, yaml.SequenceNode):
            value = [self.build(child) for child in node.value]
        else:
            quoted = isinstance(node, yaml.ScalarNode) and node.style is not None
            value = node.value if quoted else self.scalar(node.value, where)
            self.expect_printable(value, where)
        self.open.remove(id(node))
        return Node(value, where, key or where)

    def mapping(self, node: yaml.MappingNode) -> dict[str, Node]:
        entries: dict[str, Node] = {}
        for key_node, value_node in node.value:
            key = self.place(key_node.start_mark)
            if not isinstance(key_node, yaml.ScalarNode):
                self.problems.append(ConfigIssue(key, "a key must be a string"))
                continue
            name = str(key_node.value)
            if name == "<<" and key_node.style is None:
                self.problems.append(ConfigIssue(key, "merge keys (<<) are not supported; write the keys out"))
                continue
            self.expect_printable(name, key)
            if name in entries:
                self.problems.append(ConfigIssue(key, f'duplicate key "{name}"'))
            entries[name] = self.build(value_node, key)
        return entries

    def expect_printable(self, value: Any, where: SourceLocation) -> None:
        """Report a character that cannot be printed: words appear on terminals and in file names."""
        if isinstance(value, str) and not value.isprintable():
            sign = next(sign for sign in value if not sign.isprintable())
            self.problems.append(
                ConfigIssue(
                    where, f"{as_written(value)} contains the unprintable character {code_point(sign)}; remove it"
                )
            )

    def scalar(self, text: str, where: SourceLocation) -> Scalar:
        if text.lower() in SCALARS:
            return SCALARS[text.lower()]
        if text.lower() in ("yes", "no", "on", "off"):  # some YAML readers take them for booleans, others for words
            self.problems.append(ConfigIssue(where, f'"{text}" is ambiguous in YAML; write true or false, or quote it'))
        if INTEGER.fullmatch(text):
            return int(text)
        return float(text) if FLOAT.fullmatch(text) else text


class _Mapping:
    """Turns Python values into a tree of Nodes."""

    def __init__(self) -> None:
        self.problems: list[ConfigIssue] = []
        self.count = 0

    def build(self, value: Any, place: str, depth: int = 0) -> Node:
        where = SourceLocation(place)
        self.count += 1
        if depth > MAX_DEPTH:
            what = f"nested too deeply; at most {MAX_DEPTH} levels are allowed"
            raise ConfigError([ConfigIssue(where, what)])
        if self.count > MAX_VALUES:
            what = f"more than {MAX_VALUES:,} values are not allowed; write long lists as ranges"
            raise ConfigError([ConfigIssue(where, what)])
        if isinstance(value, Mapping):
            for key in value:
                if not isinstance(key, str):
                    self.problems.append(ConfigIssue(where, f"the key {key!r} is not a string; keys must be strings"))
            entries = {key: each for key, each in value.items() if isinstance(key, str)}
            return Node({k: self.build(v, f'{place}["{k}"]', depth + 1) for k, v in entries.items()}, where, where)
        if isinstance(value, (list, tuple, set, frozenset, range)):
            return Node([self.build(v, f"{place}[{n}]", depth + 1) for n, v in enumerate(value)], where, where)
        if type(value).__name__ == "dtype" and str(value).startswith("torch."):
            value = str(value).removeprefix("torch.")
        elif not isinstance(value, (int, float, str, type(None))) and hasattr(value, "item"):
            with suppress(ValueError, RuntimeError):  # an array or a tensor of several elements
                value = value.item()  # a numpy number
        elif isinstance(value, float):
            value = float(value)  # numpy's float64 is a float that YAML cannot write
        elif isinstance(value, os.PathLike):
            value = os.fspath(value)
        if not isinstance(value, (int, float, str, type(None))):
            self.problems.append(
                ConfigIssue(
                    where,
                    f"a config cannot hold a value of type {type(value).__name__}; use numbers, words and lists of them",
                )
            )
            value = None
        return Node(value, where, where)


def code_point(sign: str) -> str:
    """The name of a character that should not be printed: `U+001B`."""
    return f"U+{ord(sign):04X}"

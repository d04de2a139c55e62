"""YAML whose every value remembers where it stands, so that an error can point at the word that is wrong.

Reads the JSON-like part of YAML 1.2: mappings with word keys, lists, strings, numbers, booleans and null. Tags are
refused, so nothing in a file can name code. `check` holds the result against a pydantic model and translates what
pydantic finds into sentences with a place. This module knows nothing about benchmarks.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import BaseModel, ValidationError

Scalar = int | float | str | bool | None
Location = tuple[int | str, ...]
"""The way from the root to a value: keys and list indices."""

MAX_BYTES = 1 << 20
MAX_VALUES = 100_000
"""Values in a document with its aliases written out: a small file of nested aliases can stand for billions."""

INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,99})")
FLOAT = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
WORDS: dict[str, Scalar] = {"": None, "~": None, "null": None, "true": True, "false": False}


@dataclass(frozen=True, order=True)
class Where:
    """A place that an error can point to: `file:line:column`, or an option of the command line as it was written."""

    source: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}" if self.line else self.source


class Problem(NamedTuple):
    where: Where
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


class ConfigError(Exception):
    """What is wrong with a config: every problem found, sorted by place, one per line."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(sorted(set(problems)))
        super().__init__("\n".join(map(str, self.problems)))


@dataclass(frozen=True)
class Node:
    """A value and its place. `key` is the place of the key that leads to it, where there is one."""

    value: Scalar | list[Node] | dict[str, Node]
    where: Where
    key: Where

    @property
    def entries(self) -> dict[str, Node]:
        """The entries of a mapping; none for anything else."""
        return self.value if isinstance(self.value, dict) else {}

    def section(self, key: str) -> dict[str, Node]:
        """The entries of the mapping under a key; none where there is no such key."""
        return self.entries[key].entries if key in self.entries else {}

    @property
    def elements(self) -> list[Node]:
        """The elements of a list; anything else is a list of one."""
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
        """The value at a location, or the last one on the way there."""
        node = self
        for part in location:
            if isinstance(part, str) and part in node.entries:
                node = node.entries[part]
            elif isinstance(part, int) and isinstance(node.value, list):
                node = node.value[part]
        return node


def read(path: Path) -> str:
    """The text of a config file. Raises ConfigError when there is none."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError([Problem(Where(str(path)), (error.strerror or str(error)).lower())]) from None
    if len(data) > MAX_BYTES:
        raise ConfigError([Problem(Where(str(path)), f"larger than {MAX_BYTES >> 20} MiB; is this a config?")])
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        lines = data[: error.start].split(b"\n")
        where = Where(str(path), len(lines), len(lines[-1].decode(errors="replace")) + 1)
        raise ConfigError([Problem(where, f"not UTF-8 text (byte 0x{data[error.start]:02x})")]) from None


def parse(text: str, source: str, where: Where | None = None) -> Node:
    """The document in `text`. All places are in `source`, or are `where` if that is given. Raises ConfigError."""

    def place(mark: Any) -> Where:
        return where or Where(source, mark.line + 1, mark.column + 1)

    try:
        root = yaml.compose(text, Loader=_Loader)
        if root is None:
            raise ConfigError([Problem(where or Where(source), "the file is empty")])
        builder = _Builder(place)
        document = builder.build(root)
        if builder.problems:
            raise ConfigError(builder.problems)
        return document
    except yaml.MarkedYAMLError as error:
        since = f" from line {error.context_mark.line + 1}" if error.context_mark and not where else ""
        message = ", ".join(part for part in (error.context and error.context + since, error.problem) if part)
        if "'\\t'" in message:
            message = "found a tab; YAML is indented with spaces"
        raise ConfigError([Problem(place(error.problem_mark or error.context_mark), message)]) from None
    except yaml.reader.ReaderError as error:
        before = text[: error.position].split("\n")
        here = where or Where(source, len(before), len(before[-1]) + 1)
        raise ConfigError([Problem(here, f"character U+{ord(text[error.position]):04X} is not allowed")]) from None
    except RecursionError:
        raise ConfigError([Problem(where or Where(source), "nested too deeply")]) from None


class _Loader(yaml.SafeLoader):
    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if getattr(event, "tag", None) is not None:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            raise yaml.composer.ComposerError(None, None, f"YAML tag {tag} is not allowed", event.start_mark)
        return super().compose_node(parent, index)


class _Builder:
    """Turns PyYAML's graph into a tree of Nodes: aliases written out, duplicate keys and loops refused."""

    def __init__(self, place: Callable[[Any], Where]) -> None:
        self.place = place
        self.problems: list[Problem] = []
        self.open: set[int] = set()
        self.count = 0

    def build(self, node: yaml.Node, key: Where | None = None) -> Node:
        where = self.place(node.start_mark)
        self.count += 1
        if self.count > MAX_VALUES:
            raise ConfigError([Problem(where, f"more than {MAX_VALUES:,} values once its aliases are written out")])
        if id(node) in self.open:
            raise ConfigError([Problem(where, "this value contains itself through an alias")])
        self.open.add(id(node))
        value: Any
        if isinstance(node, yaml.MappingNode):
            value = self.mapping(node)
        elif isinstance(node, yaml.SequenceNode):
            value = [self.build(child) for child in node.value]
        else:
            quoted = isinstance(node, yaml.ScalarNode) and node.style is not None
            value = node.value if quoted else self.scalar(node.value, where)
        self.open.remove(id(node))
        return Node(value, where, key or where)

    def mapping(self, node: yaml.MappingNode) -> dict[str, Node]:
        entries: dict[str, Node] = {}
        for key_node, value_node in node.value:
            key = self.place(key_node.start_mark)
            if not isinstance(key_node, yaml.ScalarNode):
                self.problems.append(Problem(key, "a key must be a word"))
                continue
            name = str(key_node.value)
            if name == "<<" and key_node.style is None:
                self.problems.append(Problem(key, "merge keys (<<) are not supported; write the keys out"))
                continue
            if name in entries:
                self.problems.append(Problem(key, f'duplicate key "{name}"'))
            entries[name] = self.build(value_node, key)
        return entries

    def scalar(self, text: str, where: Where) -> Scalar:
        if text.lower() in WORDS:
            return WORDS[text.lower()]
        if text.lower() in ("yes", "no", "on", "off"):  # booleans to some YAML readers, words to others
            self.problems.append(Problem(where, f'"{text}" is ambiguous in YAML; write true or false, or quote it'))
        if INTEGER.fullmatch(text):
            return int(text)
        return float(text) if FLOAT.fullmatch(text) else text


EXPECTED = {
    "int_type": "an integer",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "a word",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
    "too_short": "{min_length} or more elements",
    "too_long": "{max_length} or fewer elements",
    "value_error": "{error}",
    "expected": "{forms}",
}
"""pydantic's types of error, as the end of the sentence "expected ..."."""


def check(model: type[BaseModel], document: Node, keys: Callable[[Location], Iterable[str]]) -> list[Problem]:
    """What keeps a document from being a `model`. `keys(location)` are the keys allowed in the mapping there.

    The tags of discriminated unions appear in pydantic's locations; ours are written `<tag>` and are dropped here.
    """
    try:
        model.model_validate(document.plain)
    except ValidationError as error:
        details = error.errors(include_url=False)
    else:
        return []
    problems: list[Problem] = []
    missing: dict[Location, Problem] = {}
    meant: set[Location] = set()
    for detail in details:
        location = tuple(part for part in detail["loc"] if not str(part).startswith("<"))
        node, parent = document.at(location), location[:-1]
        name = next((part for part in reversed(location) if isinstance(part, str)), "")
        context = detail.get("ctx", {})
        if detail["type"] == "missing":
            missing[location] = Problem(node.where, f'missing key "{name}"')
        elif detail["type"] == "extra_forbidden":
            known = candidates(name, keys(parent), document.at(parent).entries)
            meant.add((*parent, nearest(name, known) or ""))
            problems.append(Problem(node.key, unknown("key", name, known)))
        elif detail["type"] == "literal_error":
            known = re.findall(r"'([^']*)'", context["expected"])
            problems.append(Problem(node.where, unknown(name, detail["input"], known)))
        elif detail["type"] in EXPECTED:
            what = EXPECTED[detail["type"]].format(**context)
            problems.append(Problem(node.where, expected(name, what, detail["input"])))
        else:
            problems.append(Problem(node.where, f"{name}: {detail['msg']}"))
    # a misspelt key is one mistake, not an unknown key and a missing one
    return problems + [problem for location, problem in missing.items() if location not in meant]


def expected(name: str, what: str, got: Any) -> str:
    return f"{name + ': ' if name else ''}expected {what}; got {show(got)}"


def unknown(kind: str, word: Any, known: Sequence[str]) -> str:
    """`unknown provider "tritn"; did you mean "triton"?`, or else what there is."""
    near = nearest(str(word), known)
    if near:
        return f'unknown {kind} {show(word)}; did you mean "{near}"?'
    return f"unknown {kind} {show(word)}; there {'is' if len(known) == 1 else 'are'} {listing(known)}"


def nearest(word: str, known: Sequence[str]) -> str | None:
    """The known word that was probably meant: the same in another case, or the most similar one."""
    lower = {known_word.lower(): known_word for known_word in known}
    near = difflib.get_close_matches(word.lower(), lower, n=1)
    return lower[near[0]] if near else None


def candidates(word: str, known: Iterable[str], present: Iterable[str]) -> list[str]:
    """What a misspelt key of a mapping may have meant: one that is not there yet, if one is near."""
    absent = [key for key in known if key not in set(present)]
    return absent if nearest(word, absent) else list(known)


def listing(words: Sequence[str], limit: int = 16) -> str:
    more = f" and {len(words) - limit} more" if len(words) > limit else ""
    return (", ".join(words[:limit]) or "none") + more


def show(value: Any) -> str:
    """A value as the user may have written it, shortened."""
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."

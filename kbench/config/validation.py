"""Checks a document against a pydantic model. Each of pydantic's errors becomes a sentence with a place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from pydantic import BaseModel, ValidationError

from kbench.config.yaml_source import Location, Node
from kbench.errors import MOST_ISSUES, ConfigIssue
from kbench.text.suggest import as_written, candidates, nearest, unknown

EXPECTED = {
    "bool_type": "true or false",
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


def validate(model: type[BaseModel], document: Node, keys: Callable[[Location], Iterable[str]]) -> list[ConfigIssue]:
    """What keeps a document from being a `model`. `keys(location)` are the keys allowed in the mapping there.

    The tags of discriminated unions appear in pydantic's locations; ours are written `<tag>` and are dropped here.
    """
    try:
        model.model_validate(document.plain)
    except ValidationError as error:
        details = error.errors(include_url=False)
    else:
        return []
    problems: list[ConfigIssue] = []
    missing: dict[Location, ConfigIssue] = {}
    meant: set[Location] = set()
    for number, detail in enumerate(details):
        location = tuple(part for part in detail["loc"] if not str(part).startswith("<"))
        node, parent = document.at(location), location[:-1]
        name = next((part for part in reversed(location) if isinstance(part, str)), "")
        context = detail.get("ctx", {})
        if detail["type"] == "missing":
            missing[location] = ConfigIssue(node.where, f'missing key "{name}"')
        elif detail["type"] == "extra_forbidden" and number >= MOST_ISSUES:  # looking for near words takes time
            problems.append(ConfigIssue(node.key, f"unknown key {as_written(name)}"))
        elif detail["type"] == "extra_forbidden":
            known = candidates(name, keys(parent), document.at(parent).entries)
            meant.add((*parent, nearest(name, known) or ""))
            problems.append(ConfigIssue(node.key, unknown("key", name, known)))
        elif detail["type"] == "literal_error":
            known = re.findall(r"'([^']*)'", context["expected"])
            problems.append(ConfigIssue(node.where, unknown(name, detail["input"], known)))
        elif detail["type"] in EXPECTED:
            what = EXPECTED[detail["type"]].format(**context)
            problems.append(ConfigIssue(node.where, expected(name, what, detail["input"])))
        else:
            problems.append(ConfigIssue(node.where, f"{name}: {detail['msg']}"))
    # a misspelt key is one mistake, not an unknown key and a missing one
    return problems + [problem for location, problem in missing.items() if location not in meant]


def expected(name: str, what: str, got: Any) -> str:
    return f"{name + ': ' if name else ''}expected {what}; got {as_written(got)}"

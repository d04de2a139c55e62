"""Error texts for an unknown word. They suggest the nearest known word, or list the known words."""

from __future__ import annotations

import difflib
import json
from collections.abc import Container, Iterable, Sequence
from typing import Any

from kbench.text.words import list_words

SIMILAR = 0.7
"""From this ratio of difflib on, a word with another first letter counts as near. 1 is the same word."""


def unknown(kind: str, word: Any, choices: Sequence[str]) -> str:
    """`unknown provider "tritn"; did you mean "triton"?`. Lists the known words if none is near."""
    near = nearest(str(word), choices)
    if near:
        return f'unknown {kind} {as_written(word)}; did you mean "{near}"?'
    return f"unknown {kind} {as_written(word)}; " + (
        f"choose from {list_words(choices)}" if choices else f"there are no {kind}s"
    )


def nearest(word: str, choices: Sequence[str]) -> str | None:
    """The most similar known word, whatever its case, or None if none is near.

    A word with another first letter has to be more similar: "foo" does not mean "oom".
    """
    lower = {choice.lower(): choice for choice in choices}
    for near in difflib.get_close_matches(word.lower(), lower, n=3):
        ratio = difflib.SequenceMatcher(None, near, word.lower()).ratio()
        if near[0] == word[0].lower() or ratio >= SIMILAR:
            return lower[near]
    return None


def candidates(word: str, keys: Iterable[str], present: Container[str]) -> list[str]:
    """The keys to suggest for a misspelt key: those that the mapping lacks, if one of them is near, or else all."""
    absent = [key for key in keys if key not in present]
    return absent if nearest(word, absent) else list(keys)


def as_written(value: Any) -> str:
    """A value as the user may have written it, at most 60 characters long."""
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."

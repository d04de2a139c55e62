"""Sentences about a word that there is not: what it is taken for, and which word was probably meant."""

from __future__ import annotations

import difflib
import json
from collections.abc import Container, Iterable, Sequence
from typing import Any


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


def candidates(word: str, known: Iterable[str], present: Container[str]) -> list[str]:
    """What a misspelt key of a mapping may have meant: one that is not there yet, if one is near."""
    absent = [key for key in known if key not in present]
    return absent if nearest(word, absent) else list(known)


def listing(words: Sequence[str], limit: int = 16) -> str:
    more = f" and {len(words) - limit} more" if len(words) > limit else ""
    return (", ".join(words[:limit]) or "none") + more


def show(value: Any) -> str:
    """A value as the user may have written it, shortened."""
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."

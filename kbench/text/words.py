"""Words in messages: plurals and lists."""

from __future__ import annotations

from collections.abc import Sequence


def plural(count: int, noun: str, several: str = "") -> str:
    """`1 case`, `2 cases`. `several` is the plural if it is not the noun with an s."""
    return f"{count} {noun if count == 1 else several or f'{noun}s'}"


def list_words(words: Sequence[str], limit: int = 16) -> str:
    """`a, b and 4 more`; `none` if there are no words."""
    more = f" and {len(words) - limit} more" if len(words) > limit else ""
    return (", ".join(words[:limit]) or "none") + more

"""Words in messages: plurals and lists. And the words in the value of an option."""

from __future__ import annotations

import re
from collections.abc import Sequence

COMMA_OUTSIDE = re.compile(r",(?!(?:[^\[\]]|\[[^\[\]]*\])*\])")
"""A comma outside of the brackets of a configuration's name. Its values may have brackets too: `triton[tile=[8,8],warps=4]`."""


def plural(count: int, noun: str, several: str = "") -> str:
    """`1 case`, `2 cases`. `several` is the plural if it is not the noun with an s."""
    return f"{count} {noun if count == 1 else several or f'{noun}s'}"


def list_words(words: Sequence[str], limit: int = 16) -> str:
    """`a, b and 4 more`; `none` if there are no words."""
    more = f" and {len(words) - limit} more" if len(words) > limit else ""
    return (", ".join(words[:limit]) or "none") + more


def split_words(text: str | None) -> list[str]:
    """The words of an option's value, which commas separate: `triton[block=64,warps=4], cuda` has two."""
    return [word.strip() for word in COMMA_OUTSIDE.split(text or "") if word.strip()]

"""Makes text that kbench did not write (a provider's reason, a file name, a device name) safe to show and to store.

Such text can do harm. A terminal executes escape codes. A CSV reader starts a new row at a line break. A spreadsheet computes
a cell that begins with an equals sign. GitHub Actions executes a line that begins with `::`. A message can have any length.
`printable` returns one line without control characters, cut at a limit.
"""

from __future__ import annotations

import re

REASON_LIMIT = 2000
"""The largest number of characters kept of a reason. Nobody reads a longer exception message in a table."""

FORMULA_SIGNS = ("=", "+", "-", "@")
"""A spreadsheet reads a cell that begins with one of these characters as a formula."""

_COLOURS = re.compile("\x1b\\[[0-9;:]*m")


def printable(text: str, limit: int | None = None) -> str:
    """The text on one line. A line break or a run of blanks becomes one space. Every other character that is not printable
    (control character, direction mark, lone surrogate) becomes its escape sequence, such as `\\x1b`.

    A longer text than `limit` characters is cut, and ends with its original length.
    """
    whole = len(text)
    if limit is not None:
        text = text[: 2 * limit]  # removing blanks shortens the text
    if not text.isprintable():
        text = "".join(sign if sign.isprintable() else _escaped(sign) for sign in " ".join(text.split()))
    if limit is not None and (len(text) > limit or whole > 2 * limit):
        end = f" ... ({whole} characters)"
        text = text[: limit - len(end)] + end
    return text


def without_colours(text: str) -> str:
    """The text without the escape codes that colour it on a terminal. Compilers colour their messages. Other codes stay."""
    return _COLOURS.sub("", text)


def no_formula(text: str) -> str:
    """The text with a leading apostrophe if a spreadsheet would compute it as a formula."""
    return f"'{text.lstrip()}" if text.lstrip().startswith(FORMULA_SIGNS) else text


def harmless_line(text: str, begins: bool) -> str:
    """A piece of a printed line that cannot move the cursor and is no command to GitHub Actions. The runner of GitHub Actions
    looks for `::` at the beginning of a line and for `##[` anywhere. `begins`: the piece is the beginning of its line."""
    if not text.isprintable():
        text = "".join(sign if sign.isprintable() or sign == "\t" else _shown(sign) for sign in text)
    if begins and text.lstrip().startswith("::"):
        text = text.replace("::", "\\::", 1)
    return text.replace("##[", "#\\#[")


def _shown(sign: str) -> str:
    return " " if sign == "\N{NO-BREAK SPACE}" else _escaped(sign)


def _escaped(sign: str) -> str:
    return sign.encode("unicode_escape").decode("ascii")

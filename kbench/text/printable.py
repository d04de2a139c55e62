"""Text from elsewhere (a provider's reason, a file's name, a device's name) made safe to show and to store.

A terminal obeys escape codes, a CSV reader sees a row behind a line break, a spreadsheet computes a cell that begins with
an equals sign, a job of GitHub Actions obeys a line that begins with `::`, and one message can be as long as a program
likes. What passes through `printable` is one line of bounded length without control characters.
"""

from __future__ import annotations

import re

REASON_LIMIT = 2000
"""Characters of a reason that are kept. A Python exception that needs more is not read in a table."""

NAME_LIMIT = 200
"""Characters of a name (a provider, a device, a file) that are kept."""

FORMULA_SIGNS = ("=", "+", "-", "@")
"""What a spreadsheet takes for the beginning of a formula."""

_CUT = re.compile(r" \.\.\. \([0-9]+ characters\)")


def printable(text: str, limit: int | None = None) -> str:
    """The text in one line that shows what it holds: line breaks and runs of blanks become a space, every other character
    that is not printable (control characters, direction marks, lone surrogates) becomes its escape, such as `\\x1b`.

    Of more than `limit` characters the first are kept, followed by how many there were. Text that was cut so before stays
    as it is.
    """
    whole = len(text)
    if limit is not None and whole > 2 * limit:  # blanks may still go: keep some more than will be shown
        text = text[: 2 * limit]
    if not text.isprintable():
        text = "".join(sign if sign.isprintable() else _escaped(sign) for sign in " ".join(text.split()))
    if limit is not None and (len(text) > limit or whole > 2 * limit) and not _CUT.fullmatch(text, limit):
        text = f"{text[:limit]} ... ({whole} characters)"
    return text


def reason(text: str) -> str:
    """Why a row is as it is, as files and tables hold it: one line of at most about REASON_LIMIT characters, no formula."""
    return printable(no_formula(text), REASON_LIMIT) or ("(no message)" if text else "")


def label(text: str) -> str:
    """What a machine or a worker calls a thing, as rows hold it: one line of about NAME_LIMIT characters, no formula."""
    return printable(no_formula(text), NAME_LIMIT)


def no_formula(text: str) -> str:
    """The text of a cell that a spreadsheet shows and does not compute."""
    return f"'{text.lstrip()}" if text.lstrip().startswith(FORMULA_SIGNS) else text


def harmless_line(text: str, begins: bool = True, limit: int | None = None) -> str:
    """A piece of a printed line: nothing in it moves a cursor, or is a command to GitHub Actions, whose runner looks for `::`
    at the beginning of a line and for `##[` anywhere. `begins` says whether the piece is what its line begins with."""
    if not text.isprintable():
        text = "".join(sign if sign.isprintable() or sign == "\t" else _shown(sign) for sign in text)
    if begins and text.lstrip().startswith("::"):
        text = text.replace("::", "\\::", 1)
    text = text.replace("##[", "#\\#[")
    return f"{text[:limit]} ... ({len(text)} characters)" if limit is not None and len(text) > limit else text


def _shown(sign: str) -> str:
    return " " if sign == "\N{NO-BREAK SPACE}" else _escaped(sign)


def _escaped(sign: str) -> str:
    return sign.encode("unicode_escape").decode("ascii")

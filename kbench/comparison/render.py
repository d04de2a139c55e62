"""A comparison as text for a terminal or a log, and as Markdown for a pull request. The verdict is always a word."""

from __future__ import annotations

import textwrap
from collections.abc import Collection

from kbench.comparison.verdict import WORDS, Comparison, Verdict

_NUMERIC = frozenset({"old ms", "new ms", "change"})
_PLAIN = frozenset({"operator", "dtype", "provider"})
"""Columns whose values need no name beside them."""


def text(comparison: Comparison, width: int = 80) -> str:
    """Plain text that fits `width` columns without cropping anything, the summary line last.

    What all rows share stands above the table. Where the table does not fit, the two times are left out (the change
    says what they say); where that does not either, each row takes two lines.
    """
    head = [f"old: {comparison.old}", f"new: {comparison.new}", *_shared(comparison)]
    notes = [f"note: {note}" for note in comparison.notes]
    lines = [*_paragraphs(head, width), *_paragraphs(notes, width), ""]
    rows = _by_attention(comparison)
    constant = _constant(comparison)
    cells = [_cells(row, constant) for row in rows]
    if cells:
        names = list(cells[0])
        widths = {name: max(len(name), *(len(row[name]) for row in cells)) for name in names}
        for dropped in ([], ["old ms", "new ms"]):
            kept = [name for name in names if name not in dropped]
            if sum(widths[name] + 2 for name in kept) <= width:
                lines += _table(cells, rows, kept, widths, width)
                break
        else:
            lines += _stacked(cells, rows, width)
    return "\n".join([*lines, "", _geomean(comparison), summary(comparison)]) + "\n"


def markdown(comparison: Comparison) -> str:
    """A GitHub table, rows that changed first, the summary line last."""
    lines = [", ".join([f"`{comparison.new}` against `{comparison.old}`", *_shared(comparison)]), ""]
    lines += [line for note in comparison.notes for line in (f"> {_escape(note)}", "")]
    rows, constant = _by_attention(comparison), _constant(comparison)
    if rows:
        names = [*_cells(rows[0], constant), "reason"]
        lines.append(f"| {' | '.join(names)} |")
        lines.append(f"|{'|'.join('---:' if name in _NUMERIC else '---' for name in names)}|")
        for row in rows:
            cells = [*_cells(row, constant).values(), row.reason]
            lines.append(f"| {' | '.join(map(_escape, cells))} |")
        lines.append("")
    return "\n".join([*lines, _geomean(comparison), "", summary(comparison)]) + "\n"


def summary(comparison: Comparison) -> str:
    """One line: `1 slower, 46 unclear`."""
    return ", ".join(f"{count} {word}" for word, count in comparison.counts.items()) or "no rows"


def _geomean(comparison: Comparison) -> str:
    over = f"{len(comparison.compared)} of {len(comparison.rows)} rows"
    if comparison.geomean is None:
        return f"geomean of new/old time: none, {over} have both"
    return f"geomean of new/old time: {comparison.geomean:.4f} over {over}"


def _by_attention(comparison: Comparison) -> list[Verdict]:
    return sorted(comparison.rows, key=lambda row: WORDS.index(row.word))


def _identity(row: Verdict) -> dict[str, str]:
    axes = {name: str(value) for name, value in row.key.axes}
    return {"operator": row.key.operator, "dtype": row.key.dtype, **axes, "provider": row.key.curve}


def _constant(comparison: Comparison) -> dict[str, str]:
    """The parts of the identity that all rows share, the provider aside: a table without it would say nothing."""
    if not comparison.rows:
        return {}
    first, *others = [_identity(row) for row in comparison.rows]
    del first["provider"]
    return {name: value for name, value in first.items() if all(row[name] == value for row in others)}


def _shared(comparison: Comparison) -> list[str]:
    constant = _constant(comparison)
    words = [value if name in _PLAIN else f"{name}={value}" for name, value in constant.items()]
    return [" ".join(words)] if words else []


def _cells(row: Verdict, constant: Collection[str]) -> dict[str, str]:
    return {
        **{name: value for name, value in _identity(row).items() if name not in constant},
        "old ms": "" if row.old_ms is None else f"{row.old_ms:.4g}",
        "new ms": "" if row.new_ms is None else f"{row.new_ms:.4g}",
        "change": "" if row.ratio is None else f"{row.ratio - 1:+.1%}",
        "verdict": row.word,
    }


def _table(
    cells: list[dict[str, str]], rows: list[Verdict], names: list[str], widths: dict[str, int], width: int
) -> list[str]:
    """Aligned columns, the reason after the verdict, or below it where there is no room."""

    def line(row: dict[str, str]) -> str:
        return "  ".join(row[n].rjust(widths[n]) if n in _NUMERIC else row[n].ljust(widths[n]) for n in names).rstrip()

    lines = [line({name: name for name in names})]
    for row, verdict in zip(cells, rows, strict=True):
        lines += _with_reason(line(row), verdict.reason, width)
    return lines


def _stacked(cells: list[dict[str, str]], rows: list[Verdict], width: int) -> list[str]:
    lines = []
    for row, verdict in zip(cells, rows, strict=True):
        identity = {key: value for key, value in row.items() if key not in _NUMERIC and key != "verdict"}
        name = " ".join(value if key in _PLAIN else f"{key}={value}" for key, value in identity.items())
        times = f"{row['old ms'] or 'none'} -> {row['new ms'] or 'none'} ms"
        lines += _paragraphs([name], width)
        lines += _with_reason(f"    {times}  {row['change']}  {row['verdict']}", verdict.reason, width)
    return lines


def _with_reason(line: str, reason: str, width: int) -> list[str]:
    if not reason:
        return [line]
    if len(line) + 2 + len(reason) <= width:
        return [f"{line}: {reason}"]
    return [line, *_paragraphs([reason], width, "    ")]


def _paragraphs(texts: list[str], width: int, indent: str = "") -> list[str]:
    """Wrapped between words only, so that a path or a provider's name can still be found and copied."""
    wrap = textwrap.TextWrapper(
        width, initial_indent=indent, subsequent_indent=indent or "  ", break_long_words=False, break_on_hyphens=False
    )
    return [line for text in texts for line in wrap.wrap(text)]


def _escape(text: str) -> str:
    """Text that cannot break out of a Markdown table cell or be taken for markup."""
    text = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for sign in "\\|`*_[]":
        text = text.replace(sign, "\\" + sign)
    return text

"""The code of a row's kernels, for `kbench why --sass` and `--ptx`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from kbench.errors import ExitStatus, KbenchError
from kbench.launches.launched_call import LaunchedCall
from kbench.listings.difference import changed_lines, opcode_counts
from kbench.listings.instructions import opcode
from kbench.listings.listing import Language, Listing, listings_of
from kbench.text import terminal

if TYPE_CHECKING:
    from kbench.why.facts import RowFacts


def show_code(rows: Sequence[RowFacts], language: Language) -> ExitStatus:
    """Print the code of the kernels of one row, or the difference between those of two rows: the first kernels of both, the
    second ones, and so on."""
    listed = [_listings(facts, language) for facts in rows]
    for facts, listings in zip(rows, listed, strict=True):
        for one in listings:
            if one.remark:
                terminal.warn(f"{facts.name}, kernel {one.kernel.name}: {one.remark}")
    if not all(any(one.lines for one in listings) for listings in listed):
        return ExitStatus.NOTHING
    if len(rows) == 1:
        for one in listed[0]:
            _show(rows[0], one, language)
    else:
        for old, new in zip_longest(*listed):
            _compare(rows, old, new, language)
    return ExitStatus.OK


def _listings(facts: RowFacts, language: Language) -> list[Listing]:
    """The listings of a row. If there are none, a warning says why."""
    fault = ""
    try:
        if found := list(listings_of(facts.call, language, partial(_build, facts))):
            return found
    except KbenchError as error:
        fault = f", and the provider could not be compiled again: {error}"
    terminal.warn(f"{facts.name}: it is not known which kernels a call launches{fault}")
    return []


def _build(facts: RowFacts) -> LaunchedCall:
    from kbench.resolving.row_call import call_row_again

    made = call_row_again(Path(facts.file), facts.terms, profiled=False, note=terminal.note)
    assert made.launched
    return made.launched


def _show(facts: RowFacts, one: Listing, language: Language) -> None:
    if one.lines:
        terminal.print_paragraph(f"{facts.name}: {_head(one, language)}")
        terminal.write_text("\n".join(one.lines) + "\n\n")


def _compare(rows: Sequence[RowFacts], old: Listing | None, new: Listing | None, language: Language) -> None:
    pair = [one if one and one.lines else None for one in (old, new)]
    for facts, one in zip(rows, pair, strict=True):
        terminal.print_paragraph(f"{facts.name}: {_head(one, language) if one else 'no code of such a kernel'}")
    print()
    first, second = (one.lines if one else () for one in pair)
    if first == second:
        terminal.print_paragraph("The code is the same.")
        return
    names = [facts.name for facts in rows]
    terminal.print_table(["instruction", *names], opcode_counts([first, second]), numeric=names)
    print()
    terminal.write_text("".join(f"{line}\n" for line in changed_lines(first, second)))
    print()


def _head(one: Listing, language: Language) -> str:
    count = sum(1 for line in one.lines if opcode(line))
    return f"{language} of kernel {one.kernel.name}, {count} instructions, from {one.source}"

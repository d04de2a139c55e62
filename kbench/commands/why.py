"""`kbench why`: the reasons for the time of a row, or the code of its kernels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbench.commands.options import ResultsFile, results_path
from kbench.errors import ExitStatus, UsageError
from kbench.text import terminal
from kbench.text.suggest import unknown

if TYPE_CHECKING:
    from kbench.why.code import Listing
    from kbench.why.facts import RowFacts


def why(
    file: ResultsFile = None,
    row: Annotated[
        str,
        typer.Option(
            metavar="TERMS",
            help="The provider and the case, for example 'provider=triton,N=4096,dtype=bf16'. TERMS are written as for "
            "--where in other commands. They must choose one provider in one case. Can be left out if the file has only one "
            "provider in one case.",
        ),
    ] = "",
    versus: Annotated[
        str,
        typer.Option(metavar="PROVIDER", help="Also show this provider of the same case, side by side."),
    ] = "",
    code: Annotated[
        str,
        typer.Option(
            metavar="LANGUAGE",
            help="Instead of reasons, show the sass (machine code) or the ptx of the row's kernels; with --versus, how it "
            "differs.",
        ),
    ] = "",
    ncu: Annotated[
        bool,
        typer.Option(
            "--ncu",
            help="Instead of reasons, print the shell command that measures the row again under NVIDIA Nsight Compute.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> ExitStatus:
    """Say why a provider takes the time that it takes.

    The reasons are listed, the most important one first. Each reason is a sentence with the measured number that supports it.
    Possible reasons are launch overhead, the number of kernels, local memory, blocks, occupancy and clock. After the reasons,
    the command lists the kernels that a call launches. The numbers are those of the results file and of the .kernels.jsonl
    beside it; nothing is measured.

    Nsight Compute says more: how a kernel uses memory, and what it waits for. --ncu prints the command to paste.

    Exit code: 0 success; 2 bad input; 3 there was no code or command to show.
    """
    from kbench.why.code import LANGUAGES
    from kbench.why.facts import find_facts

    if code and code not in LANGUAGES:
        raise UsageError(f"--code: {unknown('language', code, LANGUAGES)}")
    path = results_path(file)
    rows, notes = find_facts(path, row, versus)
    for note in notes:
        terminal.warn(note)
    if code:
        return _show_code(rows, code, path)
    if ncu:
        return _show_command(rows[0])
    _show_reasons(rows, as_json)
    return ExitStatus.OK


def _show_reasons(rows: list[RowFacts], as_json: bool) -> None:
    from kbench.why import page
    from kbench.why.reasons import find_reasons

    if as_json:
        terminal.write_text(page.rows_as_json(rows))
        return
    terminal.print_paragraph(page.case_line(rows[0]))
    for facts in rows:
        reasons = enumerate(find_reasons(facts), 1)
        _print_section(f"{facts.name}:", (f"{number}. {reason.sentence}" for number, reason in reasons))
    print()
    terminal.print_table(["", *(facts.name for facts in rows)], page.fact_rows(rows))
    for facts in rows:
        _print_section(f"{facts.name}: what a call launches", page.kernel_lines(facts))


def _show_command(facts: RowFacts) -> ExitStatus:
    from kbench.why.page import ncu_command

    if command := ncu_command(facts):
        terminal.write_text(f"{command}\n")
        return ExitStatus.OK
    why = facts.unknown or "it launches no kernel, or its config is not known"
    terminal.warn(f"--ncu: there is no command for {facts.name}: {why}")
    return ExitStatus.NOTHING


def _print_section(heading: str, lines: Iterable[str]) -> None:
    print()
    terminal.print_paragraph(heading)
    for line in lines:
        terminal.print_paragraph(line, indent=2)


def _show_code(rows: Sequence[RowFacts], language: str, path: Path) -> ExitStatus:
    """Print the code of the kernels of one row, or the difference between those of two rows: the first kernels of both, the
    second ones, and so on."""
    from kbench.why.code import listings_of

    listed = [list(listings_of(facts.call, language, path)) if facts.call else [] for facts in rows]
    for facts, listings in zip(rows, listed, strict=True):
        if not listings:
            terminal.warn(f"{facts.name}: there is no code: {facts.unknown or 'a call launches no kernel'}")
        for listing in listings:
            if listing.remark:
                terminal.warn(f"{facts.name}, kernel {listing.kernel.name}: {listing.remark}")
    if not all(any(listing.lines for listing in listings) for listings in listed):
        return ExitStatus.NOTHING
    if len(rows) == 2:
        for pair in zip_longest(*listed):
            _show_difference(rows, pair, language)
        return ExitStatus.OK
    for listing in listed[0]:
        if listing.lines:
            terminal.print_paragraph(f"{rows[0].name}: {_describe(listing, language)}")
            terminal.write_text("\n".join(listing.lines) + "\n\n")
    return ExitStatus.OK


def _show_difference(rows: Sequence[RowFacts], pair: Sequence[Listing | None], language: str) -> None:
    from kbench.why.code import changed_lines, opcode_counts

    for facts, listing in zip(rows, pair, strict=True):
        description = _describe(listing, language) if listing and listing.lines else "no code of such a kernel"
        terminal.print_paragraph(f"{facts.name}: {description}")
    print()
    old, new = (listing.lines if listing else () for listing in pair)
    if old == new:
        terminal.print_paragraph("The code is the same.")
        return
    names = [facts.name for facts in rows]
    terminal.print_table(["instruction", *names], opcode_counts([old, new]))
    print()
    terminal.write_text("".join(f"{line}\n" for line in changed_lines(old, new)))
    print()


def _describe(listing: Listing, language: str) -> str:
    from kbench.why.code import opcode

    count = sum(1 for line in listing.lines if opcode(line))
    return f"{language.upper()} of kernel {listing.kernel.name}, {count} instructions, from {listing.source}"

"""`kbench why`: the reasons for the time of a row."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kbench.commands.options import newest_results
from kbench.errors import ExitStatus
from kbench.text import terminal


def why(
    file: Annotated[
        str | None,
        typer.Argument(metavar="FILE.csv", help="A results file. Default: the newest file in results/."),
    ] = None,
    row: Annotated[
        str,
        typer.Option(
            "--row",
            metavar="TERMS",
            help="The provider and the case, for example 'provider=triton,N=4096,dtype=bf16'. The terms are those of --where "
            "of other commands. They must choose one provider in one case. Needed unless the file has only one.",
        ),
    ] = "",
    versus: Annotated[
        str,
        typer.Option("--versus", metavar="PROVIDER", help="Also show this provider of the same case, side by side."),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> ExitStatus:
    """Say why a provider takes the time that it takes.

    The most important reason comes first. Each is a sentence with the number that it rests on. Possible reasons are launch
    overhead, the number of kernels, local memory, blocks, occupancy and clock. After the reasons, the command lists the
    kernels that a call launches. The numbers are those of the results file and of the .kernels.jsonl beside it; nothing is
    measured. The last line is a command that reads hardware counters of the kernel.
    """
    from kbench.why import page
    from kbench.why.facts import find_facts
    from kbench.why.json_document import rows_as_json

    found, notes = find_facts(Path(newest_results([file] if file else None)[0]), row, versus)
    for note in notes:
        terminal.warn(note)
    if as_json:
        terminal.write_text(rows_as_json(found))
        return ExitStatus.OK
    terminal.print_paragraph(page.case_line(found[0]))
    for facts in found:
        print()
        terminal.print_paragraph(f"{facts.name}:")
        for line in page.reason_lines(facts):
            terminal.print_paragraph(line, indent=2)
    print()
    names = [facts.name for facts in found]
    terminal.print_table(["", *names], page.fact_rows(found), numeric=names)
    for facts in found:
        print()
        terminal.print_paragraph(f"{facts.name}: what a call launches")
        for line in page.kernel_lines(facts):
            terminal.print_paragraph(line, indent=2)
    for line in page.counter_lines(found[0]):
        print()
        terminal.print_paragraph(line)
    return ExitStatus.OK

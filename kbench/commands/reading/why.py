"""`kbench why`: the reasons for the time of a row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbench.commands.options import newest_results
from kbench.commands.reading import why_timers
from kbench.errors import ExitStatus, UsageError
from kbench.text import terminal

if TYPE_CHECKING:
    from kbench.why.facts import RowFacts
    from kbench.why.second_opinion import TimerReading


def why(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE.csv", help="A results file, or a folder with one. Default: the newest file in results/."
        ),
    ] = None,
    row: Annotated[
        str,
        typer.Option(
            "--row",
            metavar="TERMS",
            help="The provider and the case, for example 'provider=triton,N=4096,dtype=bf16'. TERMS are written as for "
            "--where in other commands. They must choose one provider in one case. Can be left out if the file has only one "
            "provider in one case.",
        ),
    ] = "",
    versus: Annotated[
        str,
        typer.Option("--versus", metavar="PROVIDER", help="Also show this provider of the same case, side by side."),
    ] = "",
    counters: Annotated[
        bool,
        typer.Option(
            "--counters",
            help="Call the provider once more under NVIDIA Nsight Compute (ncu), and show what the hardware counted.",
        ),
    ] = False,
    report: Annotated[
        Path | None,
        typer.Option(
            "--import",
            metavar="REPORT",
            help="Show the hardware counters of the row from this report: a .ncu-rep file, or the CSV that ncu makes from one.",
        ),
    ] = None,
    once: Annotated[
        bool,
        typer.Option(
            "--once",
            help="Print no reasons. Call the provider a single time, between cudaProfilerStart and cudaProfilerStop. "
            "If kbench runs under a profiler, the profiler then records only this call.",
        ),
    ] = False,
    timers: Annotated[
        bool,
        typer.Option(
            "--timers",
            help="Measure the row again with each timer, and say which reading to believe. Needs the machine that measured the "
            "file.",
        ),
    ] = False,
    sass: Annotated[
        bool,
        typer.Option("--sass", help="Show the machine code of the row's kernels; with --versus, how it differs."),
    ] = False,
    ptx: Annotated[
        bool,
        typer.Option("--ptx", help="Show the PTX of the row's kernels; with --versus, how it differs."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> ExitStatus:
    """Say why a provider takes the time that it takes.

    The reasons are listed, the most important one first. Each reason is a sentence with the measured number that supports it.
    Possible reasons are launch overhead, the number of kernels, local memory, blocks, occupancy and clock. After the reasons,
    the command lists the kernels that a call launches. The numbers are those of the results file and of the .kernels.jsonl
    beside it; nothing is measured.

    Hardware counters say more: how many bytes the kernels move, and what they wait for. With --counters, kbench runs ncu.
    Where the machine does not permit that, kbench prints the commands that read the counters on another machine.

    With --timers, kbench measures the row again with each of the timers do_bench, graph and cupti, and shows their readings
    side by side.

    --sass and --ptx show the code of the kernels instead of the reasons. Code that is not on this machine is compiled again.

    Exit code: 0 success; 2 bad input; 3 the counters could not be read, the provider could not be called, or
    there was no code to show.
    """
    from kbench.results.table import results_file
    from kbench.why.facts import find_facts

    path = results_file(Path(newest_results([file] if file else None)[0]))
    alone = [name for name, given in (("--once", once), ("--sass", sass), ("--ptx", ptx)) if given]
    beside = (("--counters", counters), ("--import", report), ("--timers", timers), ("--json", as_json))
    others = [*alone[1:], *(name for name, given in (*beside, ("--versus", once and versus)) if given)]
    if alone and others:
        rest = " and ".join(others)
        raise UsageError(f"{alone[0]} cannot be combined with {rest}; leave out {alone[0]}, or {rest}")
    if once:
        return _call(path, row)
    if counters and report:
        raise UsageError(
            "--counters reads hardware counters on this machine, and --import takes them from a report; choose one of them"
        )
    found, notes = find_facts(path, row, versus)
    for note in notes:
        terminal.warn(note)
    if sass or ptx:
        from kbench.commands.reading.why_code import show_code
        from kbench.listings.listing import Language

        return show_code(found, Language.SASS if sass else Language.PTX)
    found, fault = _counted(found, counters, report)
    if fault:
        terminal.warn(f"nothing was counted: {fault}")
    readings = why_timers.measured_again(path, row, [facts.name for facts in found]) if timers else []
    _show(found, readings, as_json, elsewhere=bool(fault))
    return ExitStatus.NOTHING if fault else ExitStatus.OK


def _call(path: Path, terms: str) -> ExitStatus:
    from kbench.resolving.row_call import call_row_again

    made = call_row_again(path, terms, profiled=True, note=terminal.note)
    terminal.note(f"the call was made on {made.device}")
    return ExitStatus.OK


def _counted(found: list[RowFacts], counters: bool, report: Path | None) -> tuple[list[RowFacts], str]:
    """The facts with counters, and why there are none; "" if there are, or if nobody asked for them."""
    from kbench.counters.ncu import CountingFailed
    from kbench.why.counting import counted_here, with_report

    if report:
        if not found[0].launches_known:
            terminal.warn(
                f"it is not known which kernels a call of {found[0].name} launches, so kbench cannot tell whether {report} is "
                "a report of this row"
            )
        return [with_report(found[0], report), *found[1:]], ""
    if counters:
        try:
            return [counted_here(facts) for facts in found], ""
        except CountingFailed as error:
            return found, str(error)
    return found, ""


def _show(found: list[RowFacts], readings: Sequence[Sequence[TimerReading]], as_json: bool, *, elsewhere: bool) -> None:
    """Print the page. `elsewhere`: nothing could be counted here, so it ends with how to do so on another machine."""
    from kbench.why import page
    from kbench.why.counted_lines import counted_lines
    from kbench.why.json_document import rows_as_json

    if as_json:
        terminal.write_text(rows_as_json(found, readings))
        return
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
        if facts.counters:
            print()
            terminal.print_paragraph(f"{facts.name}: what the hardware counted in a call")
            for line in counted_lines(facts):
                terminal.print_paragraph(line, indent=2)
    for facts, several in zip(found, readings, strict=False):
        why_timers.print_readings(facts.name, several)
    if not readings and (line := why_timers.offer(found[0])):
        print()
        terminal.print_paragraph(line)
    if elsewhere:
        for line in page.elsewhere_lines(found[0]):
            print()
            terminal.print_paragraph(line)
    elif not found[0].counters and (line := page.counter_offer(found[0])):
        print()
        terminal.print_paragraph(line)

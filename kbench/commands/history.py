"""`kbench history`: keeps results over time in a folder, and finds the changes in it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from kbench.commands.options import RowTerms, parse_share, split_words
from kbench.errors import ExitStatus, ResultsError
from kbench.text import terminal

HistoryDir = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the history.")]
HistoryMargin = Annotated[
    str, typer.Option("--margin", metavar="SHARE", help="The smallest change of a time that counts.")
]


def history_add(
    results: Annotated[Path, typer.Argument(metavar="RESULTS.csv", help="A results file.")],
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of the history. It is made if it is missing.")
    ],
    machine: Annotated[
        str,
        typer.Option(
            "--machine",
            metavar="NAME",
            help="A name for the machine. Results with the same name count as results of one machine. If the machines of a "
            "pool are equal, use the same name for all of them. Default: the device and its UUID.",
        ),
    ] = "",
) -> ExitStatus:
    """Add results to a history.

    A reading is the measurement of one row in one session. If there are new readings, the command writes them into one new
    file of the folder and prints its path. It changes no other file. Readings that are already in the folder are left out, so
    you can add the same file again after `kbench run --append`.

    Exit code: 0 added, or nothing was new; 2 bad input.
    """
    from kbench.history.storage.adding import add_results

    done = add_results(results, folder, machine)
    for note in done.notes:
        terminal.warn(note)
    if done.path is None:
        terminal.note(f"{folder} has all {done.known} readings of {results} already; nothing was added")
        return ExitStatus.OK
    before = f"; it had the other {done.known} already" if done.known else ""
    terminal.note(f"added {done.fresh} readings to {folder}{before}")
    print(done.path)
    return ExitStatus.OK


def history_check(
    folder: HistoryDir,
    where: RowTerms = "",
    margin: HistoryMargin = "2%",
    recent: Annotated[
        int,
        typer.Option(
            "--recent",
            metavar="N",
            min=1,
            help="Report changes that began in one of the last N runs. The report also gives the "
            "number of older changes. These do not make the check fail.",
        ),
    ] = 10,
    everything: Annotated[bool, typer.Option("--all", help="Report older changes, too.")] = False,
    fail_on: Annotated[
        Optional[str],
        typer.Option(
            "--fail-on",
            metavar="KINDS",
            help="Exit with 1 if one of the last N runs (see --recent) has a change of one of these kinds: slower, faster, "
            "failed, fixed, missing, new, incomparable. 'change' stands for all of them.",
        ),
    ] = None,
    json: Annotated[
        Optional[str],
        typer.Option(
            "--json",
            metavar="FILE",
            help="Also write all changes and series as JSON. '-' prints the JSON in place of the report.",
        ),
    ] = None,
) -> ExitStatus:
    """Find the changes in a history.

    A series is one provider in one case on one machine. The copy controls of a session tell how slow the machine was in it.
    kbench subtracts this from the times of the session, so a drift of the whole machine does not count as a change. For each
    change, the report says what else changed in the same run: the provider's code, the baseline, the machine, the stack
    (versions of packages) or the settings. A provider that failed is a change, too.

    Exit code: 0 checked; 1 a recent change is of a kind that --fail-on lists; 2 bad input; 3 no reading has a time.
    """
    from kbench.files import replace
    from kbench.history.judge_history import judge_history
    from kbench.history.options import HistoryOptions
    from kbench.history.presentation.json_changes import history_json
    from kbench.history.presentation.report_text import gate_sentence, report_lines

    options = HistoryOptions(where, parse_share("--margin", margin), recent, everything, tuple(split_words(fail_on)))
    report = judge_history(folder, options)
    for note in report.timeline.notes:
        terminal.warn(note)
    if json is not None and json != "-":
        try:
            replace(Path(json), history_json(report))
        except OSError as error:
            raise ResultsError(f"{json}: cannot be written ({error.strerror or error}); choose another place") from None
    printed = "\n".join(report_lines(report, colour=terminal.colours())) + "\n"
    text = history_json(report) if json == "-" else printed
    terminal.write_text(text)
    if report.failing:
        terminal.error(gate_sentence(report))
        return ExitStatus.FAILED
    if not report.timed:
        reasons = "kbench show RESULTS.csv prints the reasons of the rows that were added"
        terminal.error(f"{folder}: no reading has a time, so there is nothing to check; {reasons}")
        return ExitStatus.NOTHING
    return ExitStatus.OK


def history_plot(
    folder: HistoryDir,
    where: RowTerms = "",
    margin: HistoryMargin = "2%",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Folder for the pictures. Default: the folder of the history."),
    ] = None,
    formats: Annotated[
        str, typer.Option("--format", metavar="FORMATS", help="png, svg or pdf, or several with commas.")
    ] = "png,svg",
    theme: Annotated[str, typer.Option("--theme", metavar="NAME", help="light or dark.")] = "light",
) -> ExitStatus:
    """Draw a history: a picture for each operator and machine.

    A panel shows a case. Each provider has a line: how its time has changed since the first runs, without the drift of the
    machine. A dashed vertical line with a number marks a run in which something changed. The text below the panels says which
    times changed in such a run, and what else changed in it. The command prints the paths of the pictures.

    Exit code: 0 drawn; 2 bad input or no reading with a time.
    """
    from kbench import plotting
    from kbench.history.judge_history import judge_history
    from kbench.history.options import HistoryOptions

    report = judge_history(folder, HistoryOptions(where, parse_share("--margin", margin), everything=True))
    for note in report.timeline.notes:
        terminal.warn(note)
    for path in plotting.write_history_pictures(report, out or folder, split_words(formats), theme):
        print(path)
    return ExitStatus.OK

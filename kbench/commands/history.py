"""`kbench history`: finds the changes in a folder of results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from kbench.commands.options import DEFAULT_MARGIN, Margin, PictureFormats, RowTerms, Theme
from kbench.errors import ExitStatus
from kbench.results.cells import parse_share
from kbench.text import terminal
from kbench.text.words import split_words

HistoryDir = Annotated[Path, typer.Argument(metavar="DIR", help="A folder with results files, at any depth.")]


def history_check(
    folder: HistoryDir,
    where: RowTerms = "",
    margin: Margin = DEFAULT_MARGIN,
    recent: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="Report changes that began in one of the last N runs. The report also gives the "
            "number of older changes, which do not make the check fail.",
        ),
    ] = 10,
    everything: Annotated[bool, typer.Option("--all", help="Report older changes, too.")] = False,
    fail_on: Annotated[
        Optional[str],
        typer.Option(
            metavar="KINDS",
            help="Exit with 1 if one of the last N runs (see --recent) has a change of one of these kinds: slower, faster, "
            "failed, fixed, missing, new, incomparable. 'change' stands for all of them.",
        ),
    ] = None,
    json: Annotated[
        Optional[str],
        typer.Option(
            metavar="FILE",
            help="Also write all changes and series as JSON. '-' prints the JSON in place of the report.",
        ),
    ] = None,
) -> ExitStatus:
    """Find the changes in a history.

    Every results file below DIR is a run, and `kbench run CONFIG -o DIR/DATE` adds one. A series is one provider in one case
    on one kind of device. The copy controls of a session tell how slow the machine was in it. kbench subtracts this from the
    times of the session, so a drift of the whole machine does not count as a change. For each change, the report says what
    else changed in the same run: the provider's code, the baseline, the machine, the stack (versions of packages) or the
    settings. A provider that failed is a change, too.

    Exit code: 0 checked; 1 a recent change is of a kind that --fail-on lists; 2 bad input; 3 no reading has a time.
    """
    from kbench.files import replace
    from kbench.history.report import HistoryOptions, check_history, history_json
    from kbench.history.report_text import gate_sentence, report_lines

    options = HistoryOptions(where, parse_share("--margin", margin), recent, everything, tuple(split_words(fail_on)))
    report = check_history(folder, options)
    for note in report.notes:
        terminal.warn(note)
    if json is not None and json != "-":
        replace(Path(json), history_json(report))
    printed = "\n".join(report_lines(report, colour=terminal.colours())) + "\n"
    terminal.write_text(history_json(report) if json == "-" else printed)
    if report.failing:
        terminal.error(gate_sentence(report))
        return ExitStatus.FAILED
    if not report.timed:
        reasons = "kbench show RESULTS.csv prints the reasons of its rows"
        terminal.error(f"{folder}: no reading has a time, so there is nothing to check; {reasons}")
        return ExitStatus.NOTHING
    return ExitStatus.OK


def history_plot(
    folder: HistoryDir,
    where: RowTerms = "",
    margin: Margin = DEFAULT_MARGIN,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Folder for the pictures. Default: the folder of the history."),
    ] = None,
    formats: PictureFormats = "png,svg",
    theme: Theme = "light",
) -> None:
    """Draw a history: a picture for each operator and machine.

    A panel shows a case. Each provider has a line: how its time has changed since the first runs, without the drift of the
    machine. A dashed vertical line with a number marks a run in which something changed. The text below the panels says which
    times changed in such a run, and what else changed in it. The command prints the paths of the pictures.

    Exit code: 0 drawn; 2 bad input or no reading with a time.
    """
    from kbench import plotting
    from kbench.history.report import HistoryOptions, check_history

    report = check_history(folder, HistoryOptions(where, parse_share("--margin", margin), everything=True))
    for note in report.notes:
        terminal.warn(note)
    for path in plotting.write_history_pictures(report, out or folder, split_words(formats), theme):
        print(path)

"""`kbench history plot`: draws a history."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kbench.commands.history.check import HistoryDir, HistoryMargin
from kbench.commands.options import RowTerms, parse_share, split_words
from kbench.errors import ExitStatus
from kbench.text import terminal


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

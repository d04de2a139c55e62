"""`kbench history add`: adds results to a history."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kbench.errors import ExitStatus
from kbench.text import terminal


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

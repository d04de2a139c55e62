"""`kbench report`: writes an HTML page about results."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Annotated, Optional

import typer

from kbench.commands.options import RowTerms, check_not_read, newest_results


def report(
    files: Annotated[
        Optional[list[str]],
        typer.Argument(
            metavar="[LABEL=]FILE.csv",
            help="Results files, folders with one each, or the folder of a history. Default: the newest file in results/.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="File for the page.")] = Path("report.html"),
    baseline: Annotated[
        str | None, typer.Option(metavar="OLD.csv", help="Compare with these results, row by row.")
    ] = None,
    where: RowTerms = "",
    title: Annotated[str, typer.Option(metavar="TEXT", help="Heading of the page.")] = "",
) -> None:
    """Write an HTML page about results.

    The page has the fastest providers, pictures, all rows, failures, the machine and the method. It is one file and
    needs no network. Given the folder of a history (see kbench history), the command writes a page with the pictures, the
    changes and the series of the history.
    """
    from kbench import reporting

    # the process is short, and to look for garbage among thousands of rows takes a fifth of its time
    gc.disable()
    folder = Path(files[0]) if files and len(files) == 1 and baseline is None else None
    # a folder with one file, as `kbench run --out` makes it, is that file
    if folder and folder.is_dir() and [path.parent for path in folder.rglob("*.csv")] != [folder]:
        print(reporting.write_history_report(folder, out, where=where, title=title))
        return
    sources = newest_results(files)
    check_not_read("--out", out, sources)
    print(reporting.write_report(sources, out, baseline=baseline, where=where, title=title))

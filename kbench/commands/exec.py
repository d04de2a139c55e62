"""`kbench exec` runs a program, and measures its calls of do_bench and other timers."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from kbench.commands.options import ResultsFolder
from kbench.commands.run_output import print_results
from kbench.text import terminal


def exec_command(
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND", help="The command, for example -- python bench.py.")
    ],
    out: ResultsFolder = Path("results"),
) -> int:
    """Run a program and measure its calls of do_bench and other timers.

    Write the command after --: kbench exec -- python bench.py --size 4096

    Exit code: that of the program if it is not 0. Otherwise: 0 success; 2 bad input; 3 no call of a timer gave a time; 130
    interrupted.
    """
    from kbench.execute.program import run_program
    from kbench.execute.worker import end_of

    result = run_program(command, out)
    if result.code and not result.interrupted:
        terminal.warn(f"{shlex.join(command)}: {end_of(result.code)}")
    for part in result.results:
        print_results(part)
    if not result.rows:
        terminal.warn("nothing was measured: the program called no timer that kbench knows, such as kbench.do_bench")
    return result.exit_status

"""Runs a script for `kbench run`, as Python would run it. Its calls of do_bench are measured as those of any program.

The arguments are the script, and the script's own arguments.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from kbench.measure.scripts.import_hook import declared
from kbench.protocol import ROWS_FILE, Fault, LineDone, ProtocolError, decode
from kbench.text.exception_text import location, message


def run(path: Path, arguments: list[str]) -> int:
    """Measure a script. What it raises, or that it measures nothing, goes to the parent."""
    gc.disable()  # as a worker does
    from kbench.measure.scripts.session import this_session  # imports torch

    gc.freeze()
    gc.enable()
    session = this_session()
    session.done = {(line.plot, line.label, line.line): line for line in _lines_done()}
    session.device.set_up()  # before Triton is imported
    session.device.use_threads(session.settings.threads)
    where, absolute, fault = str(path), path.absolute(), ""
    try:
        run_as_main(absolute, [where, *arguments])
    except SystemExit as end:
        if end.code not in (None, 0):
            reason = end.code if isinstance(end.code, str) else f"exit code {end.code}"
            fault = f"the script ended with {reason}"
    except Exception as error:  # noqa: BLE001  the script may raise anything
        where = location(error, where).replace(str(absolute), where)  # as the user has typed it
        fault = f"{type(error).__name__}: {message(error)}"
    if fault or not session.begun:
        session.emit(Fault(where, fault or _nothing_to_measure()))
    return 1 if fault else 0


def run_as_main(path: Path, arguments: list[str]) -> None:
    """Run a script as Python would: as `__main__`, with its arguments, and with its folder first in the search path. Its names
    live as long as this process. `arguments` include its name."""
    os.environ.setdefault("MPLBACKEND", "Agg")  # a window would wait for somebody to close it
    module = ModuleType("__main__")
    module.__file__ = str(path)
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    sys.argv = arguments
    sys.path.insert(0, str(path.resolve().parent))
    exec(compile(path.read_bytes(), str(path), "exec", dont_inherit=True), module.__dict__)


def _lines_done() -> Iterator[LineDone]:
    """What lines have returned in earlier processes of the same script."""
    for line in Path(os.environ[ROWS_FILE]).read_bytes().splitlines(keepends=True):
        with suppress(ProtocolError):  # a process was killed while it wrote
            answer = decode(line, line.split(b" ", 1)[0].decode("ascii", "replace"))
            if isinstance(answer, LineDone):
                yield answer


def _nothing_to_measure() -> str:
    """Why a script that ran to its end has nothing to measure, and what to do."""
    for benchmark in declared:
        for argument in ("x_vals", "line_vals"):
            if not getattr(benchmark, argument):
                plot = benchmark.plot_name or "(without a name)"
                return f"{argument} of the plot {plot} is empty, so there is nothing to measure; give it at least one value"
    if declared:
        return (
            "declares a benchmark with triton.testing.perf_report, but never calls its run(); call it in the script, or give "
            "the script the arguments with which it does so, after --"
        )
    return (
        "calls neither triton.testing.perf_report nor a timer that kbench knows, such as do_bench, so there is nothing to "
        "measure; if it needs arguments, give them after --"
    )


if __name__ == "__main__":
    try:
        sys.exit(run(Path(sys.argv[1]), sys.argv[2:]))
    except KeyboardInterrupt:  # the parent says so
        sys.exit(130)

"""Runs a script for `kbench run`, as Python would run it. Its calls of do_bench are measured as those of any program.

The arguments are the number of the session and the settings as JSON, the script, and the script's own arguments.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from kbench.contract.provider import missing
from kbench.measure.scripts.import_hook import declared
from kbench.measure.scripts.in_place import InPlace, use
from kbench.protocol import ROWS_FILE, LineDone, ProtocolError, ScriptFailed, decode
from kbench.text.exception_text import location, message


def run(session: int, settings: str, path: Path, arguments: list[str]) -> int:
    """Measure a script. What it raises, and why there is nothing to measure, goes to the parent. Returns the exit code."""
    messages = Path(os.environ[ROWS_FILE])
    bench = InPlace(json.loads(settings), session, _done(messages))
    bench.device.set_up()  # before Triton is imported
    bench.device.use_threads(bench.settings.threads)
    use(bench)
    if find_spec("triton") is None:
        bench.emit(ScriptFailed(str(path), missing("triton")))
        return 1
    try:
        run_as_main(path, arguments)
    except SystemExit as end:
        if end.code not in (None, 0):
            reason = end.code if isinstance(end.code, str) else f"exit code {end.code}"
            bench.emit(ScriptFailed(str(path), f"the script ended with {reason}"))
            return 1
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001  the script may raise anything
        bench.emit(ScriptFailed(location(error, str(path)), f"{type(error).__name__}: {message(error)}"))
        return 1
    if not bench.was_asked:
        bench.emit(ScriptFailed(str(path), _nothing_to_measure()))
    return 0


def run_as_main(path: Path, arguments: list[str]) -> None:
    """Run a script as Python would: as `__main__`, with its arguments, and with its folder first in the search path. Its names
    live as long as this process."""
    os.environ.setdefault("MPLBACKEND", "Agg")  # a window would wait for somebody to close it
    module = ModuleType("__main__")
    module.__file__ = str(path)
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.parent))
    exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)


def _done(messages: Path) -> list[LineDone]:
    """What lines have returned in earlier processes of the same script."""
    done = []
    for line in messages.read_bytes().splitlines(keepends=True):
        try:
            answer = decode(line, line.split(b" ", 1)[0].decode("ascii", "replace"))
        except ProtocolError:  # a process that was killed while it wrote
            continue
        if isinstance(answer, LineDone):
            done.append(answer)
    return done


def _nothing_to_measure() -> str:
    """Why a script that ran to its end has nothing to measure, and what to do."""
    for benchmark in declared:
        for argument in ("x_vals", "line_vals"):
            if not len(getattr(benchmark, argument)):
                plot = benchmark.plot_name or "(without a name)"
                return f"{argument} of the plot {plot} is empty, so there is nothing to measure; give it at least one value"
    if declared:
        return (
            "declares a benchmark with triton.testing.perf_report, but never calls its run(); call it in the script, or give "
            "the script the arguments with which it does so, after --"
        )
    return (
        "calls neither triton.testing.perf_report nor triton.testing.do_bench, so there is nothing to measure; if it needs "
        "arguments, give them after --"
    )


if __name__ == "__main__":
    sys.exit(run(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4:]))

"""Reads a program's own source files for code that times calls by hand, which kbench cannot measure: pairs of events, a clock
around a loop that repeats a call, a clock around `synchronize`.

It rather says nothing than something false: a clock around a training loop, a data loader, or a whole program is no timing of a
call. Imports neither torch nor Triton.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from kbench.text.exception_text import in_library

CLOCKS = {
    *(f"time.{name}{unit}" for name in ("time", "perf_counter", "process_time") for unit in ("", "_ns")),
    "timeit.default_timer",
}
TIMEIT = {"timeit.timeit", "timeit.repeat"}

OTHER_WORK = re.compile(r"step|zero_grad|fit|.*(epoch|train|loader|dataset).*", re.IGNORECASE)
"""Names in a function that times more than the calls of a kernel."""

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def note_hand_timing() -> None:
    """At the end of a program that has measured nothing: tell the parent of the first place that times by hand, in its main
    file or in files beside it."""
    session = sys.modules.get("kbench.measure.scripts.session")
    if session and session.was_asked():
        return
    from kbench.protocol import ROWS_FILE, Noted, encode  # imports pydantic

    for file, line, means in hand_timings(_own_files()):
        sentence = (
            f"{file.name}:{line} times calls by hand, with {means}, so kbench cannot measure them. Let do_bench time them: "
            "from kbench import do_bench; ms = do_bench(lambda: ...)"
        )
        # a program may outlive kbench, or change its environment
        with suppress(OSError, KeyError), Path(os.environ[ROWS_FILE]).open("ab", buffering=0) as messages:
            messages.write(encode(Noted(sentence), str(os.getpid())))
        return


def _own_files() -> list[Path]:
    """The main file of this process, and the modules from its folder that it has imported."""
    program = sys.modules.get("__main__")
    loader = getattr(program, "__loader__", None)  # at its end, a program has no `__file__` any more
    main = getattr(loader, "path", None) or getattr(program, "__file__", None)
    if not main or in_library(main):
        return []
    files = [Path(file) for module in list(sys.modules.values()) if (file := getattr(module, "__file__", None))]
    folder = Path(main).resolve().parent
    beside = (file for file in files if file.suffix == ".py" and file.parent == folder)
    return list(dict.fromkeys([Path(main), *beside]))


def hand_timings(files: Iterable[Path]) -> Iterator[tuple[Path, int, str]]:
    """The files and the lines that time by hand, and with what."""
    for file in files:
        try:
            tree = ast.parse(file.read_bytes())
        except (OSError, SyntaxError, ValueError):  # Python says so where it is imported
            continue
        for scope in [tree, *(node for node in ast.walk(tree) if isinstance(node, Function))]:
            yield from ((file, line, means) for line, means in _timings(list(_inside(scope)), _imported(tree)))


def _imported(tree: ast.Module) -> dict[str, str]:
    """What names mean that are imported: `time.perf_counter` for `perf_counter`."""
    meanings = dict[str, str]()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            prefix = "" if isinstance(node, ast.Import) else f"{node.module}."
            meanings |= {alias.asname or alias.name: prefix + alias.name for alias in node.names}
    return meanings


def _timings(nodes: Sequence[ast.AST], imported: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """The lines that time by hand in the code of a function, or of a file outside of all functions, and with what. A clock
    times calls if the code reads it twice, and repeats something or waits for a device."""
    names = {_name(node) for node in nodes}
    if any(map(OTHER_WORK.fullmatch, names)):
        return
    readings: list[tuple[int, str]] = []
    for call in sorted((node for node in nodes if isinstance(node, ast.Call)), key=lambda node: node.lineno):
        first, _, rest = ast.unparse(call.func).partition(".")
        function = ".".join(filter(None, (imported.get(first, first), rest)))
        if _name(call.func) == "elapsed_time":
            yield call.lineno, "pairs of events (elapsed_time)"
        elif function in TIMEIT:
            yield call.lineno, function
        elif function in CLOCKS:
            readings.append((call.lineno, function))
    if len(readings) > 1 and ("synchronize" in names or any(map(_counts, nodes))):
        yield readings[0]


def _counts(node: ast.AST) -> bool:
    """Whether a node is a loop over `range(...)` or the like."""
    iterated = node.iter if isinstance(node, ast.For) else None
    return isinstance(iterated, ast.Call) and _name(iterated.func) in ("range", "repeat", "trange")


def _name(node: ast.AST) -> str:
    """The last name of an expression: `synchronize` for `torch.cuda.synchronize`."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _inside(scope: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(scope):
        if not isinstance(child, Function):
            yield child
            yield from _inside(child)

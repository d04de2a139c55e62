"""Reads a program's own source files for code that times calls by hand, which kbench cannot measure: pairs of events, a clock
around a loop that repeats a call, a clock around `synchronize`.

It rather says nothing than something false: a clock around a training loop, a data loader, or a whole program is no timing of a
call.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

CLOCKS = {
    *(f"time.{name}{unit}" for name in ("time", "perf_counter", "process_time") for unit in ("", "_ns")),
    "timeit.default_timer",
}
TIMEIT = {"timeit.timeit", "timeit.repeat"}

OTHER_WORK = re.compile(r"step|zero_grad|fit|.*(epoch|train|loader|dataset).*", re.IGNORECASE)
"""Names in a function that times more than the calls of a kernel."""

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def first_hand_timing(program: Path) -> str:
    """A sentence about the first place of a program that times calls by hand, in its main file or in one beside it that this
    imports; empty if there is none."""
    try:
        imported = _imported(ast.parse(program.read_bytes())).values()
    except (OSError, SyntaxError, ValueError):  # Python says so
        return ""
    beside = [program.with_name(f"{meaning.partition('.')[0]}.py") for meaning in imported]
    for file, line, means in hand_timings([program, *filter(Path.is_file, beside)]):
        return (
            f"{file.name}:{line} times calls by hand, with {means}, so kbench cannot measure them. Let do_bench time them: "
            "from kbench import do_bench; ms = do_bench(lambda: ...)"
        )
    return ""


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

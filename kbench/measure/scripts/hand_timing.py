"""Reads a program's own source files for code that times calls by hand, which kbench cannot measure: pairs of events, a clock
around a loop that repeats a call, a clock around `synchronize`.

It rather says nothing than something false: a clock around a training loop, a data loader, or a whole program is no timing of a
call. Imports neither torch nor Triton.
"""

from __future__ import annotations

import ast
import builtins
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kbench.measure.scripts.foreign_timers import TIMERS
from kbench.text.exception_text import in_library

CLOCKS = {
    *(f"time.{name}{unit}" for name in ("time", "perf_counter", "monotonic", "process_time") for unit in ("", "_ns")),
    "timeit.default_timer",
}
TIMEIT = {"timeit.timeit", "timeit.repeat"}
MEASURED = {"perf_report"} | {name.rpartition(".")[2] for names in TIMERS.values() for name in names if "_" in name}
"""What kbench measures; `timeit` and `benchmark` are names of much else."""

IDLE = {"append", "synchronize", "sleep", "write", "flush", "update", "set_postfix", "info", "debug", "format", "join"}
"""Methods that do no work worth timing."""

OTHER_WORK = re.compile(r"step|zero_grad|fit|compile|randn?|randint|.*(epoch|train|load|dataset|save).*", re.IGNORECASE)
"""Names in timed code that is no single call of a kernel."""

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Place = tuple[int, int]


@dataclass(frozen=True)
class HandTiming:
    """Code that times calls by hand: its line, and what it does so with."""

    line: int
    means: str


def note_hand_timing() -> None:
    """When a program ends: tell the parent of the first place in its main file, or in files beside it, that times by hand."""
    from kbench.protocol import ROWS_FILE, Noted, encode  # imports pydantic

    for file, timing in hand_timings(_own_files()):
        line = (
            f"{file.name}:{timing.line} times calls by hand, with {timing.means}, so kbench cannot measure them. Let do_bench "
            "time them: from kbench import do_bench; ms = do_bench(lambda: ...)"
        )
        # a program may outlive kbench, or change its environment
        with suppress(OSError, KeyError), Path(os.environ[ROWS_FILE]).open("ab", buffering=0) as messages:
            messages.write(encode(Noted(line), str(os.getpid())))
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


def hand_timings(files: Iterable[Path]) -> Iterator[tuple[Path, HandTiming]]:
    """The places that time by hand, without functions that no file uses."""
    trees: dict[Path, ast.Module] = {}
    for file in files:
        with suppress(OSError, SyntaxError, ValueError):
            trees[file] = ast.parse(file.read_bytes())
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    used = {node.name if isinstance(node, ast.alias) else _name(node) for node in nodes}
    measured = _is_measured(trees)
    for file, tree in trees.items():
        modules = _modules(ast.walk(tree))
        for scope in [tree, *(node for node in ast.walk(tree) if isinstance(node, Function))]:
            name = getattr(scope, "name", "")
            if not name or name.startswith("__") or name in used:
                yield from ((file, timing) for timing in _Scope(scope, modules).timings(measured))


def _is_measured(trees: Mapping[Path, ast.Module]) -> bool:
    """Whether kbench measures something of a program. Its clocks may then time the whole program."""
    own = {file.stem for file in trees}
    nodes = {file: list(ast.walk(tree)) for file, tree in trees.items()}
    names = [name for part in nodes.values() for name in _modules(part).values() if name.partition(".")[0] not in own]
    names += [node.attr for part in nodes.values() for node in part if isinstance(node, ast.Attribute)]
    return any(name.rpartition(".")[2] in MEASURED or name.startswith("torch.utils.benchmark") for name in names)


def _modules(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """What names mean that are imported: `time.perf_counter` for `perf_counter`."""
    imports = [node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))]
    return {alias.asname or alias.name: _imported(node, alias) for node in imports for alias in node.names}


def _imported(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> str:
    return alias.name if isinstance(node, ast.Import) else f"{node.module}.{alias.name}"


class _Scope:
    """The code of a function, or of a file outside of all functions, in its order and without the functions inside."""

    def __init__(self, scope: ast.Module | Function, modules: dict[str, str]) -> None:
        self.nodes = sorted((node for node in _inside(scope) if hasattr(node, "lineno")), key=_start)
        self._modules = modules

    def timings(self, measured: bool) -> Iterator[HandTiming]:
        trains = any(_name(call.func) in ("step", "zero_grad") for call in _calls(self.nodes))
        for call in _calls(self.nodes):
            if _name(call.func) == "elapsed_time" and not trains:
                yield HandTiming(call.lineno, "pairs of events (elapsed_time)")
            elif self._dotted(call.func) in TIMEIT:
                yield HandTiming(call.lineno, self._dotted(call.func))
        for start, end in () if measured else self._pairs():
            if self._times_a_call(_end(start), _start(end)):
                yield HandTiming(start.lineno, self._dotted(start.func))

    def _times_a_call(self, start: Place, end: Place) -> bool:
        """Whether the code between two readings of a clock repeats a call, or waits for one."""
        region = [node for node in self.nodes if start <= _start(node) < end]
        around = [node for node in self.nodes if isinstance(node, ast.For) and _start(node) < start < _end(node)]
        work = [call for call in _calls(region) if _works(call)]
        targets = [node for loop in around for node in ast.walk(loop.target)]
        if not work or any(OTHER_WORK.fullmatch(_name(node)) for node in (*region, *targets)):
            return False
        other_loops = (ast.While, ast.For, ast.AsyncFor)
        if any(isinstance(node, other_loops) and not _counts(getattr(node, "iter", None)) for node in region):
            return False
        waits = any(_name(call.func) == "synchronize" and _start(work[0]) < _start(call) for call in _calls(region))
        return waits or any(map(_repeats, (*(node for node in region if _end(node) <= end), *around[-1:])))

    def _dotted(self, function: ast.expr) -> str:
        """`time.perf_counter` for `t.perf_counter` after `import time as t`."""
        first, _, rest = ast.unparse(function).partition(".")
        return ".".join(filter(None, (self._modules.get(first, first), rest)))

    def _reads_clock(self, node: ast.AST | None) -> bool:
        return isinstance(node, ast.Call) and self._dotted(node.func) in CLOCKS

    def _pairs(self) -> Iterator[tuple[ast.Call, ast.Call]]:
        """The two readings of a clock that a difference is taken of: `t1 - t0`, `time.time() - t0`."""
        readings: dict[str, list[ast.Call]] = {}
        for node in self.nodes:
            if isinstance(node, ast.Assign) and self._reads_clock(node.value) and isinstance(node.targets[0], ast.Name):
                readings.setdefault(node.targets[0].id, []).append(node.value)  # type: ignore[arg-type]
        for node in self.nodes:
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
                ends = [node.left] if self._reads_clock(node.left) else readings.get(_name(node.left), [])
                ends = [end for end in ends if _start(end) <= _start(node)]
                before = ends[-1:] and readings.get(_name(node.right), [])
                starts = [start for start in before if _start(start) < _start(ends[-1])]
                if starts:
                    yield starts[-1], ends[-1]  # type: ignore[misc]


def _repeats(loop: ast.AST) -> bool:
    """Whether a loop does the same again and again: over `range(...)`, without a use of its variable."""
    if isinstance(loop, ast.ListComp):
        target, iterated, inside = loop.generators[0].target, loop.generators[0].iter, list(ast.walk(loop.elt))
    elif isinstance(loop, ast.For):
        target, iterated, inside = loop.target, loop.iter, [node for part in loop.body for node in ast.walk(part)]
    else:
        return False
    used = any(isinstance(node, ast.Name) and node.id == _name(target) for node in inside)
    return _counts(iterated) and not used and any(_works(call) for call in _calls(inside))


def _counts(iterated: ast.expr | None) -> bool:
    return isinstance(iterated, ast.Call) and _name(iterated.func) in ("range", "repeat", "trange")


def _works(call: ast.Call) -> bool:
    name = _name(call.func)
    return name not in IDLE and not hasattr(builtins, name)


def _calls(nodes: Iterable[ast.AST]) -> list[ast.Call]:
    return [node for node in nodes if isinstance(node, ast.Call)]


def _name(node: ast.AST) -> str:
    """The last name of an expression: `synchronize` for `torch.cuda.synchronize`."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _start(node: ast.AST) -> Place:
    return node.lineno, node.col_offset  # type: ignore[attr-defined]


def _end(node: ast.AST) -> Place:
    return node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]


def _inside(scope: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(scope):
        if not isinstance(child, Function):
            yield child
            yield from _inside(child)

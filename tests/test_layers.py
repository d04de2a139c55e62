"""Who may import whom, and that a public name has one meaning. A room is a folder of kbench/; each module at the top is a room
of its own."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import kbench

PACKAGE = Path(kbench.__file__).parent

MAY_IMPORT = {
    "__init__": "api contract errors kernels measure/scripts registry results version",
    "__main__": "cli interrupts",
    "analysis": "errors results text",
    "api": ("comparison config errors execute execute/executors notebook plotting reporting results"),
    "cli": "commands commands/comparing commands/history commands/reading errors interrupts text version",
    "clocks": "errors files protocol results",
    "commands": (
        "analysis clocks comparison/formats config contract disturbances errors execute execute/executors "
        "execute/supervision execute/worker explain files history/presentation history/storage interrupts judging packages "
        "plotting protocol resolving results revisions/bisecting sources summary text"
    ),
    "commands/comparing": (
        "commands comparison comparison/formats errors files resolving revisions revisions/bisecting text"
    ),
    "commands/history": "commands errors files history history/presentation history/storage plotting text",
    "commands/reading": (
        "analysis commands counters dispatching errors launches listings plotting reporting resolving results summary text "
        "why"
    ),
    "comparison": "analysis errors launches results text",
    "comparison/formats": "comparison comparison/presentation launches results text",
    "comparison/presentation": "analysis comparison errors results text",
    "config": "contract errors files models protocol results text",
    "contract": "files models packages results text",
    "counters": "errors files launches text",
    "dispatching": "analysis errors files plotting results text version",
    "disturbances": "clocks files",
    "errors": "text",
    "execute": "clocks config errors files interrupts launches protocol results sources/scripts summary text version",
    "execute/executors": (
        "config errors execute execute/supervision execute/worker files packages protocol results version"
    ),
    "execute/supervision": "errors execute execute/worker protocol results text",
    "execute/worker": "errors protocol results text",
    "explain": "comparison results",
    "files": "",
    "history": "analysis comparison errors history/storage results text",
    "history/presentation": "comparison comparison/presentation history results text",
    "history/storage": "analysis comparison errors files results text",
    "interrupts": "errors",
    "judging": (
        "analysis config contract errors execute execute/executors execute/supervision execute/worker interrupts "
        "protocol results text"
    ),
    "kernels": "contract results",
    "kernels/norms": "contract kernels kernels/norms/dispatch",
    "kernels/norms/dispatch": "contract kernels",
    "launches": "files results text",
    "listings": "errors files launches text",
    "measure": (
        "contract kernels measure/correctness measure/definition measure/launches measure/machine measure/profiling "
        "measure/salting measure/scripts measure/session measure/tampering measure/timing plugins protocol registry results "
        "sources sources/scripts text version"
    ),
    "measure/correctness": "contract measure/definition measure/machine measure/tampering results",
    "measure/definition": "contract files measure/machine results text",
    "measure/launches": "files kernels launches measure/machine packages results text",
    "measure/machine": "kernels protocol text",
    "measure/profiling": (
        "contract measure measure/definition measure/launches measure/machine measure/tampering protocol results text"
    ),
    "measure/scripts": (
        "measure measure/correctness measure/machine measure/session measure/tampering measure/timing protocol results "
        "sources sources/scripts text"
    ),
    "measure/scripts/at_start": "measure/scripts sources/scripts",
    "measure/salting": "contract measure/correctness measure/definition results",
    "measure/session": "measure/machine measure/timing",
    "measure/tampering": "contract text",
    "measure/timing": "analysis contract measure/machine results text",
    "models": "",
    "notebook": "comparison comparison/formats comparison/presentation errors results text",
    "operators": "contract kernels kernels/norms results",
    "packages": "",
    "plotting": (
        "analysis comparison errors files history plotting/changes plotting/over_time plotting/page plotting/panels "
        "plotting/selection plotting/style plotting/terminal text"
    ),
    "plotting/changes": (
        "analysis comparison comparison/presentation errors plotting/page plotting/panels plotting/selection "
        "plotting/style"
    ),
    "plotting/over_time": (
        "history history/presentation plotting/changes plotting/page plotting/panels plotting/selection plotting/style"
    ),
    "plotting/page": "analysis plotting/panels plotting/selection plotting/style results",
    "plotting/panels": "analysis plotting/selection plotting/style",
    "plotting/selection": "analysis errors results text",
    "plotting/style": "errors text",
    "plotting/terminal": "plotting/panels plotting/selection plotting/style",
    "plugins": "contract protocol registry results text",
    "protocol": "contract launches results",
    "registry": "contract",
    "reporting": (
        "analysis comparison comparison/presentation errors explain files history history/presentation plotting "
        "plotting/selection plotting/style results summary version"
    ),
    "resolving": (
        "analysis comparison config errors execute execute/executors execute/worker launches protocol results revisions text"
    ),
    "results": "errors files text",
    "revisions": "comparison config errors execute files interrupts launches results",
    "revisions/bisecting": "analysis comparison comparison/presentation errors interrupts results revisions text",
    "sources": "config contract errors packages protocol sources/problems sources/scripts text",
    "sources/flashinfer_trace": "contract files protocol results sources sources/problems text",
    "sources/huggingface": "contract packages protocol results sources sources/problems",
    "sources/kernelbench": "contract protocol results sources sources/problems",
    "sources/problems": "contract files results sources text",
    "sources/scripts": "contract protocol results text",
    "summary": "analysis results text",
    "templates": "__init__",
    "text": "",
    "version": "",
    "why": "analysis counters errors launches results text",
}
"""Every room and the rooms that it may import from. A new arrow needs a reason, and its line here."""

MOST_FILES = 12
"""Of a room, and of loose modules at the top."""

ACCEPTED = {
    "the Python API, the command of the same name, and what both call": "compare do_bench judge plot report run",
    "the start of a process": "main",
    "one for each format of results or of problems": "load",
    "one for each file format": "schema text",
    "one for each kind of picture": "draw extent",
    "one for each family of kernels": "long_rows",
    "a command and what it calls, and the choice of a kernel in an operator": "dispatch",
    "limits of a file that kbench reads": "MAX_BYTES MAX_DEPTH MAX_LINES MAX_VALUES",
}
"""Names that stand in several modules, by what they have in common."""


def modules() -> dict[str, Path]:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


MODULES = modules()


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text())


def room(module: str) -> str:
    """`measure/timing` for kbench.measure.timing.timer, `errors` for kbench.errors. All operators are one room: they may
    import the same, so that a new one needs no line in MAY_IMPORT."""
    path = MODULES[module].relative_to(PACKAGE)
    if path.parts[0] == "operators":
        return "operators"
    return path.parent.as_posix() if len(path.parts) > 1 else path.stem


def imported(module: str) -> set[str]:
    """The modules of kbench that a module imports: at the top, in a function, or for type checkers only."""
    found = set()
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {
                whole if (whole := f"{node.module}.{alias.name}") in MODULES else node.module for alias in node.names
            }
    return (found & MODULES.keys()) - {module}


def arrows() -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for module in MODULES:
        found[room(module)] |= {room(other) for other in imported(module)} - {room(module)}
    return found


def names_of(module: str) -> Iterator[str]:
    """The public names that a module defines at its top. Names that it imports are no definitions."""
    for node in tree(module).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found = [node.name]
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            parts = [part for target in targets for part in ast.walk(target)]
            found = [part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)]
        else:
            continue
        yield from (name for name in found if not name.startswith("_"))


def places() -> dict[str, set[str]]:
    """The modules of each public name. All operators are one place, as each may have a provider of the same name; files of
    kbench/templates become a user's own."""
    found: dict[str, set[str]] = defaultdict(set)
    for module in MODULES:
        if room(module) != "templates":
            for name in names_of(module):
                found[name].add("kbench.operators" if room(module) == "operators" else module)
    return found


def test_no_room_imports_from_a_room_that_it_may_not() -> None:
    drawn = {name: sorted(others) for name, others in sorted(arrows().items())}
    allowed = {name: sorted(others.split()) for name, others in sorted(MAY_IMPORT.items())}
    assert drawn == allowed


def test_no_modules_import_each_other_in_a_circle() -> None:
    TopologicalSorter({module: imported(module) for module in MODULES}).prepare()  # raises CycleError


def test_no_room_has_too_many_files() -> None:
    counts = Counter(path.parent.relative_to(PACKAGE).as_posix() for path in MODULES.values())
    assert {name: count for name, count in counts.items() if count > MOST_FILES} == {}


def test_the_folders_that_contributing_names_for_new_files_exist() -> None:
    text = (PACKAGE.parent / "CONTRIBUTING.md").read_text()
    folders = {PACKAGE.parent / found for found in re.findall(r"`(kbench/[a-z_/]+/)(?:<name>\.py)?`", text)}
    assert PACKAGE / "measure" / "timing" in folders
    assert all(list(folder.glob("*.py")) for folder in folders)


def test_a_public_name_stands_in_one_module() -> None:
    shared = {name: sorted(modules) for name, modules in places().items() if len(modules) > 1}
    accepted = {name for names in ACCEPTED.values() for name in names.split()}
    new = [
        f"{name} stands in {' and in '.join(modules)}. Give it a fuller name in one of them, or a leading underscore where "
        "no other module uses it. If it means the same in all of them, add it to ACCEPTED."
        for name, modules in sorted(shared.items())
        if name not in accepted
    ]
    assert not new, "\n".join(new)
    old = sorted(accepted - shared.keys())
    assert not old, f"{', '.join(old)}: no longer in two modules; remove it from ACCEPTED"

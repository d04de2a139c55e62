"""Who may import whom. A room is a folder of kbench/; each module at the top is a room of its own."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import kbench

PACKAGE = Path(kbench.__file__).parent

MAY_IMPORT = {
    "__init__": "api contract errors kernels measure/scripts results version",
    "__main__": "cli interrupts",
    "analysis": "errors results text",
    "api": (
        "analysis comparison config contract errors execute measure measure/correctness measure/launches "
        "measure/machine measure/tampering plotting plugins protocol reporting results text"
    ),
    "cli": "commands errors execute interrupts text version",
    "clocks": "errors nvml protocol results text",
    "commands": (
        "analysis comparison config contract dispatching disturbances errors execute explain "
        "files history interrupts judging nvml plotting protocol reporting "
        "results revisions sources summary text why"
    ),
    "comparison": "analysis errors launches results text",
    "config": "contract errors protocol results sources text",
    "contract": "files results text",
    "dispatching": "analysis errors files plotting results text version",
    "disturbances": "clocks nvml",
    "errors": "",
    "execute": "clocks config contract errors files interrupts launches protocol results text version",
    "explain": "comparison results",
    "files": "errors",
    "history": "comparison errors results text",
    "interrupts": "",
    "judging": "analysis config contract errors execute interrupts launches protocol results text why",
    "kernels": "contract results",
    "kernels/norms": "kernels",
    "launches": "files results",
    "measure": (
        "analysis contract kernels measure/correctness measure/launches measure/machine "
        "measure/tampering measure/timing plugins protocol results sources "
        "text version"
    ),
    "measure/correctness": "contract measure/machine measure/tampering results text",
    "measure/launches": "contract kernels launches measure/machine results text",
    "measure/machine": "kernels nvml protocol text",
    "measure/scripts": (
        "contract measure measure/correctness measure/machine measure/tampering measure/timing protocol results text"
    ),
    "measure/scripts/at_start": "measure/scripts",
    "measure/tampering": "contract measure/machine text",
    "measure/timing": "contract measure/machine results text",
    "nvml": "",
    "operators": "contract kernels kernels/norms results",
    "plotting": "analysis comparison errors files history results text",
    "plugins": "contract protocol results text",
    "protocol": "contract launches results text",
    "reporting": ("analysis comparison errors explain files history plotting results summary text version"),
    "results": "errors text",
    "revisions": "comparison errors execute files interrupts launches results text",
    "sources": "contract files protocol text",
    "sources/problems": "contract files results sources text",
    "summary": "analysis results text",
    "templates": "__init__",
    "text": "",
    "version": "",
    "why": "errors launches results text",
}
"""Every room and the rooms that it may import from. A new arrow needs a reason, and its line here."""


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


def test_no_room_imports_from_a_room_that_it_may_not() -> None:
    drawn = {name: sorted(others) for name, others in sorted(arrows().items())}
    allowed = {name: sorted(others.split()) for name, others in sorted(MAY_IMPORT.items())}
    assert drawn == allowed


def test_no_modules_import_each_other_in_a_circle() -> None:
    TopologicalSorter({module: imported(module) for module in MODULES}).prepare()  # raises CycleError


def test_the_folders_that_contributing_names_for_new_files_exist() -> None:
    text = (PACKAGE.parent / "CONTRIBUTING.md").read_text()
    folders = {PACKAGE.parent / found for found in re.findall(r"`(kbench/[a-z_/]+/)(?:<name>\.py)?`", text)}
    assert PACKAGE / "measure" / "timing" in folders
    assert all(list(folder.glob("*.py")) for folder in folders)

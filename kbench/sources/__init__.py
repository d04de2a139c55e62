"""Other people's formats, turned into operators, cases and providers: benchmark scripts and problem folders.

`kbench run PATH` takes a config, a script or a problem. A problem is a folder or a file, and takes this way:

1. The parent puts its path into the request for the catalog.
2. The worker loads it (`load_source`). The format registers an operator and its providers, and returns the content of a config
   with the operator and its cases, which is part of the catalog.
3. The parent makes a config of it (kbench/config/load.py). From here on it is a run like any other: the same plan,
   isolation, rounds, controls, rows and pictures. `--set` and `--only` change it as they change a file.

A problem folder has a reference, so it becomes an ordinary `Operator`, and kbench checks its providers. A format is a module of
`problems/`, and a line of FOLDERS.

A script has no reference, declares no tensors, and says what it measures only while it runs. So `kbench run` starts it as
`kbench exec` starts a program, and its process measures itself (kbench/measure/scripts) and sends rows to the parent
(kbench/execute/program.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from kbench.contract.origin import registering_for
from kbench.files import source_text
from kbench.protocol import Fault
from kbench.text.exception_text import location


class SourceFault(Exception):
    """A problem or a solution that cannot be used. `where` is the place in it: a file, and a line where it is known."""

    def __init__(self, where: str, message: str) -> None:
        super().__init__(f"{where}: {message}")
        self.where, self.message = where, message


_DEFINITION = re.compile(r'"(reference|op_type|axes)"\s*:')
_MODEL = re.compile(r"^class\s+Model\b", re.MULTILINE)
_MODEL_INPUTS = re.compile(r"^def\s+get_(init_)?inputs\b", re.MULTILINE)
_MODEL_NEW = re.compile(r"^class\s+ModelNew\b", re.MULTILINE)


def definition_files(path: Path) -> list[Path]:
    """The definitions of FlashInfer-Trace or SOL-ExecBench at a path: a definition, the folder of one, or a data set."""
    if path.is_file():
        right = path.suffix == ".json" and (path.name == "definition.json" or _DEFINITION.search(source_text(path)))
        return [path] if right else []
    if (path / "definition.json").is_file():
        return [path / "definition.json"]
    return sorted((path / "definitions").rglob("*.json"))


def model_files(path: Path) -> list[Path]:
    """The KernelBench problems at a path: a file that defines `Model` and its inputs, or a folder with such files."""
    return _files_with(path, _MODEL, _MODEL_INPUTS)


def model_solutions(path: Path) -> list[Path]:
    """The KernelBench solutions in a folder: files that define `ModelNew`."""
    return _files_with(path, _MODEL_NEW)


def _files_with(path: Path, *patterns: re.Pattern[str]) -> list[Path]:
    files = [path] if path.is_file() else sorted(path.glob("*.py"))
    return [
        file
        for file in files
        if file.suffix == ".py" and all(pattern.search(source_text(file)) for pattern in patterns)
    ]


FOLDERS: dict[str, Callable[[Path], Sequence[Path]]] = {
    "kbench.sources.problems.flashinfer_trace": definition_files,
    "kbench.sources.problems.kernelbench": model_files,
}
"""The formats of problems: a module, and a function that lists the files of its format at a path. The parent calls that
function, so it runs and imports nothing of them. The module has a function `load(path, solutions)`, which a worker calls."""


def is_problem(path: Path) -> bool:
    """Whether there is a problem in a known format."""
    return path.exists() and folder_format(path) is not None


def folder_format(path: Path) -> str | None:
    """The module that reads a problem folder, or a file of one; None if no format fits."""
    return next((module for module, fits in FOLDERS.items() if fits(path)), None)


def load_source(source: str, solutions: Sequence[str]) -> dict[str, Any] | Fault:
    """In the worker: load a problem, which registers its operator, and further solutions of it. Each solution belongs to its
    file. Returns the content of its config, or the reason why there is none."""
    try:
        module = folder_format(Path(source))
        if module is None:
            raise SourceFault(source, "kbench does not know the format of this benchmark problem")
        with registering_for(source):
            config: dict[str, Any] = import_module(module).load(Path(source), [Path(file) for file in solutions])
            return config
    except SourceFault as fault:
        return Fault(fault.where, fault.message, source)
    except BaseException as error:  # noqa: BLE001  other people's code may raise anything
        return Fault(location(error, source), f"{type(error).__name__}: {error}", source)

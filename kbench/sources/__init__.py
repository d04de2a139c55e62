"""Other people's formats, turned into operators, cases and providers: benchmark scripts and problem folders.

`kbench run PATH` takes a config, a script or a folder, and `source_of` says which. A script or folder takes this way:

1. The parent puts a `Source` (the path, and the arguments after `--`) into the request for the catalog.
2. The worker loads it (`loading.py`). The format registers operators and their providers, and says in a `SourceSweep` what to
   measure: an operator, its cases and its configurations. The sweeps are part of the catalog.
3. The parent makes a config of each sweep (`source_config.py`). From here on it is a run like any other: the same plan,
   isolation, rounds, controls, rows and pictures. `--set` and `--only` change it as they change a file.

A problem folder has a reference, so it becomes an ordinary `Operator`, and kbench checks its providers. A format is a file or a
folder of this folder. A script has no reference and declares no tensors. Each of its plots becomes a `ScriptOperator`, whose
lines are the providers, and `ScriptRun` measures it in place of `CaseRun`.

`kbench exec` takes a shorter way: it runs a program, and the program itself measures its calls of do_bench in place (see
kbench/execute/program.py and kbench/measure/scripts/in_place.py).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from pathlib import Path

from kbench.config.builtin import config_names
from kbench.sources.problems.formats import definition_files, model_files


class SourceKind(enum.Enum):
    """What the argument of `kbench run` is."""

    CONFIG = "config"
    SCRIPT = "script"
    FOLDER = "folder"


FOLDERS: dict[str, Callable[[Path], Sequence[Path]]] = {
    "kbench.sources.flashinfer_trace": definition_files,
    "kbench.sources.kernelbench": model_files,
}
"""The formats of problem folders: a module, and the files of a folder that have its format; a path may also be such a file. The
parent asks this, so the answer must not import torch. The module has a function `load(path) -> Sequence[SourceSweep]`, which a
worker calls."""

SCRIPT_SUFFIXES = (".py",)
"""The suffixes of scripts."""


def source_of(path: Path) -> SourceKind:
    """What to read at a path: a problem in a known format, a script, and otherwise a config, also where nothing exists.

    The name of a built-in config means that config also where a folder of this name exists.
    """
    if path.exists() and str(path) not in config_names() and folder_format(path):
        return SourceKind.FOLDER
    return SourceKind.SCRIPT if path.suffix in SCRIPT_SUFFIXES else SourceKind.CONFIG


def folder_format(path: Path) -> str | None:
    """The module that reads a problem folder, or a file of one; None if no format fits."""
    return next((module for module, fits in FOLDERS.items() if fits(path)), None)

"""Recognises the problem folders of other benchmarks by their files. The parent asks this, so nothing is run or imported."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

from kbench.files import source_text

MOST_FILES = 10_000
"""At most this many files of a folder are looked at."""

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
    return sorted(islice((path / "definitions").rglob("*.json"), MOST_FILES))


def model_files(path: Path) -> list[Path]:
    """The KernelBench problems at a path: a file that defines `Model` and its inputs, or a folder with such files."""
    return [file for file in _python_files(path) if (text := source_text(file)) and _is_model(text)]


def model_solutions(path: Path) -> list[Path]:
    """The KernelBench solutions in a folder: files that define `ModelNew`."""
    return [file for file in _python_files(path) if _MODEL_NEW.search(source_text(file))]


def _is_model(text: str) -> bool:
    return bool(_MODEL.search(text) and _MODEL_INPUTS.search(text))


def _python_files(path: Path) -> list[Path]:
    if path.is_file():
        return [path] if path.suffix == ".py" else []
    return sorted(islice(path.glob("*.py"), MOST_FILES)) if path.is_dir() else []

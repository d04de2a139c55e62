"""A command that runs once, for many tests that read what it printed and wrote."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

from promises.outside import Ended, run_kbench

MadeOnce = Callable[[str, Callable[[Path], object]], Path]


def folder_of(made_once: MadeOnce, name: str, files: Mapping[str, str], *arguments: object) -> Path:
    """The folder in which `kbench ARGUMENTS` has run once, among these files."""

    def make(folder: Path) -> None:
        for file, text in files.items():
            (folder / file).write_text(text)
        ended = run_kbench(*arguments, folder=folder)
        (folder / "ended.json").write_text(json.dumps(asdict(ended)))

    return made_once(name, make)


def ended_in(folder: Path) -> Ended:
    """How the command of `folder_of` ended."""
    return Ended(**json.loads((folder / "ended.json").read_text()))


def lines_with(text: str, *words: object) -> list[str]:
    """The lines that hold all of these words. A word ends at a space, a comma or a colon."""
    return [line for line in text.splitlines() if {str(word) for word in words} <= words_of(line)]


def words_of(line: str) -> set[str]:
    return {word.rstrip(",:;") for word in line.split()}

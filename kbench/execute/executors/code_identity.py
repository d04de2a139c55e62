"""Identifies the code of a run: kbench, the config, the plug-ins. All machines that measure for one file must have the same."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kbench.files import source_text
from kbench.results.stamps import digest
from kbench.version import __version__

PACKAGE = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class RunFiles:
    """The config and the plug-ins of a run, as other machines can find them.

    `root` is the working directory of the run. Files below it are named relative to it, so that another machine may have
    its checkout at another path.
    """

    root: str
    config: str
    plugins: tuple[str, ...]

    @classmethod
    def of(cls, config: Path, plugins: tuple[str, ...]) -> RunFiles:
        root = Path.cwd()
        names = [os.path.relpath(path, root) if path.is_relative_to(root) else str(path) for path in map(Path, plugins)]
        config = config.resolve()
        return cls(
            str(root), os.path.relpath(config, root) if config.is_relative_to(root) else str(config), tuple(names)
        )

    def find(self, name: str) -> Path:
        """The path of a file on this machine: in its working directory, otherwise where the run has it."""
        return path if (path := Path(name).resolve()).exists() else Path(self.root, name)


def identify_code(files: RunFiles) -> dict[str, str]:
    """The versions and hashes of the code on this machine, as messages show them."""
    found = {"kbench": __version__, "kbench's source": f"hash {_package_digest()}"}
    for entry in importlib.metadata.entry_points(group="kbench.plugins"):
        found[f"installed plug-in {entry.name}"] = entry.dist.version if entry.dist else ""
    for kind, name in (("config", files.config), *(("plug-in", name) for name in files.plugins)):
        if (path := files.find(name)).exists():
            found[f"{kind} {name}"] = f"hash {_file_digest(path)}"
    return found


def compare_code(wanted: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """How the code of a machine differs from that of the run, a few words for each difference. A machine needs no copy of the
    config, because it is sent its cases; but a copy that it has must be the same."""
    names = [name for name in dict.fromkeys([*wanted, *found]) if name in found or not name.startswith("config ")]
    return [_difference(name, wanted, found) for name in names if wanted.get(name) != found.get(name)]


def _difference(name: str, wanted: Mapping[str, str], found: Mapping[str, str]) -> str:
    if name not in found:
        return f"{name} is missing"
    if name not in wanted:
        return f"{name} is missing where the run was started"
    return f"{name} differs: {found[name]} there, {wanted[name]} in this run"


def _package_digest() -> str:
    """A hash of all files of kbench."""
    files = sorted(path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return digest([[str(path.relative_to(PACKAGE)), _file_digest(path)] for path in files])


def _file_digest(path: Path) -> str:
    return digest(source_text(path))

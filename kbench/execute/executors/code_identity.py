"""What code a run is made of: kbench's own, the config, the plug-ins. Machines that measure for one file must agree on it."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kbench.files import source_text
from kbench.results.row import digest
from kbench.version import __version__

PACKAGE = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Files:
    """The config and the plug-ins of a run, as every machine can find them.

    `root` is the working directory of the run; what lies below it is named relative to it, so that another machine may
    have a checkout of its own anywhere else.
    """

    root: str
    config: str
    plugins: tuple[str, ...]

    @classmethod
    def of(cls, config: Path, plugins: tuple[str, ...]) -> Files:
        root = Path.cwd()
        names = [os.path.relpath(path, root) if path.is_relative_to(root) else str(path) for path in map(Path, plugins)]
        config = config.resolve()
        return cls(
            str(root), os.path.relpath(config, root) if config.is_relative_to(root) else str(config), tuple(names)
        )

    def find(self, name: str) -> Path:
        """A file on this machine: in its working directory, else where the run has it."""
        return path if (path := Path(name).resolve()).exists() else Path(self.root, name)


def identity(files: Files) -> dict[str, str]:
    """Hashes of the code on this machine, each under the name that a person reads."""
    found = {"kbench": __version__, "kbench's source": _package_digest()}
    for entry in importlib.metadata.entry_points(group="kbench.plugins"):
        found[f"installed plug-in {entry.name}"] = entry.dist.version if entry.dist else ""
    for kind, name in (("config", files.config), *(("plug-in", name) for name in files.plugins)):
        if (path := files.find(name)).exists():
            found[f"{kind} {name}"] = _file_digest(path)
    return found


def differences(wanted: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """What one machine has otherwise than the run wants it, each in a few words. A machine needs no copy of the config: it
    is sent its cases. One that has another is behind, or ahead."""
    names = [name for name in dict.fromkeys([*wanted, *found]) if name in found or not name.startswith("config ")]
    return [
        f"{name} is {found.get(name, 'missing')}, not {wanted.get(name, 'wanted')}"
        for name in names
        if wanted.get(name) != found.get(name)
    ]


def _package_digest() -> str:
    """A hash of all files that make up kbench."""
    files = sorted(path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return digest([[str(path.relative_to(PACKAGE)), _file_digest(path)] for path in files])


def _file_digest(path: Path) -> str:
    return digest(source_text(path))

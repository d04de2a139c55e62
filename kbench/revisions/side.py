"""One side of a comparison of revisions: the files of a revision, and the environment in which they are measured."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from kbench.errors import ExecutionError, UsageError
from kbench.revisions.child import Ended, run_child
from kbench.revisions.repository import Repository, plain_environment

ENVIRONMENT_LIMIT_S = 300.0
"""Limit for making a virtual environment, in seconds."""

WORKING_TREE = "the working tree"

BUILD_LIMIT_S = 3600.0
"""Limit for the build of one revision, in seconds."""


class BuildFailed(ExecutionError):
    """The build command failed in a revision."""


@dataclass(frozen=True)
class RevisionSide:
    """A revision that can be measured.

    label   names its worktree and its results, such as `base`
    name    what messages call it: the revision as it was given and the hash, or `the working tree`
    root    the folder of its files, which stands for the top of the repository
    python  the Python that measures it
    """

    label: str
    name: str
    root: Path
    python: str = sys.executable


def check_out(
    label: str, revision: str | None, repository: Repository, folder: Path, copied: bool, note: Callable[[str], None]
) -> RevisionSide:
    """The side of a revision; None is the working tree. It is measured where it is, or from a copy if `copied`: a build
    would write into it. Raises UsageError."""
    root = folder / label
    if revision is None:
        if not copied:
            return RevisionSide(label, WORKING_TREE, repository.top)
        repository.add_worktree(root, repository.commit("HEAD"))
        repository.copy_uncommitted(root)
        return RevisionSide(label, WORKING_TREE, root)
    commit = repository.commit(revision)
    repository.add_worktree(root, commit)
    side = RevisionSide(label, commit[:9] if commit.startswith(revision) else f"{revision} ({commit[:9]})", root)
    if (root / ".gitmodules").is_file():
        note(
            f"{side.name} has submodules, which kbench does not check out; if the kernels need them, add "
            "--build 'git submodule update --init --recursive'"
        )
    return side


def build_side(
    side: RevisionSide, command: str, repository: Repository, folder: Path, note: Callable[[str], None]
) -> RevisionSide:
    """Run a build command in a virtual environment of the side's own, which also sees the packages of this one.

    Returns the side with its new Python. Raises BuildFailed, after the end of the command's output went to `note`.
    """
    place = environment_folder(folder, side.label)
    made = run_child([sys.executable, "-m", "venv", str(place)], folder, plain_environment(), ENVIRONMENT_LIMIT_S)
    if made.code != 0:
        raise _failure(f"{side.name}: python -m venv failed", made, ENVIRONMENT_LIMIT_S, note)
    scripts = place / ("Scripts" if os.name == "nt" else "bin")
    python = str(scripts / "python")
    _add_packages(place)
    built = replace(side, python=python)
    environment = environment_of(built, repository) | {
        "VIRTUAL_ENV": str(place),
        "PATH": os.pathsep.join([str(scripts), os.environ.get("PATH", os.defpath)]),
        "PIP_REQUIRE_VIRTUALENV": "1",  # pip must never install into the user's environment
    }
    environment.pop("PYTHONHOME", None)
    shell = ["cmd", "/c", command] if os.name == "nt" else ["/bin/sh", "-c", command]
    ended = run_child(shell, side.root, environment, BUILD_LIMIT_S)
    if ended.code != 0:
        raise _failure(f"{side.name}: the build {command!r} failed", ended, BUILD_LIMIT_S, note)
    return built


def environment_folder(folder: Path, label: str) -> Path:
    """Where the environment of the side with this label is."""
    return folder / f"environment-{label}"


def _failure(what: str, ended: Ended, limit_s: float, note: Callable[[str], None]) -> BuildFailed:
    for line in ended.tail:
        note(f"  {line}")
    how = f"it did not end within {limit_s:g} s" if ended.code is None else f"exit code {ended.code}"
    shown = "the lines above are the end of its output" if ended.tail else "it printed nothing"
    return BuildFailed(f"{what}: {how}; {shown}")


def _add_packages(place: Path) -> None:
    """Let the environment find the packages of this one after its own. `--system-site-packages` would give those of the
    Python that this environment was made from."""
    [packages] = place.glob("Lib/site-packages" if os.name == "nt" else "lib/python*/site-packages")
    ours = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    lines = [f"import site; site.addsitedir({path!r})" for path in ours]
    (packages / "zz-packages-of-kbench.pth").write_text("\n".join(lines) + "\n")


def environment_of(side: RevisionSide, repository: Repository) -> dict[str, str]:
    """The environment variables with which a side is built and measured. Its modules come first: every folder of the working
    tree in which this Python looks for modules is replaced with the same folder of the side."""
    inside = [side.root]
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    for text in [*given, *sys.path]:
        path = Path(text)
        if path.is_absolute() and path.resolve().is_relative_to(repository.top):
            mapped = side.root / path.resolve().relative_to(repository.top)
            if mapped.is_dir() and mapped not in inside and "site-packages" not in mapped.parts:
                inside.append(mapped)
    others = [text for text in given if text and not _is_in(text, repository.top)]
    own = Path(__file__).resolve().parents[2]
    if own.name != "site-packages" and not own.is_relative_to(repository.top) and str(own) not in others:
        others.append(str(own))
    environment = plain_environment()
    return environment | {"PYTHONPATH": os.pathsep.join([*map(str, inside), *others])}


def _is_in(text: str, top: Path) -> bool:
    return Path(text).is_absolute() and Path(text).resolve().is_relative_to(top)


def folder_of(side: RevisionSide, repository: Repository, folder: Path) -> Path:
    """The folder of a side that stands for a folder of the working tree. Raises UsageError if the revision has none."""
    relative = folder.resolve().relative_to(repository.top)
    if not (side.root / relative).is_dir():
        raise UsageError(f"{side.name} has no folder {relative}; start kbench from the top of the repository")
    return side.root / relative

"""One side of a comparison of revisions: the files of a revision, the environment in which they are measured, and the sessions,
each of which is a `kbench run` as a child process in the side's folder."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kbench import files
from kbench.errors import ExecutionError, ExitStatus, ResultsError, UsageError
from kbench.execute.writer import move_aside
from kbench.launches.kernels_file import kernels_path
from kbench.launches.machine_code import code_folder
from kbench.results.environment import environment_path
from kbench.revisions.process import Ended, run_process
from kbench.revisions.repository import Repository, plain_environment

ENVIRONMENT_LIMIT_S = 300.0
"""Limit for making a virtual environment, in seconds."""

BUILD_LIMIT_S = 3600.0
"""Limit for the build of one revision, in seconds."""

KBENCH = ["-P", "-m", "kbench"]
"""Python's arguments for a child that measures. With -P it finds modules in PYTHONPATH first, not in the working folder."""


@dataclass(frozen=True)
class RevisionSide:
    """A revision that is checked out.

    label   names its worktree and its results, such as `base`
    name    what messages call it: the revision as it was given and the hash, or `the working tree`
    root    the folder of its files, which stands for the top of the repository
    python  the Python that measures it
    """

    label: str
    name: str
    root: Path
    python: str = sys.executable

    def folder(self, repository: Repository, folder: Path) -> Path:
        """The folder that stands for a folder of the working tree. Raises UsageError if the revision has none."""
        relative = folder.resolve().relative_to(repository.top)
        if not (self.root / relative).is_dir():
            raise UsageError(f"{self.name} has no folder {relative}; start kbench from the top of the repository")
        return self.root / relative


def check_out(
    label: str, revision: str | None, repository: Repository, folder: Path, note: Callable[[str], None]
) -> RevisionSide:
    """Check a revision out in a folder for worktrees. None is the working tree as it is now. Raises UsageError."""
    root = folder / label
    if revision is None:
        name = "the working tree"
        repository.add_copy_of_working_tree(root, folder / "index")
    else:
        commit = repository.commit(revision)
        name = commit[:9] if commit.startswith(revision) else f"{revision} ({commit[:9]})"
        repository.add_worktree(root, commit)
    if (root / ".gitmodules").is_file():
        note(
            f"{name} has submodules, which kbench does not check out; if the kernels need them, add "
            "--build 'git submodule update --init --recursive'"
        )
    return RevisionSide(label, name, root)


def build(side: RevisionSide, command: str, repository: Repository, note: Callable[[str], None]) -> RevisionSide:
    """Run a build command in a virtual environment of the side's own, which also sees the packages of this one.

    Returns the side with its new Python. Raises ExecutionError, after the end of the command's output went to `note`.
    """
    note(f"building {side.name}: {command}")
    place = side.root.with_name(f"environment-{side.label}")
    venv = [sys.executable, "-m", "venv", str(place)]
    creation = run_process(venv, side.root, plain_environment(), ENVIRONMENT_LIMIT_S)
    if creation.code != 0:
        raise _failure(f"{side.name}: python -m venv failed", creation, ENVIRONMENT_LIMIT_S, note)
    scripts, packages = (
        Path(sysconfig.get_path(name, "venv", {"base": str(place), "platbase": str(place)}))
        for name in ("scripts", "purelib")
    )
    # The packages of this environment come after its own. `--system-site-packages` would give those of the Python that this
    # environment was made from.
    package_folders = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    lines = [f"import site; site.addsitedir({path!r})" for path in package_folders]
    (packages / "zz-packages-of-kbench.pth").write_text("\n".join(lines) + "\n")
    built = replace(side, python=str(scripts / "python"))
    environment = environment_of(built, repository) | {
        "VIRTUAL_ENV": str(place),
        "PATH": os.pathsep.join([str(scripts), os.environ.get("PATH", os.defpath)]),
        "PIP_REQUIRE_VIRTUALENV": "1",  # pip must never install into the user's environment
    }
    environment.pop("PYTHONHOME", None)
    ended = run_process(command, side.root, environment, BUILD_LIMIT_S)
    if ended.code != 0:
        raise _failure(f"{side.name}: the build {command!r} failed", ended, BUILD_LIMIT_S, note)
    return built


def _failure(event: str, ended: Ended, limit_s: float, note: Callable[[str], None]) -> ExecutionError:
    for line in ended.tail:
        note(f"  {line}")
    ending = f"it did not end within {limit_s:g} s" if ended.code is None else f"exit code {ended.code}"
    advice = "the lines above are the end of its output" if ended.tail else "it printed nothing"
    return ExecutionError(f"{event}: {ending}; {advice}")


def environment_of(side: RevisionSide, repository: Repository) -> dict[str, str]:
    """The environment variables with which a side is built and measured. Its modules come first: every folder of the working
    tree in which this Python looks for modules is replaced with the same folder of the side."""
    inside, outside = [side.root], []
    python_path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    kbench_root = Path(__file__).resolve().parents[2]
    for text in [*python_path, *sys.path, str(kbench_root)]:
        path = Path(text)
        if path.is_absolute() and path.resolve().is_relative_to(repository.top):
            mapped = side.root / path.resolve().relative_to(repository.top)
            if mapped.is_dir() and mapped not in inside and "site-packages" not in mapped.parts:
                inside.append(mapped)
        elif text in python_path or (path == kbench_root and kbench_root.name != "site-packages"):
            outside.append(text)
    paths = dict.fromkeys([*map(str, inside), *filter(None, outside)])
    return plain_environment() | {"PYTHONPATH": os.pathsep.join(paths)}


class SessionLimit(ExecutionError):
    """A session took longer than its limit."""


@dataclass
class SideSessions:
    """The sessions of a side.

    folder     working folder of the child
    arguments  of `kbench run`, with the config
    csv        where the results of whole sessions are kept
    count      how many sessions were measured
    """

    side: RevisionSide
    repository: Repository
    folder: Path
    arguments: Sequence[str]
    csv: Path
    note: Callable[[str], None]
    count: int = 0

    def measure(self, limit_s: float) -> None:
        """Measure one more session. Raises UsageError, ResultsError, SessionLimit, ExecutionError and KeyboardInterrupt."""
        scratch = self.side.root.with_name(f"results-{self.side.label}")
        more = ["--append"] if self.count else []
        command = [self.side.python, *KBENCH, "run", *self.arguments, "--sessions", "1", *more, "--no-plot"]
        environment = environment_of(self.side, self.repository)
        ended = run_process([*command, "--out", str(scratch)], self.folder, environment, limit_s)
        if ended.code not in (ExitStatus.OK, ExitStatus.FAILED):  # a failed row is a row: the comparison judges it
            self._raise(ended, limit_s)
        self.count += 1
        self._keep(scratch)

    def _raise(self, ended: Ended, limit_s: float) -> None:
        if ended.code is None:
            raise SessionLimit(f"{self.side.name}: a session did not end within {limit_s:g} s, the whole --budget")
        if ended.code == ExitStatus.INTERRUPTED:
            raise KeyboardInterrupt
        errors = [line.removeprefix("error: ") for line in ended.errors.splitlines() if line.startswith("error: ")]
        message = "\n".join(f"{self.side.name}: {line}" for line in errors or ended.tail[-1:])
        if ended.code == ExitStatus.BAD_INPUT:
            raise UsageError(message)
        raise ExecutionError(message or f"{self.side.name}: kbench run ended with exit code {ended.code}")

    def _keep(self, scratch: Path) -> None:
        """Copy the results of whole sessions to where the user finds them. Earlier results there are moved aside."""
        if self.count == 1:
            for earlier in move_aside(self.csv):
                self.note(f"the earlier results were moved to {earlier}")
        [measured, *others] = scratch.glob("*.csv")
        if others:
            raise ResultsError(
                f"{self.side.name}: kbench run wrote {1 + len(others)} results files, but should write one"
            )
        targets = {
            kernels_path(measured): kernels_path(self.csv),  # a host has none
            environment_path(measured): environment_path(self.csv),
            measured: self.csv,
        }
        for source, target in targets.items():
            if source.exists():
                files.replace(target, source.read_bytes())
        if (code := code_folder(measured)).is_dir():
            shutil.copytree(code, code_folder(self.csv), dirs_exist_ok=True)

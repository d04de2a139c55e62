"""One side of a comparison of revisions: the files of a revision, the environment in which they are measured, and the sessions,
each of which is a `kbench run` as a child process in the side's folder."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kbench import files
from kbench.errors import ExecutionError, ExitStatus, ResultsError, UsageError
from kbench.execute.writer import move_aside
from kbench.launches.kernels_file import kernels_path
from kbench.launches.machine_code import code_folder
from kbench.results.environment import environment_path, read_environment
from kbench.revisions.process import Ended, run_process
from kbench.revisions.repository import Repository, plain_environment
from kbench.text import terminal

ENVIRONMENT_LIMIT_S = 300.0
"""Limit for making a virtual environment, in seconds."""

BUILD_LIMIT_S = 3600.0
"""Limit for the build of one revision, in seconds."""

KBENCH = ["-P", "-m", "kbench"]
"""Python's arguments for a child that measures. With -P it finds modules in PYTHONPATH first, not in the working folder."""


class SessionLimit(ExecutionError):
    """A session took longer than its limit."""


@dataclass
class RevisionSide:
    """A revision that is checked out, and its sessions.

    name    what messages call it: the revision as it was given and the hash, or `the working tree`
    root    the folder of its files, `base` or `head`, which stands for the top of the repository
    folder  the one that stands for the working folder
    csv     where the results of whole sessions are kept
    python  the Python that measures it
    count   how many sessions were measured
    """

    name: str
    root: Path
    folder: Path
    repository: Repository
    csv: Path
    python: str = sys.executable
    count: int = 0

    def build(self, command: str) -> None:
        """Run a build command in a virtual environment of the side's own, which also sees the packages of this one.

        The side is then measured with the Python of that environment. Raises ExecutionError, after a note with the
        end of the command's output.
        """
        terminal.note(f"building {self.name}: {command}")
        place = self.root.with_name(f"environment-{self.root.name}")
        venv = [sys.executable, "-m", "venv", str(place)]
        self._run("python -m venv", venv, plain_environment(), ENVIRONMENT_LIMIT_S)
        scripts, packages = (
            Path(sysconfig.get_path(name, "venv", {"base": str(place), "platbase": str(place)}))
            for name in ("scripts", "purelib")
        )
        # The packages of this environment come after its own. `--system-site-packages` would give those of the Python that this
        # environment was made from.
        package_folders = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
        lines = [f"import site; site.addsitedir({path!r})" for path in package_folders]
        (packages / "zz-packages-of-kbench.pth").write_text("\n".join(lines) + "\n")
        self.python = str(scripts / "python")
        environment = self.environment() | {
            "VIRTUAL_ENV": str(place),
            "PATH": os.pathsep.join([str(scripts), os.environ.get("PATH", os.defpath)]),
            "PIP_REQUIRE_VIRTUALENV": "1",  # pip must never install into the user's environment
        }
        environment.pop("PYTHONHOME", None)
        self._run(f"the build {command!r}", command, environment, BUILD_LIMIT_S)

    def _run(self, step: str, command: Sequence[str] | str, environment: Mapping[str, str], limit_s: float) -> None:
        """Run a step of the build. Raises ExecutionError if it fails, after a note with the end of its output."""
        ended = run_process(command, self.root, environment, limit_s)
        if ended.code != 0:
            for line in ended.tail:
                terminal.note(f"  {line}")
            ending = f"it did not end within {limit_s:g} s" if ended.code is None else f"exit code {ended.code}"
            advice = "the lines above are the end of its output" if ended.tail else "it printed nothing"
            raise ExecutionError(f"{self.name}: {step} failed: {ending}; {advice}")

    def environment(self) -> dict[str, str]:
        """The environment variables with which the side is built and measured. Its modules come first: every folder of the
        working tree in which this Python looks for modules is replaced with the same folder of the side."""
        inside, outside = [self.root], []
        python_path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        kbench_root = Path(__file__).resolve().parents[2]
        for text in [*python_path, *sys.path, str(kbench_root)]:
            path = Path(text)
            if path.is_absolute() and path.resolve().is_relative_to(self.repository.top):
                mapped = self.root / path.resolve().relative_to(self.repository.top)
                if mapped.is_dir() and mapped not in inside and "site-packages" not in mapped.parts:
                    inside.append(mapped)
            elif text in python_path or (path == kbench_root and kbench_root.name != "site-packages"):
                outside.append(text)
        paths = dict.fromkeys([*map(str, inside), *filter(None, outside)])
        return plain_environment() | {"PYTHONPATH": os.pathsep.join(paths)}

    def measure(self, arguments: Sequence[str], limit_s: float) -> None:
        """Measure one more session, with these arguments of `kbench run`. Raises UsageError, ResultsError, SessionLimit,
        ExecutionError and KeyboardInterrupt."""
        scratch = self.root.with_name(f"results-{self.root.name}")
        more = ["--append"] if self.count else []
        command = [self.python, *KBENCH, "run", *arguments, "--sessions", "1", *more, "--no-plot"]
        environment = self.environment()
        ended = run_process([*command, "--out", str(scratch)], self.folder, environment, limit_s)
        # a failed row is a row: the comparison judges it
        if ended.code not in (ExitStatus.OK, ExitStatus.FAILED):
            self._raise(ended, limit_s)
        self.count += 1
        self._keep(scratch)
        profile = read_environment(self.csv)[0].profile
        if profile and self.count == 1 and "--profile" not in arguments:
            terminal.note(f"{self.name}: no accelerator here: profile {profile} of {Path(arguments[0]).name} applies")

    def _raise(self, ended: Ended, limit_s: float) -> None:
        if ended.code is None:
            raise SessionLimit(f"{self.name}: a session did not end within {limit_s:g} s, the whole --budget")
        if ended.code == ExitStatus.INTERRUPTED:
            raise KeyboardInterrupt
        errors = [line.removeprefix("error: ") for line in ended.errors.splitlines() if line.startswith("error: ")]
        message = "\n".join(f"{self.name}: {line}" for line in errors or ended.tail[-1:])
        # the worktree is removed, and the repository stays
        message = message.replace(f"{self.root}{os.sep}", "")
        if ended.code == ExitStatus.BAD_INPUT:
            raise UsageError(message)
        raise ExecutionError(message or f"{self.name}: kbench run ended with exit code {ended.code}")

    def _keep(self, scratch: Path) -> None:
        """Copy the results of whole sessions to where the user finds them. Earlier results there are moved aside."""
        if self.count == 1:
            for earlier in move_aside(self.csv):
                terminal.note(f"the earlier results were moved to {earlier}")
        [measured, *others] = scratch.glob("*.csv")
        if others:
            raise ResultsError(f"{self.name}: kbench run wrote {1 + len(others)} results files, but should write one")
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


def check_out(revision: str | None, repository: Repository, root: Path, csv: Path) -> RevisionSide:
    """Check a revision out in the new folder `root`. None is the working tree as it is now. Raises UsageError."""
    if revision is None:
        name = "the working tree"
        repository.add_copy_of_working_tree(root, root.with_name("index"))
    else:
        commit = repository.commit(revision)
        name = commit[:9] if commit.startswith(revision) else f"{revision} ({commit[:9]})"
        repository.add_worktree(root, commit)
    if (root / ".gitmodules").is_file():
        terminal.note(
            f"{name} has submodules, which kbench does not check out; if the kernels need them, add "
            "--build 'git submodule update --init --recursive'"
        )
    relative = Path.cwd().resolve().relative_to(repository.top)
    if not (root / relative).is_dir():
        raise UsageError(f"{name} has no folder {relative}; start kbench from the top of the repository")
    return RevisionSide(name, root, root / relative, repository, csv)

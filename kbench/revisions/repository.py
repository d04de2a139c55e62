"""Asks git about a repository, and adds and removes worktrees. Changes no file of the working tree, and no index."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from kbench.errors import UsageError
from kbench.revisions.child import Ended, run_child

QUESTION_LIMIT_S = 60.0
"""Limit for one question to git."""

CHECKOUT_LIMIT_S = 1800.0
"""Limit for the checkout of a revision, which may fetch large files."""

HOOKS_OFF = ("-c", f"core.hooksPath={os.devnull}", "-c", "core.fsmonitor=false")
"""No hook of the repository runs when a worktree is added."""

IN_ENGLISH = {"LANGUAGE": "en"}
"""git's messages are read here. This variable changes their language only, and no encoding."""

LOCAL_VARIABLES = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_DIR", "GIT_GRAFT_FILE", "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE", "GIT_INTERNAL_SUPER_PREFIX", "GIT_NO_REPLACE_OBJECTS", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE", "GIT_SHALLOW_FILE", "GIT_WORK_TREE",
)  # fmt: skip
"""Variables that tie git to one repository, from `git rev-parse --local-env-vars`. A hook sets them. With GIT_INDEX_FILE,
adding a worktree would overwrite the user's index."""


def plain_environment() -> dict[str, str]:
    """The environment without the variables that tie git to one repository."""
    environment = {name: value for name, value in os.environ.items() if name not in LOCAL_VARIABLES}
    return environment | {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}


def _git(folder: Path, *words: str, limit_s: float = QUESTION_LIMIT_S) -> Ended:
    """Raises UsageError if git is not installed or does not answer in time."""
    try:
        ended = run_child(["git", *HOOKS_OFF, *words], folder, plain_environment() | IN_ENGLISH, limit_s)
    except OSError as error:
        raise UsageError(f"git cannot be started ({error.strerror}); kbench needs git to measure revisions") from None
    if ended.code is None:
        raise UsageError(f"{folder}: git {words[0]} did not end within {limit_s:g} s")
    return ended


def _said(ended: Ended) -> str:
    """Why git failed, in its own words: the line that begins with `fatal:`, or the last line."""
    if not ended.tail:
        return f"exit code {ended.code}"
    return next((line for line in ended.tail if line.startswith("fatal: ")), ended.tail[-1]).removeprefix("fatal: ")


def _no_repository(ended: Ended) -> str:
    """Why git finds no working tree, and what to do."""
    said = _said(ended)
    if "dubious ownership" in said:
        command = next((line.strip() for line in ended.tail if "safe.directory" in line), "")
        return f"git does not trust this repository, because another user owns it; if you trust it, run: {command}"
    here = f"git finds no working tree here ({said})"
    known = "not a git repository" in said or "must be run in a work tree" in said
    return f"{here}; start kbench in a folder of a cloned repository" if known else here


@dataclass(frozen=True)
class Repository:
    """A repository with a working tree.

    top     the folder of the working tree, without links
    common  the folder that all worktrees of the repository share: `.git` of the first one
    """

    top: Path
    common: Path

    @classmethod
    def of(cls, folder: Path) -> Repository:
        """The repository that a folder lies in. Raises UsageError."""
        asked = _git(folder, "rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir")
        if asked.code != 0:
            raise UsageError(f"{folder}: {_no_repository(asked)}")
        top, common = asked.output.splitlines()
        return cls(Path(top).resolve(), Path(common).resolve())

    def commit(self, revision: str) -> str:
        """The full hash of the commit that a revision names. Raises UsageError."""
        if not revision.strip():  # in a workflow, from a variable that is not set
            raise UsageError("the name of a revision is empty; give a branch, a tag or a hash")
        asked = _git(self.top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        if asked.code != 0:
            hint = self._hint_for_a_missing_commit()
            raise UsageError(f"{revision}: no such commit in {self.top}; {hint}")
        return asked.output.strip()

    def _hint_for_a_missing_commit(self) -> str:
        if _git(self.top, "rev-parse", "--is-shallow-repository").output.strip() == "true":
            return (
                "this clone is shallow: fetch the history with git fetch --unshallow, or fetch-depth: 0 in a workflow"
            )
        if _git(self.top, "rev-parse", "--verify", "--quiet", "HEAD").code != 0:
            return "this branch has no commit yet: make one with git commit, or name a commit of another branch"
        return "git log --oneline shows those of this branch"

    def differing(self, commit: str) -> list[str]:
        """The tracked files of the working tree that differ from a commit, relative to the top. Raises UsageError."""
        return self._names("diff", "--name-only", "--no-renames", "--no-ext-diff", "-z", commit)

    def _names(self, *words: str) -> list[str]:
        asked = _git(self.top, *words)
        if asked.code != 0:
            raise UsageError(f"{self.top}: git cannot list the uncommitted files: {_said(asked)}")
        return [name for name in asked.output.split("\0") if name]

    def add_worktree(self, folder: Path, commit: str) -> None:
        """Check out a commit in a new folder. Raises UsageError."""
        added = _git(self.top, "worktree", "add", "--quiet", "--detach", str(folder), commit, limit_s=CHECKOUT_LIMIT_S)
        if added.code != 0:
            raise UsageError(f"{commit[:9]}: cannot be checked out in {folder}: {_said(added)}")

    def worktrees(self) -> list[Path]:
        """The folders of all worktrees, also those that do not exist any more."""
        listed = _git(self.top, "worktree", "list", "--porcelain").output.splitlines()
        return [Path(line.removeprefix("worktree ")) for line in listed if line.startswith("worktree ")]

    def forget_worktree(self, folder: Path) -> None:
        """Remove the entry of a worktree whose folder is deleted. Other entries stay, as `git worktree prune` would not do."""
        _git(self.top, "worktree", "remove", "--force", "--force", str(folder))

    def copy_uncommitted(self, folder: Path) -> None:
        """Change a worktree of HEAD into a copy of the working tree: its changed and untracked files, without ignored ones.
        Raises UsageError."""
        untracked = self._names("ls-files", "--others", "--exclude-standard", "-z")
        for name in [*self.differing("HEAD"), *untracked]:
            source, target = self.top / name, folder / name
            if target.is_symlink() or target.is_file():
                target.unlink()
            if source.is_symlink() or source.is_file():
                if target.is_dir() and not target.is_symlink():  # a file has taken the place of a folder
                    shutil.rmtree(target)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target, follow_symlinks=False)
            elif source.is_dir():  # a submodule, or a repository inside this one
                shutil.copytree(
                    source, target, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".git")
                )

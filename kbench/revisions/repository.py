"""Asks git about a repository, and adds and removes worktrees. Changes no file of the working tree, no index and no branch."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kbench.errors import UsageError
from kbench.revisions.process import run_process

QUESTION_LIMIT_S = 60.0
"""Limit for one question to git."""

CHECKOUT_LIMIT_S = 1800.0
"""Limit for the checkout of a revision, which may fetch large files, and for a copy of the working tree."""

HOOKS_OFF = ("-c", f"core.hooksPath={os.devnull}", "-c", "core.fsmonitor=false")
"""No hook of the repository runs when a worktree is added."""

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


def _git(
    folder: Path,
    *arguments: str,
    limit_s: float = QUESTION_LIMIT_S,
    problem: str = "",
    more: Mapping[str, str] | None = None,
) -> str:
    """What git prints. `more` has further variables. Raises UsageError, with the `problem` and git's own reason."""
    try:
        ended = run_process(["git", *HOOKS_OFF, *arguments], folder, {**plain_environment(), **(more or {})}, limit_s)
    except OSError as error:
        raise UsageError(f"git cannot be started ({error.strerror}); kbench needs git to measure revisions") from None
    if ended.code is None:
        raise UsageError(f"{folder}: git {arguments[0]} did not end within {limit_s:g} s")
    if ended.code != 0:
        output = " ".join(line.strip() for line in ended.tail)
        raise UsageError(": ".join(filter(None, [problem or f"{folder}: git {arguments[0]} failed", output])))
    return ended.output


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
        problem = f"{folder}: git finds no working tree here; start kbench in a folder of a cloned repository"
        arguments = ("rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir")
        top, common = _git(folder, *arguments, problem=problem).splitlines()
        return cls(Path(top).resolve(), Path(common).resolve())

    def commit(self, revision: str) -> str:
        """The full hash of the commit that a revision names. Raises UsageError."""
        if not revision.strip():  # in a workflow, from a variable that is not set
            raise UsageError("the name of a revision is empty; give a branch, a tag or a hash")
        problem = (
            f"{revision}: no such commit in {self.top}; check its spelling (the config comes last), or get the history of a "
            "shallow clone with git fetch --unshallow, or fetch-depth: 0 in a workflow"
        )
        arguments = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        return _git(self.top, *arguments, problem=problem).strip()

    def add_worktree(self, folder: Path, commit: str) -> None:
        """Check out a commit in a new folder. Raises UsageError."""
        problem = f"{commit[:9]}: cannot be checked out in {folder}"
        arguments = ("worktree", "add", "--quiet", "--detach", str(folder), commit)
        _git(self.top, *arguments, limit_s=CHECKOUT_LIMIT_S, problem=problem)

    def add_copy_of_working_tree(self, folder: Path, index: Path) -> None:
        """Check out HEAD in a new folder, and give it the files of the working tree: also untracked ones, but no ignored ones.
        `index` is where git may write an index for that. Raises UsageError."""
        problem = f"{self.top}: git cannot copy the working tree"
        index_of_tree = Path(_git(self.top, "rev-parse", "--path-format=absolute", "--git-path", "index").strip())
        if index_of_tree.is_file():
            # it says which files did not change; its date tells git which ones to look at again
            shutil.copy2(index_of_tree, index)
        aside = {"GIT_INDEX_FILE": str(index)}
        _git(self.top, "add", "--all", limit_s=CHECKOUT_LIMIT_S, problem=problem, more=aside)
        tree = _git(self.top, "write-tree", problem=problem, more=aside).strip()
        self.add_worktree(folder, self.commit("HEAD"))
        _git(folder, "read-tree", "--reset", "-u", tree, limit_s=CHECKOUT_LIMIT_S, problem=problem)

    def forget_worktrees(self, folder: Path) -> None:
        """Remove git's entries of the worktrees in a deleted folder. `git worktree prune` would remove others, too."""
        listed = _git(self.top, "worktree", "list", "--porcelain").splitlines()
        for line in listed:
            worktree = Path(line.removeprefix("worktree "))
            if line.startswith("worktree ") and worktree.parent == folder:
                _git(self.top, "worktree", "remove", "--force", "--force", str(worktree))

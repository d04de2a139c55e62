"""`kbench init`: what it writes can be run as it is, and nothing is overwritten."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from planted_repository import git

from kbench.commands.init import WORKFLOW, init
from kbench.contract.operator import registered
from kbench.errors import UsageError
from kbench.plugins import load_plugins


def test_names_that_python_has_a_meaning_for_still_give_a_plug_in(tmp_path: Path, own_operators: None) -> None:
    names = ["class", "torch", "my_operator", "operator", "X"]
    for name in names:
        init(name, tmp_path / name)
    assert load_plugins([str(tmp_path / name / f"my_{name}.py") for name in names]) == []
    assert all("mine" in registered[name].providers for name in names)


@pytest.mark.parametrize("operator", ["../up", "1st", "", "a" * 41, "softmax.yaml"])
def test_a_name_that_is_none_writes_nothing(tmp_path: Path, operator: str) -> None:
    with pytest.raises(UsageError, match="cannot be an operator's name"):
        init(operator, tmp_path / "here")
    assert not list(tmp_path.iterdir())


class Workflow:
    """The workflow that init wrote for a config in a folder of a repository, and its steps by name."""

    def __init__(self, folder: Path) -> None:
        init("rownorm", folder)
        self.document: dict[str, Any] = yaml.safe_load((folder / WORKFLOW).read_text())
        steps = self.document["jobs"]["compare"]["steps"]
        self.scripts = {step["name"]: step["run"] for step in steps if "run" in step}

    def step(self, name: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a step as GitHub does, with a `kbench` that writes down what it was asked."""
        tools = cwd.parent / "tools"
        tools.mkdir(exist_ok=True)
        (tools / "kbench").write_text('#!/bin/sh\necho "$(cat side) $*" >> "$LOG"\nexit "${KBENCH_EXIT:-0}"\n')
        (tools / "kbench").chmod(0o755)
        settings = {key: str(value) for key, value in self.document["env"].items()}
        environment = os.environ | settings | {"PATH": f"{tools}:{os.environ['PATH']}"} | variables
        shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", self.scripts[name]]
        return subprocess.run(shell, cwd=cwd, env=environment, capture_output=True, text=True, timeout=60)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose `origin/main` is base, with a commit on top of it. The file `side` tells the two apart."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    return folder


def commit(folder: Path, side: str) -> None:
    (folder / "side").write_text(side)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", side)


def test_the_workflow_measures_base_and_head_in_turn(repository: Path, tmp_path: Path) -> None:
    workflow = Workflow(repository / "bench dir")
    assert workflow.document["env"]["CONFIG"] == "bench dir/rownorm.yaml"
    commit(repository, "base")
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    base = git(repository, "rev-parse", "HEAD").strip()
    commit(repository, "head")
    log = tmp_path / "log"
    done = workflow.step("Measure and compare", repository, LOG=str(log), BASE="origin/main")
    assert done.returncode == 0, done.stderr
    [asked] = log.read_text().splitlines()
    assert asked == (
        "head ab --budget 10m --fail-on missing,failed --out kbench-results --github --export "
        "markdown=kbench-results/compare.md --export json=kbench-results/compare.json -- "
        f"{base} bench dir/rownorm.yaml"
    )
    for code in ("1", "2", "3"):
        given = {"LOG": str(log), "BASE": "origin/main", "KBENCH_EXIT": code}
        assert workflow.step("Measure and compare", repository, **given).returncode != 0


@pytest.mark.parametrize("earlier", ["", "17", "17\n23"])
def test_the_workflow_writes_into_its_own_comment(repository: Path, tmp_path: Path, earlier: str) -> None:
    """Other workflows comment under the same name; the last comment of that name may be theirs."""
    workflow = Workflow(repository)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/gh").write_text('#!/bin/sh\necho "$*" >> "$LOG"\n[ "$2" != --paginate ] || echo "$EARLIER"\n')
    (tmp_path / "tools/gh").chmod(0o755)
    (repository / "kbench-results").mkdir()
    (repository / "kbench-results/compare.md").write_text("1 slower\n")
    log = tmp_path / "log"
    done = workflow.step("Comment", repository, LOG=str(log), NUMBER="4", GITHUB_REPOSITORY="a/b", EARLIER=earlier)
    assert done.returncode == 0, done.stderr
    asked, written = log.read_text().splitlines()
    assert asked.startswith("api --paginate repos/a/b/issues/4/comments ")
    assert written == (
        f"api --silent --method PATCH repos/a/b/issues/comments/{earlier.split()[-1]} --field body=@kbench-results/comment.md"
        if earlier
        else "pr comment 4 --body-file kbench-results/comment.md"
    )
    assert (repository / "kbench-results/comment.md").read_text() == "<!-- kbench rownorm.yaml -->\n1 slower\n"

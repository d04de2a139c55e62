"""`kbench init`: what it writes can be run as it is, and nothing is overwritten."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from common import Kbench
from warm_processes import WarmProcesses

from kbench.commands.init import TEMPLATES, WORKFLOW, init
from kbench.contract import origin
from kbench.errors import UsageError


def printed_commands(text: str) -> list[list[str]]:
    """The arguments of each `kbench ...` line that a user would copy."""
    lines = [line for line in text.splitlines() if line.startswith("  kbench ")]
    return [shlex.split(line, comments=True)[1:] for line in lines]


def test_what_it_wrote_and_what_to_type_next(kbench: Kbench, tmp_path: Path) -> None:
    done = kbench("init")
    assert done.returncode == 0, done.stderr
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written == [WORKFLOW, "my_softmax.py", "softmax.yaml"]
    assert all(f"wrote {name}: " in done.stdout for name in written)
    assert printed_commands(done.stdout) == [["check", "softmax.yaml"], ["run", "softmax.yaml"]]
    assert all(len(line) <= 100 for line in done.stdout.splitlines())


@pytest.mark.slow
def test_names_that_python_has_a_meaning_for_still_give_a_plug_in(tmp_path: Path, warm: WarmProcesses) -> None:
    names = ["softmax", "gelu", "class", "torch", "my_operator", "operator", "X"]
    for name in names:
        assert init(name, tmp_path / name) == 0
        config = yaml.safe_load((tmp_path / name / f"{name}.yaml").read_text())
        assert config["operator"] == name and config["plugins"] == [f"my_{name}.py"]
    program = (
        "import sys; from kbench import plugins; from kbench.contract import registry as r\n"
        "failed = plugins.load_plugins(sys.argv[1::2]); "
        "print(failed, [name for name in sys.argv[2::2] if 'mine' in r.operator(name).providers])"
    )
    arguments = [word for name in names for word in (str(tmp_path / name / f"my_{name}.py"), name)]
    done = warm.run(program, *arguments)
    assert done.stdout == f"[] {names}\n", done.stdout + done.stderr


@pytest.mark.parametrize("operator", ["../up", "a b", "1st", "", "a" * 41, "a\nb", "softmax.yaml", "\u202ex"])
def test_a_name_that_is_none_writes_nothing(tmp_path: Path, operator: str) -> None:
    with pytest.raises(UsageError, match="cannot be an operator's name"):
        init(operator, tmp_path / "here")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("existing", ["softmax.yaml", "my_softmax.py", WORKFLOW])
def test_nothing_is_overwritten(tmp_path: Path, existing: str) -> None:
    (tmp_path / existing).symlink_to("nowhere")  # not even a link that leads nowhere
    with pytest.raises(UsageError, match=f"{existing}: exists already"):
        init("softmax", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [existing]


def test_a_folder_that_cannot_be_written_is_one_line(kbench: Kbench, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = kbench("init", "--dir", "file/bench")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1


def test_a_name_like_one_of_kbench_gets_a_hint(kbench: Kbench, tmp_path: Path) -> None:
    done = kbench("init", "sofmax")
    assert done.returncode == 0
    assert 'warning: "sofmax" is a new operator; if you meant "softmax", run: kbench init softmax' in done.stderr


def test_the_hint_names_operators_with_a_template_only(kbench: Kbench, tmp_path: Path) -> None:
    done = kbench("init", "rms_norm")
    assert done.returncode == 0 and "if you meant" not in done.stderr


def test_a_template_is_for_an_operator_of_kbench_or_for_a_new_one() -> None:
    assert {path.stem for path in TEMPLATES.glob("*.py")} <= {"operator", *origin.shipped()}
    assert {path.stem for path in TEMPLATES.glob("*.yaml")} == {path.stem for path in TEMPLATES.glob("*.py")}


def test_an_operator_without_a_template_is_not_declared_a_second_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(origin, "shipped", lambda: ["rmsnorm"])
    advice = r'add providers to it, write a plug-in with @kbench\.operator\("rmsnorm"\)\.provider\(NAME\)'
    with pytest.raises(UsageError, match=f"kbench has an operator rmsnorm, but no template for it; to {advice}"):
        init("rmsnorm", tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("operator", ["softmax", "gelu", "rms_norm"])
def test_the_commands_it_prints_work(kbench: Kbench, tmp_path: Path, operator: str) -> None:
    check, run = printed_commands(kbench("init", operator, "--dir", "my bench").stdout)
    checked = kbench(*check)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "random" in checked.stdout and "  ok " in checked.stdout
    if operator != "rms_norm":
        return  # one run shows that the configs are alike
    ran = kbench(*run, "--no-plot")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = (tmp_path / "results" / "rms_norm.csv").read_text()
    assert ",ok," in rows


class Workflow:
    """The workflow that init wrote for a config in a folder of a repository, and its steps by name."""

    def __init__(self, folder: Path) -> None:
        init("softmax", folder)
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


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=60).stdout


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
    assert workflow.document["env"]["CONFIG"] == "bench dir/softmax.yaml"
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
        f"{base} bench dir/softmax.yaml"
    )


@pytest.mark.parametrize(("code", "passes"), [("0", True), ("1", False), ("2", False), ("3", False)])
def test_the_job_ends_as_kbench_ab_does(repository: Path, tmp_path: Path, code: str, passes: bool) -> None:
    workflow = Workflow(repository)
    commit(repository, "base")
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    given = {"LOG": str(tmp_path / "log"), "BASE": "origin/main"}
    done = workflow.step("Measure and compare", repository, KBENCH_EXIT=code, **given)
    assert (done.returncode == 0) is passes


def test_the_first_pull_request_has_nothing_to_compare_with(repository: Path, tmp_path: Path) -> None:
    commit(repository, "base")
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    workflow = Workflow(repository)
    commit(repository, "head")
    log = tmp_path / "log"
    done = workflow.step("Measure and compare", repository, LOG=str(log), BASE="origin/main")
    assert done.returncode == 0 and "::notice::the base has no softmax.yaml yet" in done.stdout
    assert not log.exists(), "nothing is measured"


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
    assert (repository / "kbench-results/comment.md").read_text() == "<!-- kbench softmax.yaml -->\n1 slower\n"


def test_a_workflow_that_does_not_know_what_to_install_says_so(repository: Path) -> None:
    workflow = Workflow(repository)
    done = workflow.step("Install", repository, KBENCH="")
    assert done.returncode == 1 and "::error::KBENCH is empty" in done.stdout


def test_the_workflow_names_nothing_of_this_repository() -> None:
    text = (TEMPLATES / "workflow.yml").read_text()
    assert not re.search(r"\bmake\b|\.venv|configs/|softmax", text)

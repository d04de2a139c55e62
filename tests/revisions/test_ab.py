"""`kbench ab`: two revisions of a repository, measured in turn.

Most tests replace the child that measures with one that reads its time from the file `cost` of the revision.
"""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from common import ROOT, run_kbench
from planted_repository import CONFIG, Machine, commit, git, hanging, has_ended, state

from kbench.revisions import side
from kbench.revisions.process import Ended
from kbench.revisions.repository import Repository

AB = ("ab", "old", "slow", CONFIG)


def ab(repository: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """Run `kbench ab` in the repository, and check that it changes and leaves nothing."""
    before = state(repository)
    done = run_kbench(["ab", *words], repository)
    assert state(repository) == before
    assert "Traceback" not in done.stderr and "bug" not in done.stderr
    return done


# ---- what is measured


def test_it_finds_five_percent_with_three_sessions_a_side(repository: Path, machine: Machine) -> None:
    done = ab(repository, "old", "slow", CONFIG, "--fail-on", "slower")
    assert done.returncode == 1, done.stderr
    assert "gate failed: 6 slower" in done.stdout
    assert "measured 3 sessions of base and 3 sessions of head: no row is unclear" in done.stderr
    assert [folder.name for folder in machine.sides] == ["base", "head", "head", "base", "base", "head"]
    with (repository / "results" / "ab" / "head.csv").open(newline="") as file:
        assert {line["session"] for line in csv.DictReader(file)} == {"0", "1", "2"}


def test_staged_unstaged_and_untracked_work_is_measured_and_stays(repository: Path, machine: Machine) -> None:
    (repository / "cost").write_text("3.0")
    git(repository, "add", "cost")
    (repository / "cost").write_text("2.0")
    (repository / "definition").write_text("untracked")
    done = ab(repository, "old", CONFIG, "--strict")
    assert done.returncode == 3 and "6 incomparable" in done.stdout, done.stdout
    (repository / "definition").unlink()
    machine.rows.clear()
    assert "+100.0%" in ab(repository, "old", CONFIG).stdout


def test_the_copy_that_is_measured_has_the_files_of_the_working_tree(repository: Path, tmp_path: Path) -> None:
    for name in ("folder/inside", "gone", "changed", "staged"):
        (repository / name).parent.mkdir(exist_ok=True)
        (repository / name).write_text("before")
    commit(repository, 1.0)
    (repository / "folder" / "inside").unlink()
    (repository / "folder").rmdir()
    (repository / "folder").write_text("a file now")
    (repository / "gone").unlink()
    (repository / "changed").write_text("after!")  # as long as before, and within the same second
    (repository / "staged").write_text("after!")
    git(repository, "add", "staged")
    (repository / "link").symlink_to("nowhere")
    (repository / "results").mkdir()
    (repository / "results" / "ignored").touch()
    whole = Repository.of(repository)
    whole.add_copy_of_working_tree(tmp_path / "copy", tmp_path / "index")
    files = {str(path.relative_to(tmp_path / "copy")) for path in (tmp_path / "copy").rglob("*")}
    assert files == {
        ".git", ".gitignore", "bench", CONFIG, "changed", "cost", "folder", "link", "staged",
    }  # fmt: skip
    assert {(tmp_path / "copy" / name).read_text() for name in ("changed", "staged")} == {"after!"}


def test_modules_come_from_the_side_also_with_an_editable_install(
    repository: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "src").mkdir()
    (repository / "src" / "mine.py").touch()
    commit(repository, 1.0)
    monkeypatch.setattr(sys, "path", [*sys.path, str(repository / "src")])  # what an editable install does
    ab(repository, "main", CONFIG)
    for environment, label in zip(machine.environments[:2], ("base", "head"), strict=True):
        first, second, *others = environment["PYTHONPATH"].split(os.pathsep)
        assert Path(first).name == label and second == f"{first}/src" and str(repository / "src") not in others


def test_configs_and_plug_ins_are_those_of_each_revision_and_shapes_are_the_same(
    repository: Path, machine: Machine, tmp_path: Path
) -> None:
    (repository / "bench" / "cost").write_text("1.0")
    outside = tmp_path / "outside.py"
    for plugin in (repository / "mine.py", repository / "bench" / "too.py", outside):
        plugin.write_text("")
    commit(repository, 1.0)
    more = ("--plugin", "../mine.py", "--plugin", repository / "bench" / "too.py", "--plugin", outside)
    done = run_kbench(["ab", "main", "sweep", *more, "--shapes", "s.csv"], repository / "bench")
    assert done.returncode == 0, done.stderr
    assert f"{outside}: lies outside of the repository, so all revisions measure the same file" in done.stderr
    assert [folder.parts[-2:] for folder in machine.sides[:2]] == [("base", "bench"), ("head", "bench")]
    for command in machine.commands:
        plugins = [after for word, after in pairwise(command) if word == "--plugin"]
        assert plugins == ["../mine.py", "too.py", str(outside)]  # from the folder `bench` of the revision
        assert command[command.index("run") + 1] == "sweep"
        assert command[command.index("--shapes") + 1] == str(repository / "bench" / "s.csv")


# ---- when it ends


def test_a_child_that_fails_ends_it_and_earlier_results_stay(
    repository: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Ended(1, "x.cu:1: error\n", "ninja: stopped\n").tail == ["x.cu:1: error", "ninja: stopped"]
    ab(repository, "old", CONFIG, "--budget", "0.001s")
    old = f"old ({git(repository, 'rev-parse', 'old')[:9]})"
    for code, error, status, said in ((2, "error: {}/x.py:1: bad", 2, f"{old}: x.py:1: bad"), (-9, "", 3, "exit code")):
        monkeypatch.setattr(side, "run_process", lambda *a, code=code, e=error: Ended(code, "", e.format(a[1])))
        done = ab(repository, "old", CONFIG)
        assert done.returncode == status and said in done.stderr
    assert len(list((repository / "results" / "ab").glob("base*.csv"))) == 1
    monkeypatch.setattr(side, "run_process", machine.run)
    machine.rows.clear()
    done = ab(repository, "old", CONFIG, "--budget", "0.001s")
    assert "the earlier results were moved to" in done.stderr
    assert len(list((repository / "results" / "ab").glob("base*.csv"))) == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_leaves_nothing(repository: Path, tmp_path: Path, name: str) -> None:
    before = state(repository)
    running = hanging(repository, tmp_path / "mark", *AB)
    assert state(repository) != before
    running.send_signal(getattr(signal, name))
    errors = running.communicate(timeout=60)[1]
    assert running.returncode == 130 and "Traceback" not in errors, errors
    assert "interrupted; the sessions that had ended, if any, are in results/ab" in errors
    assert state(repository) == before
    assert has_ended(int((tmp_path / "mark").read_text()))


@pytest.mark.slow
def test_the_next_one_removes_what_sigkill_left_and_no_worktree_of_the_user(
    repository: Path, machine: Machine, tmp_path: Path
) -> None:
    git(repository, "worktree", "add", "-q", "--detach", str(tmp_path / "elsewhere"))
    (tmp_path / "elsewhere").rename(tmp_path / "not mounted")
    before = state(repository)
    killed = hanging(repository, tmp_path / "mark", *AB)
    killed.kill()
    killed.communicate()
    assert has_ended(int((tmp_path / "mark").read_text())), "the child outlives its parent"
    done = run_kbench(["ab", "old", CONFIG], repository)
    assert done.returncode == 0 and done.stderr.count("removed what a killed kbench left behind") == 1
    after = state(repository)
    assert {**after, "temporary": []} == before and "elsewhere" in str(after["worktrees"])


# ---- builds


@pytest.mark.slow
def test_a_build_runs_in_an_environment_of_its_own_and_not_in_the_working_tree(
    repository: Path, machine: Machine, tmp_path: Path
) -> None:
    (repository / "cost").write_text("2.0")  # not committed
    build = (
        "python -c 'from importlib.util import find_spec; exit(not find_spec(\"torch\"))' && command -v pip > built && "
        f"cp built '{tmp_path}'/$(basename $PWD)"
    )
    done = ab(repository, "old", CONFIG, "--build", build)
    assert done.returncode == 0 and "+100.0%" in done.stdout, done.stderr
    for label in ("base", "head"):  # pip would install there
        assert f"/environment-{label}/bin/pip" in (tmp_path / label).read_text()


# ---- what is refused


def test_bad_input_is_one_line_before_anything_is_measured(repository: Path, machine: Machine) -> None:
    for words, said in (
        ((CONFIG, "old"), "the config comes last"),
        (("--", "-x", CONFIG), "-x: no such commit in"),
        (("", CONFIG), "the name of a revision is empty; give a branch, a tag or a hash"),
        (("old", "bench.py"), "revisions are measured with a config, not a script; measure the script in both"),
        (("old", "slow", "more", CONFIG), "expected BASE [HEAD] CONFIG"),
        (("--budget", "ten", "old", CONFIG), "--budget 'ten' is not a duration; write 90s, 10m or 1h"),
    ):
        done = ab(repository, *words)
        assert done.returncode == 2 and machine.sides == []
        [line] = done.stderr.splitlines()
        assert line.startswith("error: ") and said in line and "fatal" not in line


# ---- the action


def test_the_action_passes_its_inputs_on(repository: Path, tmp_path: Path) -> None:
    """Its script runs with a `kbench` that prints its arguments. The base is where the branch left `origin/main`."""
    git(repository, "update-ref", "refs/remotes/origin/main", "old")
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    step = action["runs"]["steps"][-1]
    assert all(f"steps.{step['id']}.outputs.{name} " in given["value"] for name, given in action["outputs"].items())
    values = {name: str(given.get("default", "bench/a b.yaml")) for name, given in action["inputs"].items()}
    variables = {name: values[text.split(".")[1].split(" ")[0]] for name, text in step["env"].items()}
    (tmp_path / "kbench").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "kbench").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    run_step = partial(
        subprocess.run,
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=repository,
        env={**os.environ, **variables, "PATH": path, "GITHUB_BASE_REF": "main"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    words = run_step().stdout.splitlines()
    assert words[-3:] == ["--", git(repository, "rev-parse", "old").strip(), "bench/a b.yaml"]
    assert words[words.index("--fail-on") + 1] == "missing,failed"
    assert words[words.index("--build") + 1] == ""
    (repository / "bench").mkdir(exist_ok=True)
    (repository / "bench" / "a b.yaml").touch()
    assert run_step().stdout.startswith("::notice::the base has no bench/a b.yaml yet")
    shallow = run_step(env={**os.environ, "BASE": "", "GITHUB_BASE_REF": "main-that-was-not-fetched"}, check=False)
    assert shallow.returncode == 2 and "fetch-depth: 0" in shallow.stdout

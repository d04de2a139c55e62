"""`kbench ab`: two revisions of a repository, measured in turn.

Most tests replace the child that measures with one that reads its time from the file `cost` of the revision.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from ab_command import ab
from common import ROOT, run_kbench
from planted_repository import CONFIG, PLUGIN, SPIN, Machine, commit, git

from kbench.revisions import alternate, session
from kbench.revisions.child import Ended


def test_it_finds_five_percent_with_three_sessions_a_side(repository: Path, machine: Machine) -> None:
    done = ab(repository, "old", "slow", CONFIG, "--fail-on", "slower", "--export", "json=results/c.json")
    assert done.returncode == 1, done.stderr
    assert "gate failed: 6 slower" in done.stdout
    assert "measured 3 sessions of base and 3 sessions of head: no row is unclear" in done.stderr
    labels = [folder.name for folder in machine.sides]
    assert labels == ["base", "head", "head", "base", "base", "head"]
    assert json.loads((repository / "results" / "c.json").read_text())["rows"][0]["verdict"] == "slower"
    with (repository / "results" / "ab" / "head.csv").open(newline="") as file:
        assert {line["session"] for line in csv.DictReader(file)} == {"0", "1", "2"}


def test_an_unchanged_pair_passes(repository: Path, machine: Machine) -> None:
    done = ab(repository, "slow", CONFIG, "--fail-on", "slower,faster")
    assert done.returncode == 0, done.stderr
    assert "6 same" in done.stdout


def test_a_changed_definition_is_incomparable(repository: Path, machine: Machine) -> None:
    (repository / "definition").write_text("other")
    done = ab(repository, "old", CONFIG, "--strict")
    assert done.returncode == 3 and "6 incomparable" in done.stdout, done.stdout


def test_staged_unstaged_and_untracked_work_is_measured_and_stays(repository: Path, machine: Machine) -> None:
    (repository / "cost").write_text("3.0")
    git(repository, "add", "cost")
    (repository / "cost").write_text("2.0")
    (repository / "new file").write_text("untracked")
    (repository / CONFIG).write_text("operator: softmax # changed\n")
    done = ab(repository, "old", CONFIG)
    assert done.returncode == 0 and "+100.0%" in done.stdout, done.stdout


def test_a_detached_head_and_a_hook_with_its_own_index(
    repository: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    git(repository, "checkout", "-q", "--detach", "old")
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran'\n")
    hook.chmod(0o755)
    monkeypatch.setenv("GIT_INDEX_FILE", str(repository / ".git" / "index"))  # as in a pre-commit hook
    done = ab(repository, "slow", CONFIG)
    assert done.returncode == 0 and "-4.8%" in done.stdout, done.stdout
    assert not (tmp_path / "ran").exists()


def test_modules_come_from_the_side_also_with_an_editable_install(
    repository: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "src").mkdir()
    (repository / "src" / "mine.py").touch()
    commit(repository, 1.0)
    monkeypatch.setattr(sys, "path", [*sys.path, str(repository / "src")])  # what an editable install does
    ab(repository, "main", CONFIG)
    base, head = (environment["PYTHONPATH"].split(os.pathsep) for environment in machine.environments[:2])
    assert [Path(path).name for path in base[:2]] == ["base", "src"] and base[1] == f"{base[0]}/src"
    assert head[:2] == [str(repository), str(repository / "src")]
    assert str(repository / "src") not in base


def test_the_folder_of_the_user_stands_for_the_same_folder_of_the_revision(repository: Path, machine: Machine) -> None:
    (repository / "bench" / "cost").write_text("1.0")
    commit(repository, 1.0)
    done = run_kbench(["ab", "main", "sweep"], repository / "bench")
    assert done.returncode == 0, done.stderr
    assert [folder.parts[-2:] for folder in machine.sides[:2]] == [("base", "bench"), ("a repository", "bench")]
    gone = run_kbench(["ab", "old", "../" + CONFIG], repository)
    assert gone.returncode == 2 and "lies outside of the repository" in gone.stderr


def test_a_budget_that_is_too_short_says_so(
    repository: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = ab(repository, "old", CONFIG, "--budget", "0.001s")
    assert done.returncode == 0
    assert (
        "measured 1 session of base and 1 session of head: the budget is spent, before each side had 3" in done.stderr
    )


def test_unclear_rows_are_measured_until_the_limit(
    repository: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alternate, "MOST_SESSIONS", 5)
    done = ab(repository, "slow", CONFIG, "--margin", "0.01%")
    assert (
        "5 sessions of base and 5 sessions of head: 5 sessions of each side are the most that kbench measures"
        in done.stderr
    )
    assert "no more sessions can be measured for unclear rows" in done.stdout and "--budget" not in done.stdout
    done = ab(repository, "slow", CONFIG, "--margin", "0.01%", "--budget", "0.001s")
    assert "unclear rows may need more sessions: give a larger --budget than 0.001s" in " ".join(done.stdout.split())


def test_earlier_results_are_moved_not_lost(repository: Path, machine: Machine) -> None:
    ab(repository, "old", CONFIG)
    done = ab(repository, "old", CONFIG)
    assert "the earlier results were moved to" in done.stderr
    assert len(list((repository / "results" / "ab").glob("base*.csv"))) == 2


@pytest.mark.parametrize(("code", "errors", "status"), [(2, "error: x.py:1: bad\n", 2), (3, "", 3), (-9, "", 3)])
def test_a_child_that_fails_ends_it(
    repository: Path, monkeypatch: pytest.MonkeyPatch, code: int, errors: str, status: int
) -> None:
    monkeypatch.setattr(session, "run_child", lambda *words, **more: Ended(code, "", errors))
    done = ab(repository, "old", CONFIG)
    assert done.returncode == status
    assert (f"old ({git(repository, 'rev-parse', 'old')[:9]}): x.py:1: bad" if errors else "exit code") in done.stderr


@pytest.mark.slow
def test_a_real_plug_in_and_a_module_of_the_repository(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One session a side. The cost is three times as high. On a busy machine, one session may not decide."""
    (repository / "bench" / "spin.py").write_text(PLUGIN)
    (repository / "bench" / "spin.yaml").write_text(SPIN)
    (repository / ".gitignore").write_text("results/\n__pycache__/\n")
    (repository / "cost.py").write_text("MS = 0.5\n")
    commit(repository, 0)
    (repository / "cost.py").write_text("MS = 1.5\n")
    monkeypatch.setattr(alternate, "MOST_SESSIONS", 1)
    monkeypatch.setattr(alternate, "FEWEST_SESSIONS", 1)
    done = run_kbench(["ab", "main", "bench/spin.yaml", "--export", "json=results/c.json"], repository)
    assert done.returncode in (0, 3), done.stderr
    [found] = json.loads((repository / "results" / "c.json").read_text())["rows"]
    assert found["key"]["provider"] == "busy" and found["ratio"] > 2, found


def test_the_action_passes_its_inputs_on(repository: Path, tmp_path: Path) -> None:
    """Its script runs with a `kbench` that prints its arguments. The base is where the branch left `origin/main`."""
    git(repository, "update-ref", "refs/remotes/origin/main", "old")
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    step = action["runs"]["steps"][-1]
    values = {name: str(given.get("default", "bench/a b.yaml")) for name, given in action["inputs"].items()}
    variables = {name: values[text.split(".")[1].split(" ")[0]] for name, text in step["env"].items()}
    (tmp_path / "kbench").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "kbench").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=repository,
        env={**os.environ, **variables, "PATH": path, "GITHUB_BASE_REF": "main"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    words = done.stdout.splitlines()
    assert words[-3:] == ["--", git(repository, "rev-parse", "old").strip(), "bench/a b.yaml"]
    assert words[words.index("--fail-on") + 1] == "missing,failed"
    assert words[words.index("--build") + 1] == ""

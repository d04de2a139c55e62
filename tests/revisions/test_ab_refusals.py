"""`kbench ab`: what it refuses or warns of before it measures."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ab_command import ab
from common import run_kbench
from planted_repository import CONFIG, SWEEP, Machine, commit, git


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere", CONFIG), "nowhere: no such commit in"),
        (("--", "-x", CONFIG), "-x: no such commit in"),
        (("", CONFIG), "the name of a revision is empty; give a branch, a tag or a hash"),
        (("old", "bench/other.yaml"), " or in the working tree; check the name"),
        (("old", "bench/other.yaml"), "bench/other.yaml: no such file in old ("),
        (("old", "main", "bench/other.yaml"), " or in main ("),
        (
            ("old", "bench/new.yaml"),
            "has no such file; name a base that has it, or measure both revisions with kbench run",
        ),
        (("old", "bench.py"), "revisions are measured with a config, not a script; measure the script in both"),
        (("old", "slow", "more", CONFIG), "expected BASE [HEAD] CONFIG"),
        (("--budget", "ten", "old", CONFIG), "--budget 'ten' is not a duration; write 90s, 10m or 1h"),
        (("--fail-on", "sloower", "old", CONFIG), "--fail-on"),
        (("--export", "xml=a", "old", CONFIG), "--export 'xml=a'"),
    ],
)
def test_bad_input_is_one_line_before_anything_is_measured(
    repository: Path, machine: Machine, words: tuple[str, ...], said: str
) -> None:
    (repository / "bench" / "new.yaml").write_text("operator: softmax\n")  # only in the working tree
    done = ab(repository, *words)
    assert done.returncode == 2 and machine.sides == []
    [line] = done.stderr.splitlines()
    assert line.startswith("error: ") and said in line


def test_no_repository_and_a_bare_one(repository: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(repository), "bare")
    (tmp_path / "nothing").mkdir()
    for folder in ("bare", "nothing"):
        done = run_kbench(["ab", "old", CONFIG], tmp_path / folder)
        assert done.returncode == 2
        [line] = done.stderr.splitlines()
        assert f"{tmp_path / folder}: git finds no working tree here" in line
        assert line.endswith("; start kbench in a folder of a cloned repository")


def test_a_head_without_the_config_is_told_to_commit_it(repository: Path, machine: Machine) -> None:
    git(repository, "rm", "-q", CONFIG)
    git(repository, "commit", "-qm", "no config")
    done = ab(repository, "old", "main", CONFIG)
    assert done.returncode == 2 and done.stderr.endswith("has no such file; commit it, or name another head\n")
    done = ab(repository, "old", CONFIG)
    assert done.stderr.endswith("the working tree has no such file; restore it, or name another config\n")


def test_a_built_in_config_in_place_of_a_file_is_said_so(repository: Path, machine: Machine) -> None:
    (repository / "softmax.yaml").write_text(SWEEP)  # not committed
    done = ab(repository, "old", "softmax.yaml")
    assert done.returncode == 0, done.stderr
    [said] = [line for line in done.stderr.splitlines() if "built-in" in line]
    assert said.startswith("old (") and said.endswith(
        ") has no file softmax.yaml, so kbench measures its built-in config softmax"
    )


@pytest.mark.slow
def test_a_repository_of_another_user_says_how_to_trust_it(repository: Path) -> None:
    environment = {"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1", "GIT_CONFIG_GLOBAL": os.devnull, "LANGUAGE": "de"}
    done = subprocess.run(
        [sys.executable, "-m", "kbench", "ab", "old", CONFIG],
        cwd=repository, env=os.environ | environment, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    said = "git does not trust this repository, because another user owns it; if you trust it, run: git config --global"
    assert said in line and "safe.directory" in line and str(repository) in line.rpartition("safe.directory")[2]


def test_a_branch_without_a_commit_says_so(repository: Path, machine: Machine) -> None:
    git(repository, "switch", "-q", "--orphan", "empty")
    done = run_kbench(["ab", "HEAD", CONFIG], repository)
    assert done.returncode == 2
    assert "this branch has no commit yet: make one with git commit" in " ".join(done.stderr.split())


def test_a_shallow_clone_says_how_to_get_the_history(repository: Path, machine: Machine, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repository}", "shallow")
    done = ab(tmp_path / "shallow", git(repository, "rev-parse", "old").strip(), CONFIG)
    assert done.returncode == 2 and "git fetch --unshallow" in done.stderr
    assert ab(tmp_path / "shallow", "HEAD", CONFIG).returncode == 0


def test_submodules_are_not_checked_out_and_that_is_said(repository: Path, machine: Machine, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", str(repository), "library")
    git(repository, "submodule", "add", "-q", str(tmp_path / "library"), "library")
    commit(repository, 1.0)
    done = ab(repository, "main", CONFIG)
    assert done.returncode == 0 and "has submodules, which kbench does not check out" in done.stderr


def test_a_plug_in_with_a_full_path_would_be_the_same_in_all_revisions(repository: Path, machine: Machine) -> None:
    (repository / "mine.py").touch()
    (repository / CONFIG).write_text(f"plugins: ['{repository}/mine.py']\n{SWEEP}")
    commit(repository, 1.0)
    done = ab(repository, "main", CONFIG)
    assert done.returncode == 2 and "is named by an absolute path" in done.stderr and machine.sides == []

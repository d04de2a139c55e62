"""`kbench ab`: two revisions of a repository, measured in turn.

Most tests replace the child that measures with one that reads its time from the file `cost` of the revision.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from common import ROOT, run_kbench
from planted_repository import CONFIG, PLUGIN, SPIN, SWEEP, Machine, commit, git, hanging, has_ended, state

from kbench.comparison.options import CompareOptions
from kbench.execute.existing_results import refusal_error
from kbench.revisions import alternate, session
from kbench.revisions.bisecting.bisect import BisectOptions, bisect_revisions
from kbench.revisions.child import Ended
from kbench.revisions.measure import RevisionOptions, measure_revisions
from kbench.revisions.repository import Repository
from kbench.revisions.session import alone_in

AB = ("ab", "old", "slow", CONFIG)


def ab(repository: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """Run `kbench ab` in the repository, and check that it changes and leaves nothing."""
    before = state(repository)
    done = run_kbench(["ab", *words], repository)
    assert state(repository) == before
    assert "Traceback" not in done.stderr and "bug" not in done.stderr
    return done


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


@pytest.mark.parametrize("command", ["ab", "bisect"])
def test_two_at_once_do_not_share_a_folder(
    repository: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """The second one waits. Otherwise each would compare results of the other one."""
    monkeypatch.chdir(repository)
    out = Path("results/shared")
    options: Any = RevisionOptions("old", None, Path(CONFIG), out=out)
    measure: Any = partial(measure_revisions, comparing=CompareOptions())
    if command == "bisect":
        options = BisectOptions("old", "slow", Path(CONFIG), "provider=triton,N=64", out=out)
        measure = bisect_revisions
    lines: list[str] = []
    waits = threading.Event()

    def note(line: str) -> None:
        lines.append(line)
        if "is in use by" in line:
            assert not machine.sides
            waits.set()

    with ExitStack() as other:
        other.enter_context(alone_in(out, note))
        thread = threading.Thread(target=lambda: (waits.wait(30), other.close()))
        thread.start()
        measure(options, note=note)
        thread.join()
    [line] = [line for line in lines if "is in use by" in line]
    assert line.startswith("results/shared is in use by ")
    assert line.endswith("waiting for it to end (Ctrl-C gives up; --out names another folder)")
    assert machine.sides


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
        (
            ("old", "bench.py"),
            "revisions are measured with a config, not a script; make one with: kbench init bench.py > bench.yaml, and",
        ),
        (
            ("old", "bench/my bench.py"),
            "make one with: kbench init 'bench/my bench.py' > 'my bench.yaml', and commit it",
        ),
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


def test_edits_during_the_measurement_are_said(
    repository: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The working tree is measured where it is. Its later sessions would measure other code than the first."""
    (repository / "my.log").write_text("")

    def run(command: Sequence[str], folder: Path, *rest: Any, **more: Any) -> Ended:
        ended = machine.run(command, folder, *rest, **more)
        (repository / "my.log").write_text("x" * len(machine.sides))  # of another program, and untracked
        if len(machine.sides) == 2:
            (repository / "cost").write_text("1.3")
        if len(machine.sides) == 4:
            git(repository, "checkout", "-q", "cost")
        return ended

    assert "was edited" not in ab(repository, "old", CONFIG).stderr
    monkeypatch.setattr(session, "run_child", run)
    machine.sides.clear()
    said = " ".join(run_kbench(["ab", "old", CONFIG], repository).stderr.split())
    assert "warning: the working tree was edited while kbench measured it (cost), so its sessions may have run" in said
    machine.sides.clear()
    done = run_kbench(["ab", "old", "slow", CONFIG], repository)
    assert done.returncode == 0 and "was edited" not in done.stderr  # both are checked out elsewhere


def test_a_plug_in_that_changes_during_the_measurement_ends_it(
    repository: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = str(refusal_error(Path("/tmp/removed.csv"), ["the code of busy has changed"]))

    def run(command: Sequence[str], *rest: Any, **more: Any) -> Ended:
        return Ended(2, "", f"error: {refusal}\n") if "--append" in command else machine.run(command, *rest, **more)

    monkeypatch.setattr(session, "run_child", run)
    done = ab(repository, "old", CONFIG)
    assert done.returncode == 2 and "/tmp/removed.csv" not in done.stderr
    assert (
        "error: the working tree has changed since its first session: the code of busy has changed; change nothing until "
        "the command ends, and run it again"
    ) in " ".join(done.stderr.split())


def test_a_plug_in_that_a_revision_lacks_is_named_before_earlier_results_are_moved(
    repository: Path, machine: Machine
) -> None:
    assert ab(repository, "old", CONFIG).returncode == 0
    (repository / "new.py").write_text("")  # not committed
    done = ab(repository, "old", CONFIG, "--plugin", "new.py")
    assert done.returncode == 2
    assert "--plugin new.py: old (" in done.stderr and "has no such file; name a base that has it" in done.stderr
    assert len(list((repository / "results" / "ab").glob("base*.csv"))) == 1


def test_plug_ins_come_from_each_revision_and_shapes_are_the_same_for_both(
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
    for command in machine.commands:
        plugins = [after for word, after in pairwise(command) if word == "--plugin"]
        assert plugins == ["../mine.py", "too.py", str(outside)]  # from the folder `bench` of the revision
        assert command[command.index("--shapes") + 1] == str(repository / "bench" / "s.csv")


@pytest.mark.parametrize(("code", "errors", "status"), [(2, "error: x.py:1: bad\n", 2), (3, "", 3), (-9, "", 3)])
def test_a_child_that_fails_ends_it(
    repository: Path, monkeypatch: pytest.MonkeyPatch, code: int, errors: str, status: int
) -> None:
    monkeypatch.setattr(session, "run_child", lambda *words, **more: Ended(code, "", errors))
    done = ab(repository, "old", CONFIG)
    assert done.returncode == status
    assert (f"old ({git(repository, 'rev-parse', 'old')[:9]}): x.py:1: bad" if errors else "exit code") in done.stderr


def test_the_copy_that_is_built_has_the_files_of_the_working_tree(repository: Path, tmp_path: Path) -> None:
    for name in ("folder/inside", "gone", "changed", "staged"):
        (repository / name).parent.mkdir(exist_ok=True)
        (repository / name).write_text("before")
    commit(repository, 1.0)
    shutil.rmtree(repository / "folder")
    (repository / "folder").write_text("a file now")
    (repository / "gone").unlink()
    (repository / "cost").rename(repository / "moved")
    (repository / "changed").write_text("after")
    (repository / "staged").write_text("after")
    git(repository, "add", "staged")
    (repository / "link").symlink_to("nowhere")
    (repository / "results").mkdir()
    (repository / "results" / "ignored").touch()
    copy, found = tmp_path / "copy", Repository.of(repository)
    found.add_worktree(copy, found.commit("HEAD"))
    found.copy_uncommitted(copy)
    assert tree(copy) == {name: text for name, text in tree(repository).items() if "results" not in name}


def tree(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_symlink() or path.is_file()]
    inside = [path for path in files if path.relative_to(folder).parts[0] != ".git"]
    return {
        str(path.relative_to(folder)): str(path.readlink()) if path.is_symlink() else path.read_text()
        for path in inside
    }


@pytest.mark.slow
def test_a_build_runs_in_an_environment_of_its_own_and_not_in_the_working_tree(
    repository: Path, machine: Machine, tmp_path: Path
) -> None:
    (repository / "cost").write_text("2.0")  # not committed
    (repository / "new file").write_text("untracked")
    done = ab(
        repository,
        "old",
        CONFIG,
        "--build",
        "python -c 'from importlib.util import find_spec; exit(not find_spec(\"torch\"))' && command -v pip > built && "
        f"cp built '{tmp_path}'/$(basename $PWD)",
    )
    assert done.returncode == 0 and "+100.0%" in done.stdout, done.stderr
    assert [folder.name for folder in machine.sides[:2]] == ["base", "head"]
    for side in ("base", "head"):  # pip would install there
        assert f"/environment-{side}/bin/pip" in (tmp_path / side).read_text()


@pytest.mark.slow
def test_a_build_that_fails_shows_its_exit_code_and_the_end_of_its_output(repository: Path, machine: Machine) -> None:
    done = ab(repository, "old", CONFIG, "--build", "seq 100; echo no compiler >&2; exit 7")
    assert done.returncode == 3 and machine.sides == []
    assert "no compiler" in done.stderr and "failed: exit code 7" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_leaves_nothing(repository: Path, tmp_path: Path, name: str) -> None:
    before = state(repository)
    process = hanging(repository, tmp_path / "mark", *AB)
    assert state(repository) != before
    process.send_signal(getattr(signal, name))
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 130 and "Traceback" not in errors, errors
    assert "interrupted; the sessions that had ended, if any, are in results/ab" in errors
    assert state(repository) == before
    assert has_ended(int((tmp_path / "mark").read_text()))


@pytest.mark.slow
def test_the_next_one_removes_what_sigkill_left_but_nothing_that_is_in_use(
    repository: Path, machine: Machine, tmp_path: Path
) -> None:
    before = state(repository)
    killed = hanging(repository, tmp_path / "mark", *AB)
    living = hanging(repository, tmp_path / "other mark", *AB, "--out", "results/living")
    killed.kill()
    killed.communicate()
    assert has_ended(int((tmp_path / "mark").read_text())), "the child outlives its parent"
    done = run_kbench(["ab", "old", CONFIG], repository)
    assert done.stderr.count("removed what a killed kbench left behind") == 1
    assert git(repository, "worktree", "list").count("kbench-revisions-") == 2  # those of the living one
    living.terminate()
    living.communicate(timeout=60)
    assert state(repository) == before


@pytest.mark.slow
def test_a_worktree_of_the_user_stays_also_if_its_folder_is_gone(
    repository: Path, machine: Machine, tmp_path: Path
) -> None:
    git(repository, "worktree", "add", "-q", "--detach", str(tmp_path / "elsewhere"))
    shutil.rmtree(tmp_path / "elsewhere")  # such as a drive that is not mounted
    ab(repository, "old", CONFIG)
    assert "elsewhere" in git(repository, "worktree", "list")


@pytest.mark.slow
def test_a_real_plug_in_and_a_module_of_the_repository(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One session a side. The cost is three times as high, so that a busy machine does not matter."""
    (repository / "bench" / "spin.py").write_text(PLUGIN)
    (repository / "bench" / "spin.yaml").write_text(SPIN)
    (repository / ".gitignore").write_text("results/\n__pycache__/\n")
    (repository / "cost.py").write_text("MS = 0.5\n")
    commit(repository, 0)
    (repository / "cost.py").write_text("MS = 1.5\n")
    monkeypatch.setattr(alternate, "MOST_SESSIONS", 1)
    monkeypatch.setattr(alternate, "FEWEST_SESSIONS", 1)
    done = run_kbench(["ab", "main", "bench/spin.yaml", "--export", "json=results/c.json"], repository)
    assert done.returncode == 0, done.stderr
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

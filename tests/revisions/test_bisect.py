"""`kbench bisect`: finds the commit that made a row slower or faster.

Most tests replace the child that measures with one that reads its time from the file `cost` of the revision, and the build with
one that fails where the revision has a file `broken`.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from common import run_kbench
from planted_repository import (
    CONFIG,
    PLUGIN,
    SPIN,
    SWEEP,
    Machine,
    commit,
    git,
    hanging,
    has_ended,
    make_history,
    state,
)

from kbench.errors import ResultsError
from kbench.revisions import alternate, session
from kbench.revisions import side as sides
from kbench.revisions.child import Ended
from kbench.revisions.side import BuildFailed, RevisionSide

ROW = "provider=triton,N=64"
COMMITS = 64

SEEDS = int(os.environ.get("KBENCH_SEEDS", "3"))
"""How many histories of 64 commits are searched. KBENCH_SEEDS=20 searches twenty; each takes two seconds."""


HANGING_BISECT = ("bisect", "--good", "c0", "--bad", "c8", CONFIG, "--row", ROW)


class Builds:
    """Stands in for the build. `built` lists the commits that it built, `failed` those that it could not build."""

    def __init__(self) -> None:
        self.built: list[Path] = []
        self.failed: list[Path] = []

    def build(self, side: RevisionSide, command: str, *more: object) -> RevisionSide:
        if (side.root / "broken").exists():
            self.failed.append(side.root)
            raise BuildFailed(f"{side.name}: the build {command!r} failed: exit code 1")
        self.built.append(side.root)
        return side


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> Builds:
    builds = Builds()
    monkeypatch.setattr(sides, "build_side", builds.build)
    return builds


def history(
    folder: Path,
    costs: list[float],
    broken: tuple[int, ...] = (),
    fails: tuple[int, ...] = (),
    garbage: tuple[int, ...] = (),
) -> Path:
    """A repository with a commit for each cost. Commit 0 is the good revision."""
    commits = []
    for number, cost in enumerate(costs):
        files = {"cost": str(cost), "number": str(number), CONFIG: SWEEP, ".gitignore": "results/\n"}
        files |= {"broken": "x"} if number in broken else {}
        files |= {"fails": "bench.py:1: no kernel"} if number in fails else {}
        files |= {"garbage": "x"} if number in garbage else {}
        commits.append(files)
    make_history(folder, commits)
    return folder


def step(size: float, at: int, count: int = COMMITS) -> list[float]:
    """The costs of a good revision and of `count` later commits. Commit `at` has the change."""
    return [1 + size * (number >= at) for number in range(count + 1)]


def bisect(repository: Path, *words: object, last: int = COMMITS) -> subprocess.CompletedProcess[str]:
    """Run `kbench bisect` in the repository, and check that it changes and leaves nothing."""
    before = state(repository)
    arguments = ["--good", "c0", "--bad", f"c{last}", CONFIG, "--row", ROW, *words]
    done = run_kbench(["bisect", *arguments], repository)
    assert state(repository) == before
    assert "Traceback" not in done.stderr and "bug" not in done.stderr, done.stderr
    return done


def found(done: subprocess.CompletedProcess[str]) -> str:
    """The subject of the commit that was found."""
    assert done.returncode == 0, done.stdout + done.stderr
    first = done.stdout.splitlines()[0]
    assert first.startswith(("first slower commit: ", "first faster commit: ")), first
    return first.split()[4]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_step_of_ten_percent_among_64_commits(
    seed: int, tmp_path: Path, temporary: Path, builds: Builds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With sessions that vary by 0.5 %, and three commits that do not build. Those are not neighbours of the planted one, or
    nobody could tell which of them it is. The builds of the good and the bad revision do not count."""
    drawn = random.Random(seed)
    at = drawn.randint(2, COMMITS - 1)
    broken = tuple(drawn.sample([n for n in range(1, COMMITS) if n not in (at - 1, at)], 3))
    repository = history(tmp_path / "r", step(0.1, at), broken)
    machine = Machine(0.005, seed)
    monkeypatch.setattr(session, "run_child", machine.run)
    done = bisect(repository, "--build", "make", "--json")
    document = json.loads(done.stdout)
    assert document["ending"] == "found", done.stderr
    assert [each["subject"] for each in document["candidates"]] == [f"c{at}"]
    assert 1.08 < document["confirming"]["ratio"] < 1.12
    assert len(builds.built) + len(builds.failed) - 2 <= 8, (at, broken)


@pytest.mark.slow
def test_the_answer_names_the_commit_its_change_and_commands_that_repeat_it(
    tmp_path: Path, temporary: Path, machine: Machine
) -> None:
    repository = history(tmp_path / "r", step(0.1, 5, 8))
    done = bisect(repository, last=8)
    first, second, third, *_ = done.stdout.splitlines()
    at, parent = (git(repository, "rev-parse", each).strip()[:9] for each in ("c5", "c4"))
    assert first == f"first slower commit: {at} c5 (a, 2023-11-14)"
    assert second.startswith(f"against its parent {parent}: +") and second.endswith("]")
    assert third.startswith("softmax M=4096 N=64 float32 triton: ")
    commands = done.stdout.partition("to measure it again:\n")[2].splitlines()
    assert commands == [
        f"  kbench ab {parent} {at} bench/sweep.yaml --only triton --set N=64",
        f"  git show {at}",
    ]
    assert {each.case.axes["N"] for rows in machine.rows.values() for each in rows} == {64}
    again = run_kbench(shlex.split(commands[0])[1:], repository)
    assert again.returncode == 0 and "1 slower" in again.stdout, again.stdout + again.stderr


@pytest.mark.slow
def test_few_revisions_are_checked_out_at_a_time(
    tmp_path: Path, temporary: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The good one, the last one of each kind, and the one that is tested."""
    repository, counts = history(tmp_path / "r", step(0.1, 9, 16)), []

    def run(*words: Any, **more: Any) -> Ended:
        counts.append(len(git(repository, "worktree", "list").splitlines()) - 1)
        return machine.run(*words, **more)

    monkeypatch.setattr(session, "run_child", run)
    assert found(bisect(repository, last=16)) == "c9"
    assert max(counts) == 4


@pytest.mark.slow
def test_it_finds_a_faster_commit_too(tmp_path: Path, temporary: Path, machine: Machine) -> None:
    repository = history(tmp_path / "r", step(-0.1, 3, 5))
    assert found(bisect(repository, last=5)) == "c3"


@pytest.mark.slow
def test_a_change_below_the_margin_is_not_found(tmp_path: Path, temporary: Path, machine: Machine) -> None:
    repository = history(tmp_path / "r", step(0.01, 3, 5))
    done = bisect(repository, last=5)
    assert done.returncode == 1
    first = done.stdout.splitlines()[0]
    assert first.startswith("not found: ") and first.endswith(
        "gives same: the change is smaller than the margin, which is 2%"
    )
    assert len(set(machine.sides)) == 2, "only the good and the bad revision are measured"
    assert found(bisect(repository, "--margin", "0.2%", last=5)) == "c3"


def test_a_revision_that_stays_unclear_is_not_called_bad(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "run_child", Machine(0.1).run)
    monkeypatch.setattr(alternate, "MOST_SESSIONS", 4)
    done = bisect(history(tmp_path / "r", step(0.05, 3, 5)), last=5)
    assert done.returncode == 1
    assert "not found: " in done.stdout and "gives unclear: " in done.stdout.splitlines()[0]


def test_between_skipped_commits_all_that_can_be_the_first_are_named(
    tmp_path: Path, temporary: Path, machine: Machine, builds: Builds
) -> None:
    repository = history(tmp_path / "r", step(0.1, 5, 8), broken=(4,), fails=(5,))
    done = bisect(repository, "--build", "make", last=8)
    assert done.returncode == 1
    assert "the first slower commit is one of these:" in done.stdout.splitlines()[0]
    assert [line.split()[1] for line in done.stdout.splitlines()[1:4]] == ["c4", "c5", "c6"]
    assert "skipped: " in done.stderr and "bench.py:1: no kernel" in done.stderr
    assert len(builds.failed) == 1


@pytest.mark.slow
def test_a_revision_whose_results_cannot_be_read_is_skipped(tmp_path: Path, temporary: Path, machine: Machine) -> None:
    """Such as one that brings an older kbench of its own."""
    done = bisect(history(tmp_path / "r", step(0.1, 2, 8), garbage=(4,)), last=8)
    assert found(done) == "c2", done.stderr
    assert "c4: skipped: " in done.stderr and "it has no column" in done.stderr, done.stderr


def test_a_full_disk_ends_it(
    tmp_path: Path, temporary: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def keep(sessions: session.SideSessions) -> None:
        if len(machine.sides) > 8:
            raise ResultsError("good.csv: cannot be written (no space left on device)")

    keep_whole = session.SideSessions._keep
    monkeypatch.setattr(session.SideSessions, "_keep", lambda each: (keep(each), keep_whole(each)))
    done = bisect(history(tmp_path / "r", step(0.1, 2, 8)), last=8)
    assert done.returncode == 2 and "cannot be written" in done.stderr.splitlines()[-1]
    assert len(machine.sides) < 12


@pytest.mark.slow
def test_a_change_that_adds_up_over_many_commits_is_no_single_commit(
    tmp_path: Path, temporary: Path, machine: Machine
) -> None:
    repository = history(tmp_path / "r", [1 + 0.006 * number for number in range(17)])
    done = bisect(repository, last=16)
    assert done.returncode == 1, done.stdout
    assert "the change probably adds up over several commits" in done.stdout
    assert "+9.6%" in done.stdout or "+9." in done.stdout


@pytest.mark.slow
def test_a_step_on_a_merged_branch(tmp_path: Path, temporary: Path, machine: Machine) -> None:
    repository = history(tmp_path / "r", step(0, 1, 2))
    git(repository, "checkout", "-q", "-b", "side", "c1")
    commit(repository, 1.1)
    git(repository, "tag", "culprit")
    (repository / "more").touch()
    commit(repository, 1.1)
    git(repository, "checkout", "-q", "main")
    git(repository, "merge", "-q", "--no-edit", "side")
    git(repository, "tag", "c3")
    done = bisect(repository, last=3)
    assert done.stdout.startswith(f"first slower commit: {git(repository, 'rev-parse', 'culprit')[:9]} "), done.stdout


@pytest.mark.slow
def test_uncommitted_work_and_a_bisect_of_the_user_stay(tmp_path: Path, temporary: Path, machine: Machine) -> None:
    repository = history(tmp_path / "r", step(0.1, 2, 4))
    git(repository, "bisect", "start", "c4", "c0")
    (repository / "cost").write_text("9.0")
    git(repository, "add", "cost")
    (repository / "cost").write_text("8.0")
    (repository / "new file").write_text("untracked")
    assert found(bisect(repository, last=4)) == "c2"
    assert "git bisect start" in git(repository, "bisect", "log")


@pytest.mark.parametrize(("broken", "which"), [(0, "c0"), (4, "c4")])
def test_the_good_and_the_bad_revision_must_build(
    tmp_path: Path, temporary: Path, machine: Machine, builds: Builds, broken: int, which: str
) -> None:
    done = bisect(history(tmp_path / "r", step(0.1, 2, 4), (broken,)), "--build", "make", last=4)
    assert done.returncode == 3 and f"{which} (" in done.stderr and "failed: exit code 1" in done.stderr


def test_a_good_revision_that_cannot_be_measured_any_more_ends_it(
    tmp_path: Path, temporary: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: list[str], folder: Path, *more: object, leash: bool) -> Ended:
        if len(machine.sides) > 8 and folder.name == "good":
            return Ended(3, "", "error: the device is gone")
        return machine.run(command, folder, {}, 60, leash=leash)

    monkeypatch.setattr(session, "run_child", run)
    done = bisect(history(tmp_path / "r", step(0.1, 2, 8)), last=8)
    assert done.returncode == 3 and "the device is gone" in done.stderr and done.stdout == ""


def test_a_session_that_takes_the_whole_budget_says_what_to_do(
    tmp_path: Path, temporary: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "run_child", lambda *arguments, leash: Ended(None, "", ""))
    done = bisect(history(tmp_path / "r", step(0.1, 2, 4)), last=4)
    assert done.returncode == 3
    assert "which is the whole --budget; give more, or measure fewer cases" in done.stderr


def test_an_error_about_the_row_names_the_option_that_the_user_wrote(
    tmp_path: Path, temporary: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = 'error: --only copy: unknown provider "copy"\nerror: --set Q=1: unknown key "Q"\n'
    monkeypatch.setattr(session, "run_child", lambda *arguments, leash: Ended(2, "", why))
    row = "provider=copy,Q=1"
    done = bisect(history(tmp_path / "r", step(0.1, 2, 4)), "--row", row, last=4)
    assert done.returncode == 2
    assert f'--row {row}: unknown provider "copy"' in done.stderr and f'--row {row}: unknown key "Q"' in done.stderr
    assert "--only" not in done.stderr and "--set" not in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--good", "c4", "--bad", "c0"), "--good c4 comes after --bad c0"),
        (("--good", "c0", "--bad", "main~4"), "--good c0 and --bad main~4 are the same commit"),
        (("--good", "side"), "--good side is not an ancestor of --bad c4"),
        (("--good", "nowhere"), "nowhere: no such commit in"),
        (("--row", " "), "--row is empty"),
        (("--row", "N"), "--row 'N': not a condition"),
        (("--row", "provider=cuda"), "no row has provider=cuda"),
        (
            ("--row", "provider=triton"),
            "--row provider=triton: matches 6 rows, but must match one; add terms that choose one of these rows: softmax",
        ),
        (("--row", "K=4"), "has no column 'K'"),
        (("--budget", "ten"), "--budget 'ten' is not a duration"),
    ],
)
def test_bad_input_is_one_line_before_the_bad_revision_is_measured(
    tmp_path: Path, temporary: Path, machine: Machine, words: tuple[str, ...], said: str
) -> None:
    repository = history(tmp_path / "r", step(0.1, 2, 4))
    git(repository, "branch", "side", git(repository, "commit-tree", "-m", "alone", "c0^{tree}").strip())
    done = bisect(repository, *words, last=4)
    assert done.returncode == 2 and len(machine.sides) <= 1
    line = done.stderr.splitlines()[-1]
    assert line.startswith("error: ") and said in line, done.stderr


@pytest.mark.slow
def test_the_json_fits_its_schema(tmp_path: Path, temporary: Path, machine: Machine, builds: Builds) -> None:
    document = json.loads(run_kbench(["schema", "bisect"], tmp_path).stdout)
    repository = history(tmp_path / "r", step(0.1, 5, 8), broken=(2,))
    done = bisect(repository, "--build", "make", "--json", last=8)
    result = json.loads(done.stdout)
    jsonschema.validate(result, document)
    assert result["ending"] == "found" and result["sought"] == "slower"
    assert result["steps"][0]["commit"]["subject"] == "c8" and result["measured"] == len(builds.built)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "sessions"), [("SIGINT", 0), ("SIGTERM", 9), ("SIGHUP", 16)])
def test_a_signal_leaves_nothing(tmp_path: Path, temporary: Path, name: str, sessions: int) -> None:
    """In the first session, in the first step, and in a later one."""
    repository = history(tmp_path / "r", step(0.1, 5, 8))
    before = state(repository)
    process = hanging(repository, tmp_path / "mark", *HANGING_BISECT, sessions=sessions)
    assert state(repository) != before
    process.send_signal(getattr(signal, name))
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 130 and "Traceback" not in errors, errors
    assert "interrupted; the results of the steps that had ended, if any, are in results/bisect" in errors
    assert state(repository) == before
    assert has_ended(int((tmp_path / "mark").read_text()))


@pytest.mark.slow
def test_the_next_one_removes_what_sigkill_left(tmp_path: Path, temporary: Path, machine: Machine) -> None:
    repository = history(tmp_path / "r", step(0.1, 5, 8))
    before = state(repository)
    killed = hanging(repository, tmp_path / "mark", *HANGING_BISECT, sessions=16)
    killed.kill()
    killed.communicate()
    assert state(repository) != before
    done = run_kbench(["ab", "c0", "c1", CONFIG], repository)
    assert done.stderr.count("removed what a killed kbench left behind") == 1
    assert state(repository) == before
    assert has_ended(int((tmp_path / "mark").read_text())), "the child outlives its parent"


PLANT = """
import atexit, csv, sys
from pathlib import Path

def plant():
    [path] = Path(sys.argv[sys.argv.index("--out") + 1]).glob("*.csv")
    from cost import MS
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["ms"] = str(0.1 if row["provider"] == "copy" else MS)
        row["round_ms"] = ";".join([row["ms"]] * 3)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)

atexit.register(plant)
"""
"""Begins the program of the child that measures. At its end, the times become those of the module `cost`: the real times of a
busy machine may be unclear."""


@pytest.mark.slow
def test_a_real_plug_in_whose_code_changes(tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real worktrees and real runs, one session a side."""
    files = {"bench/spin.py": PLUGIN, "bench/spin.yaml": SPIN, ".gitignore": "results/\n__pycache__/\n"}
    costs = ["MS = 0.5", "MS = 0.6", "MS = 0.6 + 0"]
    make_history(tmp_path / "r", [{**files, "cost.py": cost + "\n"} for cost in costs])
    monkeypatch.setattr(alternate, "MOST_SESSIONS", 1)
    monkeypatch.setattr(alternate, "FEWEST_SESSIONS", 1)
    monkeypatch.setattr(session, "CHILD_ARGUMENTS", ["-P", "-c", PLANT + session.CHILD_PROGRAM])
    before = state(tmp_path / "r")
    words = ["--good", "c0", "--bad", "c2", "bench/spin.yaml", "--row", "provider=busy,N=64"]
    done = run_kbench(["bisect", *words], tmp_path / "r")
    assert found(done) == "c1", done.stderr
    assert state(tmp_path / "r") == before

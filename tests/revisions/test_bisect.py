"""`kbench bisect`: finds the commit that made a row slower or faster.

Most tests replace the child that measures with one that reads its time from the file `cost` of the revision, and the build with
one that fails where the revision has a file `broken`.
"""

from __future__ import annotations

import json
import os
import random
import shlex
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from bisections import COMMITS, Builds, bisect, found, history, step
from common import run_kbench
from planted_repository import PLUGIN, SPIN, Machine, commit, git, make_history, state

from kbench.errors import ResultsError
from kbench.revisions import alternate, session
from kbench.revisions.child import Ended

SEEDS = int(os.environ.get("KBENCH_SEEDS", "3"))
"""How many histories of 64 commits are searched. KBENCH_SEEDS=20 searches twenty; each takes two seconds."""


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
def test_the_json_fits_its_schema(tmp_path: Path, temporary: Path, machine: Machine, builds: Builds) -> None:
    document = json.loads(run_kbench(["schema", "bisect"], tmp_path).stdout)
    repository = history(tmp_path / "r", step(0.1, 5, 8), broken=(2,))
    done = bisect(repository, "--build", "make", "--json", last=8)
    result = json.loads(done.stdout)
    jsonschema.validate(result, document)
    assert result["ending"] == "found" and result["sought"] == "slower"
    assert result["steps"][0]["commit"]["subject"] == "c8" and result["measured"] == len(builds.built)


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

"""`kbench bisect`: what it refuses, and what ends it."""

from __future__ import annotations

from pathlib import Path

import pytest
from bisections import Builds, bisect, history, step
from planted_repository import Machine, git

from kbench.revisions import session
from kbench.revisions.child import Ended


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

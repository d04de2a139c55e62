"""What `kbench compare` and `kbench ab` decide: a gate never passes what it did not decide.

The files are made up: the truth is known, and the noise of a session is 0.2 %.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from promises.outside import ROOT, Ended, Kbench, rows_of, write_results
from promises.planted import EDITED, UNCHANGED, write_sessions


def measured(
    path: Path,
    mine: float | Sequence[float] = 1.0,
    *,
    baseline: float | Sequence[float] = 1.0,
    copy: float | Sequence[float] = 1.0,
    repeat: float = 1.0,
    cases: int = 2,
    stamps: Mapping[str, object] = UNCHANGED,
    **more: Any,
) -> Path:
    """A results file: two providers and the controls in some cases. The times are factors, one for all cases or one for each.

    `stamps` are those of the baseline, torch-native. Its speed-up is 1.
    """
    times: dict[str, dict[int, float | str]] = {}
    for provider, factors in {"torch-native": baseline, "mine": mine, "copy": copy, "repeat": repeat}.items():
        by_case = [factors] * cases if isinstance(factors, float | int) else factors
        times[provider] = {1024 * (1 + case): factor * (1 + case) for case, factor in enumerate(by_case)}
    return write_sessions(path, times, stamps={"torch-native": {"speedup": 1.0, **stamps}, "mine": EDITED}, **more)


@pytest.fixture
def compared(kbench: Kbench, folder: Path) -> Callable[..., tuple[Ended, dict[tuple[str, int], str]]]:
    """Compare old.csv with new.csv. Returns how the command ended, and the verdict of each provider and N."""

    def compared(*options: str) -> tuple[Ended, dict[tuple[str, int], str]]:
        done = kbench("compare", "old.csv", "new.csv", "--export", "json=c.json", *(options or ("--fail-on", "slower")))
        report = json.loads((folder / "c.json").read_text())
        return done, {(row["key"]["provider"], row["key"]["N"]): row["verdict"] for row in report["rows"]}

    return compared


Compared = Callable[..., tuple[Ended, dict[tuple[str, int], str]]]


def of(verdicts: Mapping[tuple[str, int], str], provider: str) -> set[str]:
    return {verdict for (name, _), verdict in verdicts.items() if name == provider}


# ---- a machine that drifted


@pytest.mark.parametrize("cases", [2, 8])
@pytest.mark.parametrize(("change", "word", "code"), [(2.18, "slower", 1), (1 / 2.18, "faster", 0)])
def test_a_change_far_beyond_a_uniform_drift_is_found(
    folder: Path, compared: Compared, cases: int, change: float, word: str, code: int
) -> None:
    measured(folder / "old.csv", cases=cases)
    measured(folder / "new.csv", 1.12 * change, baseline=1.12, copy=1.12, cases=cases)
    done, verdicts = compared()
    assert of(verdicts, "mine") == {word} and of(verdicts, "torch-native") == {"unclear"} and done.code == code


def test_twice_the_time_is_slower_although_the_copies_alone_drifted(folder: Path, compared: Compared) -> None:
    """Two cases, three sessions: +118 and +71 %, the unchanged baseline at +2.7 and +0.2 %, the copies at +12 %."""
    measured(folder / "old.csv", noise=0.03)
    measured(folder / "new.csv", [2.18, 1.71], baseline=[1.027, 1.002], copy=1.12, noise=0.03)
    done, verdicts = compared()
    assert of(verdicts, "mine") == {"slower"} and done.code == 1
    assert "gate failed: 2 slower" in done.out.splitlines()[0]


@pytest.mark.parametrize(
    "drift",
    [
        {"mine": 1.12, "baseline": 1.12, "copy": 1.12},
        {"mine": 0.88, "baseline": 0.88, "copy": 0.88},
        {"mine": 1.06, "baseline": 1.12, "copy": 1.18},
        {"mine": 1.12, "baseline": 1.12},
        {"copy": 1.12},
    ],
    ids=["all slower", "all faster", "by different amounts", "kernels and not copies", "copies and not kernels"],
)
@pytest.mark.parametrize("cases", [2, 8], ids=["not subtracted", "subtracted"])
def test_a_drift_is_not_a_change_of_the_code(
    folder: Path, compared: Compared, drift: dict[str, float], cases: int
) -> None:
    measured(folder / "old.csv", cases=cases)
    measured(folder / "new.csv", **drift, cases=cases)
    done, verdicts = compared()
    assert set(verdicts.values()) <= {"same", "unclear"} and done.code in (0, 3)


@pytest.mark.parametrize("stamps", [{"source_hash": "a2"}, {"env_id": "e2"}, {"source_hash": ""}])
def test_a_baseline_that_may_have_changed_does_not_excuse_others(
    folder: Path, compared: Compared, stamps: dict[str, str]
) -> None:
    """Its own time rose by 30 %, as did that of the other provider, and the copies did not."""
    measured(folder / "old.csv")
    measured(folder / "new.csv", 1.3, baseline=1.3, stamps=UNCHANGED | stamps)
    done, verdicts = compared()
    assert set(verdicts.values()) == {"slower"} and done.code == 1


def test_a_provider_that_is_its_own_baseline_is_judged(folder: Path, compared: Compared) -> None:
    """A module that it imports has changed, and the hash does not cover it."""
    for name, factor in (("old.csv", 1.0), ("new.csv", 1.3)):
        rows = rows_of(measured(folder / name, baseline=factor))
        write_results(folder / name, [row for row in rows if row["provider"] != "mine"])
    done, verdicts = compared()
    assert verdicts == {("torch-native", 1024): "slower", ("torch-native", 2048): "slower"} and done.code == 1


# ---- what was not decided


def test_rows_that_are_all_unclear_pass_only_a_gate_that_asks_for_no_times(folder: Path, compared: Compared) -> None:
    """As on a shared runner: whether a row failed is clear, however noisy the machine is."""
    measured(folder / "old.csv")
    measured(folder / "new.csv", 1.12, baseline=1.12, copy=1.12)
    done, verdicts = compared()
    assert set(verdicts.values()) == {"unclear"} and done.code == 3
    first = done.out.splitlines()[0]
    assert "no row is slower" in first and "4 of 4 compared rows are unclear" in first and "passed" not in first
    assert "--fail-on slower,unclear" in first
    done, _ = compared("--fail-on", "slower,unclear")
    assert done.code == 1 and "4 unclear" in done.out.splitlines()[0]
    done, _ = compared("--sort", "key")
    assert done.code == 3 and "4 of 4 compared rows are unclear" in done.err
    done, _ = compared("--fail-on", "missing,failed")
    assert done.code == 0 and "no row is missing or failed, but 4 of 4 compared rows" in done.out.splitlines()[0]


def test_some_unclear_rows_pass_and_are_counted(folder: Path, compared: Compared) -> None:
    measured(folder / "old.csv")
    measured(folder / "new.csv", [0.4, 1.12], baseline=1.12, copy=1.12)
    done, verdicts = compared("--fail-on", "slower,failed")
    assert sorted(verdicts.values()) == ["faster", "unclear", "unclear", "unclear"] and done.code == 0
    first = done.out.splitlines()[0]
    assert "no row is slower or failed, but 3 of 4 compared rows are unclear" in first
    assert "--fail-on slower,failed,unclear" in first


def test_every_format_says_how_many_rows_are_unclear(
    folder: Path, compared: Compared, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(folder / "old.csv")
    measured(folder / "new.csv", 1.12, baseline=1.12, copy=1.12)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(folder / "summary.md"))
    monkeypatch.setenv("GITHUB_OUTPUT", str(folder / "outputs"))
    done, _ = compared("--fail-on", "slower", "--github", "--export", "markdown=c.md")
    said = "no row is slower, but 4 of 4 compared rows are unclear"
    gate = json.loads((folder / "c.json").read_text())["gate"]
    assert gate["passed"] is False and said in gate["text"]
    markdown = (folder / "c.md").read_text()
    assert any(said in line for line in markdown.splitlines()[:3]) and "<details open><summary>4 unclear" in markdown
    assert said in (folder / "summary.md").read_text()
    assert any(line.startswith("::error ") and said in line for line in done.out.splitlines())
    assert {"passed=false", "unclear=4"} <= {*(folder / "outputs").read_text().splitlines()}


def test_one_session_of_a_machine_that_cannot_repeat_itself_decides_nothing(folder: Path, compared: Compared) -> None:
    """The baseline took 1.6 times as long when kbench measured it again."""
    measured(folder / "old.csv", sessions=1, repeat=1.6)
    measured(folder / "new.csv", 2.05, sessions=1, repeat=1.6)
    done, verdicts = compared()
    assert set(verdicts.values()) == {"unclear"} and done.code == 3


def test_an_annotation_has_the_path_from_the_top_and_an_interrupted_run_is_named(
    folder: Path, compared: Compared, monkeypatch: Any
) -> None:
    measured(folder / "old.csv")
    measured(folder / "new.csv", 2)
    (folder / "new.env.json").write_text('{"places": {"mine": "bench/mine.py:10"}, "interrupted": true}')
    monkeypatch.setenv("GITHUB_WORKSPACE", str(folder.parent))
    done, _ = compared("--fail-on", "slower", "--github")
    assert f"::error file={folder.name}/bench/mine.py,line=10,title" in done.out
    assert "new.csv: the run was interrupted, so rows may be missing" in done.text


# ---- two revisions

PROVIDER = """
import time

import torch

import kbench


@kbench.operator("softmax").provider("{name}")
def sleeps(x):
    time.sleep({seconds})
    return torch.softmax(x, -1)
"""
CONFIG = """
operator: softmax
plugins: [../steady.py, ../mine.py]
sweep: {M: 1, N: [200000, 400000], dtype: float32}
providers: [steady, mine]
measure: {rounds: 3, warmup_ms: 1, rep_ms: 2, cache: warm}
"""


def test_ab_finds_a_kernel_that_takes_four_times_as_long_and_git_bisect_its_commit_with_the_command_of_the_docs(
    folder: Path, write: Callable[[str, str], Path]
) -> None:
    """Three commits: the second one makes the kernel slow, which sleeps: a machine that has other work to do delays it little.
    That shows in one session, also if other work slows the copy down; the budget is for sessions of 10 s."""
    page = (ROOT / "docs" / "comparing.md").read_text()
    start, run = re.findall(r"^git bisect (?:start|run) .*", page, re.MULTILINE)
    run = run.replace("--only triton --set N=4096", "--export json=results/c.json").replace(
        "--fail-on", "--budget 20s --margin 20% --fail-on"
    )
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}

    def shell(command: str) -> str:
        ended = subprocess.run(
            command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=400
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    write("steady.py", PROVIDER.format(name="steady", seconds=0.02))
    write("bench/softmax.yaml", CONFIG)
    write(".gitignore", "results/\n__pycache__/\n")
    shell("git init -q -b main")
    for number, seconds in enumerate((0.02, 0.08, 0.08)):
        write("mine.py", PROVIDER.format(name="mine", seconds=seconds))
        write("number", str(number))
        shell(f"git add -A && git -c user.name=a -c user.email=a@b commit -qm 'commit {number}'")
    shell("git tag v1.2 main~2")
    shell(start)
    said = shell(run)
    assert "commit 1" in said.partition("is the first bad commit")[2], said
    report = json.loads((folder / "results" / "c.json").read_text())
    verdicts = {(row["key"]["provider"], row["key"]["N"]): row["verdict"] for row in report["rows"]}
    assert of(verdicts, "mine") == {"slower"} and of(verdicts, "steady") <= {"same", "unclear"}, said
    assert "gate failed: 2 slower" in said and "measure both files again" not in said
    assert report["gate"]["passed"] is False and report["gate"]["text"] in said

"""`kbench run --repeat`: one row of a results file again, as it was measured. The machine is made up, no worker starts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from common import run_kbench
from fake_executor import FakeMachine, Provider

from kbench.analysis import rows_of
from kbench.execute.plan import Task
from kbench.results import table

SWEEP = """
operator: softmax
sweep: {M: 16, N: [64, 128]}
providers: [torch-native, torch-eager, triton: {num_warps: [4, 8]}]
baseline: torch-native
measure: {warmup_ms: 1, rep_ms: 2, rounds: 2}
profiles: {many: {sweep: {M: 32}}}
"""
ROW = ("--row", "provider=torch-eager,N=128")


@pytest.fixture
def tasks(fake_machine: FakeMachine, tmp_path: Path) -> list[Task]:
    """The tasks that are measured after a run, which other options than those of the config have changed."""
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    (tmp_path / "mine.py").touch()
    words = ["run", "sweep.yaml", "--no-plot", "--profile", "many", "--set", "rounds=3", "--sessions", "2"]
    run_kbench([*words, "--plugin", "mine.py"], tmp_path)
    assert (tmp_path / "results" / "sweep.csv").exists()
    measured: list[Task] = []
    fake_machine.before = measured.append
    return measured


def repeat(folder: Path, *words: str) -> tuple[int, str, str]:
    done = run_kbench(["run", "--repeat", "results/sweep.csv", *words], folder)
    assert "Traceback" not in done.stderr and "bug" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def test_the_row_is_measured_as_it_was_beside_its_baseline(tmp_path: Path, tasks: list[Task]) -> None:
    before = (tmp_path / "results" / "sweep.csv").read_bytes()
    code, out, errors = repeat(tmp_path, *ROW)
    assert code == 0, errors
    [task] = tasks
    assert task.case.axes == {"M": 32, "N": 128} and task.settings.rounds == 3
    assert [one.name for one in task.configurations] == ["torch-native", "torch-eager"]
    assert task.baseline == "torch-native"
    assert (tmp_path / "results" / "sweep.csv").read_bytes() == before
    [new] = [
        row
        for row in rows_of(table.read_results(tmp_path / "results/repeat/sweep.csv"))
        if row.provider == "torch-eager"
    ]
    assert (new.session, new.case.axes) == (0, {"M": 32, "N": 128})
    assert "torch-eager" in out and "before" in out and "now" in out
    assert "the new results are in results/repeat/sweep.csv" in errors


def test_parameters_are_those_of_the_row(tmp_path: Path, tasks: list[Task]) -> None:
    code, out, errors = repeat(tmp_path, "--row", "provider=triton[num_warps=8],N=64")
    assert code == 0, errors + out
    assert [one.name for one in tasks[0].configurations] == ["torch-native", "triton[num_warps=8]"]


def test_the_report_names_what_differs_without_forbidding(
    tmp_path: Path, tasks: list[Task], fake_machine: FakeMachine
) -> None:
    path = tmp_path / "results" / "sweep.env.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"driver": "1.0"}))
    fake_machine.packages["numpy"] = "9"
    code, out, errors = repeat(tmp_path, *ROW)
    assert code == 0 and len(tasks) == 1, errors
    assert "driver" in out or "numpy" in out, out


def moved(machine: FakeMachine, folder: Path) -> None:
    machine.name = "another host"


def upgraded(machine: FakeMachine, folder: Path) -> None:
    machine.packages["torch"] = "2.9.0"


def edited(machine: FakeMachine, folder: Path) -> None:
    machine.providers["torch-eager"] = Provider(source_hash="other code")


def other_config(machine: FakeMachine, folder: Path) -> None:
    (folder / "sweep.yaml").write_text(SWEEP + "# changed\n")


def no_plug_in(machine: FakeMachine, folder: Path) -> None:
    (folder / "mine.py").unlink()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (moved, "device was made-up host and is now another host"),
        (upgraded, "torch was 2.8.0 and is now 2.9.0"),
        (edited, "the code of torch-eager has changed"),
        (other_config, "the config sweep.yaml has changed"),
        (no_plug_in, "no such file: mine.py"),
    ],
)
def test_what_differs_here_is_said_and_nothing_is_measured(
    tmp_path: Path, tasks: list[Task], fake_machine: FakeMachine, change: Callable[[FakeMachine, Path], None], said: str
) -> None:
    change(fake_machine, tmp_path)
    code, _, errors = repeat(tmp_path, *ROW)
    assert code == 2 and said in errors, errors
    assert "--resolve" not in errors and tasks == [] and not (tmp_path / "results" / "repeat").exists()


def test_what_the_file_does_not_say_is_named(tmp_path: Path, tasks: list[Task], fake_machine: FakeMachine) -> None:
    path = tmp_path / "results" / "sweep.env.json"
    found = json.loads(path.read_text())
    del found["command"]
    path.write_text(json.dumps(found))
    csv = tmp_path / "results" / "sweep.csv"
    header, *lines = csv.read_text().splitlines()
    csv.write_text("\n".join([header, *(line.replace(",code,", ",,") for line in lines)]) + "\n")
    code, _, errors = repeat(tmp_path, *ROW)
    assert code == 0, errors
    assert "does not say which code torch-eager had: it may have changed" in errors
    assert "does not say its command line: plug-ins that --plugin named are not loaded" in errors


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--row", "N=128"), "chooses more than one row of results/sweep.csv: provider is torch-native, torch-eager"),
        (("--row", "provider=torch-eager"), "N is 64, 128; add a term for each of these"),
        (("--row", "provider=cuda"), "no row has provider=cuda"),
        (
            ("--row", "provider=torch-eager,N=128", "--set", "rounds=9"),
            "--repeat takes all settings from the results file",
        ),
        (("sweep.yaml", *ROW), "--repeat takes all settings from the results file"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, tasks: list[Task], words: tuple[str, ...], said: str) -> None:
    code, _, errors = repeat(tmp_path, *words)
    assert code == 2 and tasks == []
    [line] = errors.splitlines()
    assert line.startswith("error: ") and said in line


def test_a_run_needs_a_config_or_a_row(tmp_path: Path) -> None:
    assert "kbench run needs a CONFIG, or --repeat FILE.csv" in run_kbench(["run"], tmp_path).stderr
    assert "add --repeat FILE.csv" in run_kbench(["run", "sweep.yaml", *ROW], tmp_path).stderr


def test_the_results_never_replace_the_file(tmp_path: Path, tasks: list[Task]) -> None:
    (tmp_path / "results").rename(tmp_path / "repeat")
    done = run_kbench(["run", "--repeat", "repeat/sweep.csv", *ROW, "--out", "."], tmp_path)
    assert done.returncode == 2 and "the new results would replace this file; choose another folder" in done.stderr

"""`kbench compare A B --resolve`: what is measured again, what is left alone, and which files are refused.

The machine is made up: its readings are noisy, and no worker starts.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from common import run_kbench
from fake_executor import FakeExecutor, FakeMachine, Provider

from kbench.analysis import rows_of
from kbench.config.load import Config
from kbench.execute.plan import Task
from kbench.execute.run import RunOptions
from kbench.resolving import resolve
from kbench.results import table
from kbench.results.row import Row
from kbench.results.vocabulary import Role

SIZES = [64 * number for number in range(1, 16)]

SWEEP = f"""
operator: softmax
sweep: {{M: 16, N: {SIZES}}}
providers: [torch-native, torch-eager]
measure: {{warmup_ms: 1, rep_ms: 2, rounds: 2}}
profiles: {{cpu: {{sweep: {{M: 8}}}}, many: {{sweep: {{M: 32}}}}}}
"""


MS = {"torch-native": 1.0, "torch-eager": 2.0}
"""The times of the providers, without noise."""


@dataclass
class NoisyMachine(FakeMachine):
    """Every session has an error of its own, and every row of a session another one. Both are shares.

    measured  the configurations that were measured, with their case and session
    """

    of_session: float = 0.003
    of_row: float = 0.01
    measured: list[tuple[str, int, int]] = field(default_factory=list)
    random: random.Random = field(default_factory=lambda: random.Random(1))
    session: int = -1
    shared: float = 0.0

    def executor_for(self, config: Config, options: RunOptions, note: Callable[[str], None]) -> FakeExecutor:
        self.session = -1
        return super().executor_for(config, options, note)

    def rows(self, task: Task) -> list[Row]:
        if task.session != self.session:
            self.session, self.shared = task.session, self.random.gauss(0, self.of_session)
        self.measured += [(one.name, task.case.axes["N"], task.session) for one in task.configurations]  # type: ignore[misc]
        return super().rows(task)

    def _timed(self, task: Task, name: str, ms: float, **fields: Any) -> Row:
        if fields.get("role") == Role.CONTROL:
            return super()._timed(task, name, ms * (1 + self.shared), **fields)
        own = self.random.gauss(0, self.of_row)
        return super()._timed(task, name, MS[name] * (1 + self.shared + own), **fields)


def rows(csv: Path) -> list[Row]:
    """The rows of providers in a file."""
    return [row for row in rows_of(table.read_results(csv)) if row.role == Role.PROVIDER]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> NoisyMachine:
    machine = NoisyMachine()
    monkeypatch.setattr("kbench.execute.executors.prepare.executor_for", machine.executor_for)
    return machine


@pytest.fixture
def pair(tmp_path: Path, machine: NoisyMachine) -> tuple[str, str]:
    """Two files of the same code, three sessions each."""
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    for name in ("a", "b"):
        done = run_kbench(["run", "sweep.yaml", "--no-plot", "--out", name, "--sessions", "3"], tmp_path)
        assert done.returncode == 0, done.stderr
    machine.measured.clear()
    return "a/sweep.csv", "b/sweep.csv"


def verdicts(folder: Path, *words: object) -> dict[tuple[str, int], str]:
    """The verdict of each row of a comparison, by provider and N."""
    run_kbench(["compare", *words, "--export", "json=c.json"], folder)
    rows = json.loads((folder / "c.json").read_text())["rows"]
    return {(row["key"]["provider"], row["key"]["N"]): row["verdict"] for row in rows}


@pytest.mark.slow
def test_most_unclear_rows_are_decided_and_decided_rows_are_left_alone(
    tmp_path: Path, machine: NoisyMachine, pair: tuple[str, str]
) -> None:
    before = verdicts(tmp_path, *pair)
    unclear = {row for row, verdict in before.items() if verdict == "unclear"}
    assert 10 <= len(unclear) <= len(before) - 5, before
    done = run_kbench(["compare", *pair, "--resolve"], tmp_path)
    assert done.returncode == 0, done.stderr
    after = verdicts(tmp_path, *pair)
    still = [row for row, verdict in after.items() if verdict == "unclear"]
    assert len([row for row in unclear if row not in still]) >= 0.8 * len(unclear)
    assert f"{len(unclear)} rows unclear before, {len(still)} now; " in done.stderr
    counts = Counter((row.provider, row.case.axes["N"]) for row in rows(tmp_path / pair[0]))
    again = {(provider, n) for provider, n, _ in machine.measured}
    assert {row for row, count in counts.items() if count > 3} == again >= unclear
    first = {(provider, n) for provider, n, session in machine.measured if session == 3}
    assert first == unclear and len(again) < len(before)


def test_the_budget_ends_it_after_a_pair(tmp_path: Path, machine: NoisyMachine, pair: tuple[str, str]) -> None:
    done = run_kbench(["compare", *pair, "--resolve", "--budget", "0.001s"], tmp_path)
    assert "1 session of each file added: " in done.stderr and done.stderr.splitlines()[-1].endswith("budget is spent")
    assert "unclear rows may need more sessions: give a larger --budget than 0.001s" in " ".join(done.stdout.split())
    assert {session for _, _, session in machine.measured} == {3}


def test_rows_that_have_the_most_sessions_get_no_advice_to_raise_the_budget(
    tmp_path: Path, machine: NoisyMachine, pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolve, "MOST_SESSIONS", 3)
    done = run_kbench(["compare", *pair, "--resolve"], tmp_path)
    assert "no more sessions can be measured for unclear rows" in done.stdout and "--budget" not in done.stdout


def test_without_an_unclear_row_nothing_is_measured(
    tmp_path: Path, machine: NoisyMachine, pair: tuple[str, str]
) -> None:
    done = run_kbench(["compare", *pair, "--resolve", "--margin", "50%"], tmp_path)
    assert done.returncode == 0 and "nothing was measured again: no row is unclear" in done.stderr
    assert machine.measured == []


def test_rows_are_measured_as_the_files_say(tmp_path: Path, machine: NoisyMachine) -> None:
    """With the profile, the sizes and the settings of the run, not those that the config has by itself. Only the profile lists
    torch-eager."""
    profile = "many: {sweep: {M: 32}, providers: [torch-native, torch-eager]}"
    text = SWEEP.replace(", torch-eager]", "]").replace("many: {sweep: {M: 32}}", profile)
    (tmp_path / "sweep.yaml").write_text(text)
    tasks: list[Task] = []
    machine.before = tasks.append
    options = ["--profile", "many", "--set", "N=7,9", "--set", "rounds=3", "--set", "seed=5", "--only", "torch-eager"]
    for name in ("a", "b"):
        run_kbench(["run", "sweep.yaml", "--no-plot", "--out", name, *options], tmp_path)
    asked = {(task.case.axes["M"], task.case.axes["N"], task.settings) for task in tasks}
    tasks.clear()
    done = run_kbench(["compare", "a/sweep.csv", "b/sweep.csv", "--resolve", "--budget", "0.001s"], tmp_path)
    assert done.returncode == 3 and "2 of 2 rows are unclear" in done.stderr
    again = {(task.case.axes["M"], task.case.axes["N"], task.settings) for task in tasks}
    assert again and again <= asked
    assert {one.name for task in tasks for one in task.configurations} == {"torch-eager"}


def test_a_file_with_added_sessions_is_not_continued(
    tmp_path: Path, machine: NoisyMachine, pair: tuple[str, str]
) -> None:
    run_kbench(["compare", *pair, "--resolve", "--budget", "0.001s"], tmp_path)
    for more in ("--append", "--resume"):
        done = run_kbench(["run", "sweep.yaml", "--out", "a", more], tmp_path)
        assert done.returncode == 2 and "`kbench compare --resolve` has measured some of its rows" in done.stderr


@pytest.mark.slow
def test_ctrl_c_keeps_the_cases_that_were_measured(
    tmp_path: Path, machine: NoisyMachine, pair: tuple[str, str]
) -> None:
    def interrupt(task: Task) -> None:
        if len(machine.measured) > 5:
            raise KeyboardInterrupt

    machine.before = interrupt
    count = len(rows(tmp_path / pair[0]))
    done = run_kbench(["compare", *pair, "--resolve"], tmp_path)
    assert done.returncode == 130 and "the rows that were measured again, if any, are in the files" in done.stderr
    assert len(rows(tmp_path / pair[0])) > count
    machine.before = lambda task: None
    assert run_kbench(["compare", *pair, "--resolve"], tmp_path).returncode == 0


def moved(machine: NoisyMachine, folder: Path) -> None:
    machine.name = "another host"


def upgraded(machine: NoisyMachine, folder: Path) -> None:
    machine.packages["torch"] = "2.9.0"


def edited(machine: NoisyMachine, folder: Path) -> None:
    machine.providers["torch-eager"] = Provider(source_hash="other code")


def without_provider(machine: NoisyMachine, folder: Path) -> None:
    del machine.providers["torch-eager"]


def other_config(machine: NoisyMachine, folder: Path) -> None:
    (folder / "sweep.yaml").write_text(SWEEP + "# changed\n")


def no_config(machine: NoisyMachine, folder: Path) -> None:
    (folder / "sweep.yaml").unlink()


def no_plug_in(machine: NoisyMachine, folder: Path) -> None:
    (folder / "mine.py").unlink()


def no_environment(machine: NoisyMachine, folder: Path) -> None:
    (folder / "b" / "sweep.env.json").unlink()


def from_several_devices(machine: NoisyMachine, folder: Path) -> None:
    change_environment(folder, scope="host")


def from_a_script(machine: NoisyMachine, folder: Path) -> None:
    change_environment(folder, config={"path": "p.yaml", "sha": "0", "text": "", "source": "/tmp/bench.py"})


def change_environment(folder: Path, **entries: object) -> None:
    path = folder / "b" / "sweep.env.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (moved, "device was made-up host and is now another host"),
        (upgraded, "torch was 2.8.0 and is now 2.9.0"),
        (edited, "the code of torch-eager has changed"),
        (without_provider, 'unknown provider "torch-eager"'),
        (other_config, "the config sweep.yaml has changed"),
        (no_config, "the config sweep.yaml is not here; start kbench in the folder where they were measured"),
        (no_plug_in, "no such file: mine.py"),
        (no_environment, "sweep.env.json: no such file"),
        (from_several_devices, "they were measured with --devices"),
        (
            from_a_script,
            "they were measured with the script or problem /tmp/bench.py, not with a config; measure it again with kbench run",
        ),
    ],
)
def test_a_side_that_cannot_be_measured_here_is_refused_before_anything_is_measured(
    tmp_path: Path, machine: NoisyMachine, change: Callable[[NoisyMachine, Path], None], said: str
) -> None:
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    (tmp_path / "mine.py").touch()
    for name in ("a", "b"):
        done = run_kbench(["run", "sweep.yaml", "--no-plot", "--out", name, "--plugin", "mine.py"], tmp_path)
        assert done.returncode == 0, done.stderr
    machine.measured.clear()
    files = {path: path.read_bytes() for name in ("a", "b") for path in (tmp_path / name).glob("*.csv")}
    change(machine, tmp_path)
    done = run_kbench(["compare", "a/sweep.csv", "b/sweep.csv", "--resolve"], tmp_path)
    assert done.returncode == 2 and machine.measured == []
    assert said in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert files == {path: path.read_bytes() for path in files}


def test_a_provider_that_is_not_here_and_an_absolute_path_without_a_config(
    tmp_path: Path, machine: NoisyMachine
) -> None:
    sweep = tmp_path / "sweep.yaml"
    sweep.write_text(SWEEP)
    for name in ("a", "b"):
        done = run_kbench(["run", sweep, "--no-plot", "--out", name], tmp_path)
        assert done.returncode == 0, done.stderr
        csv = tmp_path / name / "sweep.csv"
        csv.write_text(csv.read_text().replace(",torch-eager,", ",mine,"))
    done = run_kbench(["compare", "a/sweep.csv", "b/sweep.csv", "--resolve"], tmp_path)
    said = (
        "the file has rows of provider mine, which is not registered here; "
        "restore or install the plug-in that defines it, or leave out"
    )
    assert done.returncode == 2 and said in done.stderr, done.stderr
    sweep.unlink()
    done = run_kbench(["compare", "a/sweep.csv", "b/sweep.csv", "--resolve"], tmp_path)
    assert f"there is no config {sweep}; restore it there, or leave out --resolve" in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("a/sweep.csv", "--by", "provider", "--resolve"), "--resolve measures the rows of two files"),
        (("a/sweep.csv", "a/sweep.csv", "--resolve"), "--resolve: a/sweep.csv is given twice"),
        (("a/sweep.csv", "b/sweep.csv", "c=a/sweep.csv", "--resolve"), "--resolve measures the rows of two files"),
        (("a/sweep.csv", "b/sweep.csv", "--budget", "5m"), "--budget limits what --resolve measures; add --resolve"),
        (("a/sweep.csv", "b/sweep.csv", "--resolve", "--budget", "5"), "--budget '5' is not a duration"),
        (("a/sweep.csv", "b/sweep.csv", "--resolve", "--export", "xml=x"), "--export 'xml=x'"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, machine: NoisyMachine, pair: tuple[str, str], words: tuple[str, ...], said: str
) -> None:
    done = run_kbench(["compare", *words], tmp_path)
    assert done.returncode == 2 and machine.measured == []
    [line] = done.stderr.splitlines()
    assert line.startswith("error: ") and said in line


def test_a_torn_line_is_named_before_anything_is_measured(
    tmp_path: Path, machine: NoisyMachine, pair: tuple[str, str]
) -> None:
    with (tmp_path / pair[1]).open("a") as file:
        file.write("softmax,torch")
    done = run_kbench(["compare", *pair, "--resolve"], tmp_path)
    assert done.returncode == 2 and "b/sweep.csv:" in done.stderr, done.stderr
    assert machine.measured == []


def test_a_file_with_a_byte_order_mark_gets_its_rows(
    tmp_path: Path, machine: NoisyMachine, pair: tuple[str, str]
) -> None:
    file = tmp_path / pair[1]
    before = b"\xef\xbb\xbf" + file.read_bytes()
    file.write_bytes(before)
    done = run_kbench(["compare", *pair, "--resolve"], tmp_path)
    assert done.returncode == 0 and machine.measured, done.stderr
    assert file.read_bytes().startswith(before) and len(file.read_bytes()) > len(before)


def test_no_more_than_the_most_sessions(
    tmp_path: Path, machine: NoisyMachine, pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolve, "MOST_SESSIONS", 5)
    done = run_kbench(["compare", *pair, "--resolve", "--margin", "0.1%"], tmp_path)
    assert {session for _, _, session in machine.measured} == {3, 4}
    assert "sessions of a row are the most that kbench measures" in done.stderr

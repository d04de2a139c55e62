"""`kbench history check` at the command line: its gate, its JSON and its errors."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
from common import Kbench
from history.nights import Night, history

from kbench.errors import UsageError
from kbench.history.options import HistoryOptions


def test_the_command_its_gate_and_its_json(kbench: Kbench, tmp_path: Path) -> None:
    history(tmp_path, 16, lambda number: Night(factors={"mine": 1.1 if number >= 10 else 1.0}))
    done = kbench("history", "check", "history", "--fail-on", "change", "--json", "found.json")
    assert done.returncode == 1 and done.stdout.startswith("! gate failed: 3 slower (--fail-on change)\n")
    assert done.stderr == "error: gate failed: 3 slower (--fail-on change)\n"
    found = json.loads((tmp_path / "found.json").read_text())
    jsonschema.validate(found, json.loads(kbench("schema", "history").stdout))
    assert found["passed"] is False and [change["kind"] for change in found["changes"]] == ["slower"] * 3
    assert len(found["series"]) == 6 and all(len(each["points"]) == 16 for each in found["series"])
    assert kbench("history", "check", "history", "--fail-on", "faster,failed").returncode == 0
    chosen = kbench("history", "check", "history", "--where", "provider=torch,N>=512", "--json", "-")
    assert [each["series"]["axes"]["N"] for each in json.loads(chosen.stdout)["series"]] == [512, 1024]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--fail-on", "slow"], '--fail-on: unknown kind of change "slow"; did you mean "slower"?'),
        (["--margin", "0"], "--margin: 0% is not between 0% and 100%"),
        (["--where", "provider=none"], "no row has provider=none; provider is one of mine, torch"),
        (["--where", "K=1"], "has no column 'K'"),
        (["--json", "missing/a.json"], "missing/a.json: cannot be written"),
    ],
)
def test_a_wrong_option_is_an_error(kbench: Kbench, tmp_path: Path, options: list[str], message: str) -> None:
    history(tmp_path, 1)
    done = kbench("history", "check", "history", *options)
    assert done.returncode == 2 and message in done.stderr


def test_a_history_without_any_time_ends_with_3(kbench: Kbench, tmp_path: Path) -> None:
    history(tmp_path, 2, lambda number: Night(statuses={"mine": "error", "torch": "unavailable"}))
    done = kbench("history", "check", "history")
    assert done.returncode == 3 and "no reading has a time, so there is nothing to check" in done.stderr
    assert "still failing" in done.stdout


def test_an_unknown_word_of_the_gate_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown kind of change"):
        HistoryOptions(fail_on=("changed",))


def test_a_change_within_a_day_has_times_of_day(kbench: Kbench, tmp_path: Path) -> None:
    def run(number: int) -> Night:
        started = {"started_at": f"2026-09-01T10:{number:02d}:30+00:00"}
        return Night(factors={"mine": {9: 1.01}.get(number, 1.02 if number > 9 else 1.0)}, fields=started)

    history(tmp_path, 16, run)
    done = kbench("history", "check", "history", "--margin", "0.5%", "--all")
    found = re.search(r"it began between 2026-09-01 (10:\d\d:30) and 2026-09-01 (10:\d\d:30)", done.stdout)
    assert found and found[1] < found[2], done.stdout

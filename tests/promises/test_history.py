"""`kbench history`: results over time, and the changes in them."""

from __future__ import annotations

import datetime
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from promises.outside import Ended, Kbench, MadeOnce, Write, run_kbench, write_results

Row = Mapping[str, object]

SIZES = (256, 1024)
NIGHTS = 8
CHANGED = 4
"""The place of the first night after a planted change. It is 2026-09-05."""


@dataclass(frozen=True)
class Run:
    """The results file of a night: its rows, and what its environment file says."""

    rows: Sequence[Row]
    environment: Mapping[str, object] = field(default_factory=dict)


def make_history(kbench: Kbench, folder: Path, runs: Sequence[Run]) -> Path:
    """A history of runs, in the order of time, as `folder / "history"`. Only this function and `add` know how one is made."""
    for run in runs:
        path = write_results(folder / "nightly.csv", run.rows)
        path.with_suffix(".env.json").write_text(
            json.dumps({"env_id": "e1", "device": "NVIDIA H200", **run.environment})
        )
        ended = add(kbench, path, folder / "history")
        assert ended.code == 0, ended.text
    return folder / "history"


def add(kbench: Kbench, results: Path, history: Path) -> Ended:
    """Add a results file to a history."""
    return kbench("history", "add", results, history)


def night(number: int, factor: float = 1.0, machine: float = 1.0, **mine: object) -> Run:
    """A night with two providers and the copy control. Times scatter by 0.4 %, the same in every test. Those of `mine` are
    multiplied by `factor`, all times by `machine`. `mine` replaces fields of the rows of `mine`."""
    draw = random.Random(number)
    shared = {"started_at": started_at(number), "source_hash": "a1", "env_id": "e1"}
    rows: list[Row] = []
    for n in SIZES:
        for provider, role, ms in (
            ("torch", "provider", 1.0),
            ("mine", "provider", 0.5 * factor),
            ("copy", "control", 0.4),
        ):
            noise = draw.lognormvariate(0, 0.004)
            row = {"N": n, "provider": provider, "role": role, "ms": machine * ms * noise * n / 1e4, **shared}
            rows.append(row | mine if provider == "mine" else row)
    return Run(rows)


def started_at(number: int) -> str:
    return (datetime.datetime(2026, 9, 1, 2, tzinfo=datetime.UTC) + datetime.timedelta(days=number)).isoformat()


def nights(of: Callable[[int], Run] = night, count: int = NIGHTS) -> list[Run]:
    return [of(number) for number in range(count)]


def lost(status: str, reason: str = "") -> dict[str, object]:
    """The fields of a row without a time."""
    return {"status": status, "reason": reason, "ms": ""}


@pytest.fixture
def shared(made_once: MadeOnce) -> Callable[[str, Callable[[], Sequence[Run]]], Path]:
    """`shared(name, runs)` is a history that many tests read."""

    def shared(name: str, runs: Callable[[], Sequence[Run]]) -> Path:
        made = made_once(
            f"history-{name}",
            lambda folder: make_history(lambda *arguments: run_kbench(*arguments, folder=folder), folder, runs()),
        )
        return made / "history"

    return shared


@pytest.fixture
def steady(shared: Callable[..., Path]) -> Path:
    """A history without a change."""
    return shared("steady", nights)


@pytest.fixture
def slower(shared: Callable[..., Path]) -> Path:
    """A history in which `mine` takes 10 % longer from 2026-09-05 on."""
    return shared("slower", lambda: nights(lambda number: night(number, 1.1 if number >= CHANGED else 1.0)))


@pytest.fixture
def changes(kbench: Kbench, folder: Path) -> Callable[..., list[tuple[str, str]]]:
    """The kinds of all changes in a history of these runs, each with the day on which it was found."""

    def changes(runs: Sequence[Run], *options: str) -> list[tuple[str, str]]:
        document = found(kbench(*["history", "check", make_history(kbench, folder, runs), "--json", "-", *options]))
        return [(change["kind"], change["at"]["started_at"][:10]) for change in document["changes"]]

    return changes


def found(ended: Ended) -> dict[str, Any]:
    """What `--json -` printed."""
    assert ended.code in (0, 1), ended.text
    document: dict[str, Any] = json.loads(ended.out)
    return document


# -- changes of a time


def test_a_provider_that_takes_ten_percent_longer_is_named_with_the_day(kbench: Kbench, slower: Path) -> None:
    ended = kbench("history", "check", slower)
    lines = [line for line in ended.out.splitlines() if "slower" in line and "mine" in line]
    assert len(lines) == len(SIZES) and "2026-09-05" in ended.out
    assert all(f"N={n}" in line for n, line in zip(SIZES, lines, strict=True))


def test_the_size_of_a_change_and_its_interval_are_those_that_were_planted(kbench: Kbench, slower: Path) -> None:
    for change in found(kbench("history", "check", slower, "--json", "-"))["changes"]:
        assert change["series"]["provider"] == "mine" and change["kind"] == "slower"
        assert change["ratio"] == pytest.approx(1.1, abs=0.01)
        assert 1.08 < change["ci"][0] < change["ratio"] < change["ci"][1] < 1.12


def test_a_recent_change_of_a_kind_that_fail_on_lists_is_exit_code_1(kbench: Kbench, slower: Path) -> None:
    ended = kbench("history", "check", slower, "--fail-on", "slower,failed")
    assert ended.code == 1 and "gate failed" in ended.err and "2 slower" in ended.err


@pytest.mark.parametrize("options", [(), ("--fail-on", "failed,missing")], ids=["no gate", "another gate"])
def test_a_change_that_no_gate_lists_is_reported_with_exit_code_0(
    kbench: Kbench, slower: Path, options: Sequence[str]
) -> None:
    ended = kbench("history", "check", slower, *options)
    assert ended.code == 0 and "slower" in ended.out


def test_the_word_change_stands_for_all_kinds(kbench: Kbench, slower: Path) -> None:
    assert kbench("history", "check", slower, "--fail-on", "change").code == 1


def test_a_history_without_a_change_says_so_and_passes_every_gate(kbench: Kbench, steady: Path) -> None:
    ended = kbench("history", "check", steady, "--fail-on", "change")
    assert ended.code == 0 and "no change" in ended.out


def test_an_older_change_is_counted_and_does_not_fail_the_gate(kbench: Kbench, slower: Path) -> None:
    ended = kbench("history", "check", slower, "--recent", "3", "--fail-on", "slower")
    assert ended.code == 0 and "2 older changes" in ended.out and "2026-09-05" not in ended.out


def test_all_shows_older_changes_too(kbench: Kbench, slower: Path) -> None:
    ended = kbench("history", "check", slower, "--recent", "3", "--fail-on", "slower", "--all")
    assert ended.code == 0 and "2026-09-05" in ended.out


def test_a_change_below_the_margin_does_not_count(kbench: Kbench, slower: Path) -> None:
    assert kbench("history", "check", slower, "--margin", "20%", "--fail-on", "slower").code == 0


def test_a_provider_that_became_faster_does_not_fail_a_gate_on_slower(kbench: Kbench, folder: Path) -> None:
    history = make_history(kbench, folder, nights(lambda number: night(number, 0.9 if number >= CHANGED else 1.0)))
    ended = kbench("history", "check", history, "--fail-on", "slower")
    assert ended.code == 0 and "2 faster" in ended.out


def test_a_drift_of_the_whole_machine_is_no_change(changes: Callable[..., Any]) -> None:
    """The copy control shows the drift, and kbench subtracts it."""
    assert changes(nights(lambda number: night(number, machine=1.1 if number >= CHANGED else 1.0))) == []


def test_one_slow_night_is_no_change(changes: Callable[..., Any]) -> None:
    assert changes(nights(lambda number: night(number, 1.1 if number == CHANGED else 1.0))) == []


def test_without_a_copy_control_no_drift_is_said_to_be_subtracted(kbench: Kbench, folder: Path) -> None:
    runs = [Run([row for row in run.rows if row["role"] == "provider"]) for run in nights()]
    ended = kbench("history", "check", make_history(kbench, folder, runs))
    assert "without a copy control" in ended.out and "without the drift" not in ended.out


def test_a_short_history_says_that_it_has_too_few_points(kbench: Kbench, folder: Path) -> None:
    ended = kbench("history", "check", make_history(kbench, folder, nights(count=3)))
    assert ended.code == 0 and "too few" in ended.out


def test_the_commit_that_moved_with_a_change_is_named(kbench: Kbench, folder: Path) -> None:
    def of(number: int) -> Run:
        new = number >= CHANGED
        run = night(number, 1.1 if new else 1.0, source_hash="b2" if new else "a1")
        return Run(run.rows, {"git": {"commit": f"{number:x}" * 40, "dirty": False}})

    ended = kbench("history", "check", make_history(kbench, folder, nights(of)))
    assert "3333333333 -> 4444444444" in ended.out


def test_the_same_results_count_once(kbench: Kbench, folder: Path) -> None:
    history = make_history(kbench, folder, [*nights(count=2), night(1)])
    series = found(kbench("history", "check", history, "--json", "-"))["series"]
    assert [len(each["points"]) for each in series] == [2] * len(series)


# -- changes of a status


def statuses(*fields: Mapping[str, object]) -> list[Run]:
    """Nights in which the rows of `mine` have these fields."""
    return [night(number, **own) for number, own in enumerate(fields)]


OK: dict[str, object] = {}


def test_a_provider_that_fails_is_failed_on_that_day(kbench: Kbench, folder: Path) -> None:
    history = make_history(kbench, folder, statuses(OK, OK, OK, lost("wrong", "every element NaN")))
    ended = kbench("history", "check", history, "--fail-on", "failed")
    assert ended.code == 1 and "2026-09-04" in ended.out and "every element NaN" in ended.out
    assert "still failing" in ended.out


def test_a_provider_that_works_again_is_fixed(changes: Callable[..., Any]) -> None:
    runs = statuses(lost("error", "no kernel"), lost("error", "no kernel"), OK, OK)
    assert changes(runs) == [("fixed", "2026-09-03")] * len(SIZES)


def test_a_provider_that_declines_what_it_timed_before_is_missing(changes: Callable[..., Any]) -> None:
    runs = statuses(OK, OK, lost("unsupported", "N is too large"))
    assert changes(runs) == [("missing", "2026-09-03")] * len(SIZES)


def test_a_provider_that_is_absent_from_three_runs_is_missing(kbench: Kbench, folder: Path) -> None:
    def of(number: int) -> Run:
        run = night(number)
        return run if number < 3 else Run([row for row in run.rows if row["provider"] != "mine"])

    history = make_history(kbench, folder, nights(of, 6))
    assert kbench("history", "check", history, "--fail-on", "missing").code == 1
    shorter = make_history(kbench, folder / "shorter", nights(of, 4))
    assert kbench("history", "check", shorter, "--fail-on", "missing").code == 0


@pytest.mark.parametrize(
    ("before", "after"),
    [("unsupported", "unavailable"), ("checked", "unsupported"), ("unavailable", "checked"), ("wrong", "error")],
)
def test_a_change_between_two_states_without_a_time_is_untimed_and_fails_no_gate(
    kbench: Kbench, folder: Path, before: str, after: str
) -> None:
    history = make_history(kbench, folder, statuses(lost(before, "why"), lost(before, "why"), lost(after, "other")))
    ended = kbench("history", "check", history, "--fail-on", "change")
    assert ended.code == 0, ended.text
    assert "2 untimed" in ended.out


def test_history_and_compare_have_the_same_word_for_two_states_without_a_time(kbench: Kbench, folder: Path) -> None:
    runs = statuses(lost("unsupported", "N is too large"), lost("unavailable", "no module quack"))
    old, new = (write_results(folder / f"{name}.csv", run.rows) for name, run in zip(("old", "new"), runs, strict=True))
    compared = kbench("compare", old, new, "--where", "provider=mine")
    history = kbench("history", "check", make_history(kbench, folder, runs), "--where", "provider=mine")
    assert "2 untimed" in compared.out and "2 untimed" in history.out


def test_what_was_checked_and_is_wrong_is_failed(changes: Callable[..., Any]) -> None:
    """A machine without an accelerator checks and does not time."""
    assert changes(statuses(lost("checked"), lost("wrong", "every element NaN"))) == [("failed", "2026-09-02")] * len(
        SIZES
    )


def test_another_timer_begins_a_new_series(changes: Callable[..., Any]) -> None:
    runs = statuses(OK, OK, {"timer": "graph"})
    assert changes(runs) == [("incomparable", "2026-09-03")] * len(SIZES)


# -- choices and mistakes


def test_where_chooses_the_series(kbench: Kbench, slower: Path) -> None:
    ended = kbench("history", "check", slower, "--where", "provider=torch", "--fail-on", "change")
    assert ended.code == 0 and "mine" not in ended.out


def test_a_term_that_chooses_nothing_names_the_values(kbench: Kbench, steady: Path) -> None:
    ended = kbench("history", "check", steady, "--where", "provider=min")
    assert ended.code == 2 and "mine, torch" in ended.err


def test_an_unknown_kind_of_change_is_named_with_a_suggestion(kbench: Kbench, steady: Path) -> None:
    ended = kbench("history", "check", steady, "--fail-on", "slow")
    assert ended.code == 2 and '"slow"' in ended.err and "slower" in ended.err


@pytest.mark.parametrize("name", ["empty", "nowhere"])
def test_a_folder_without_results_is_named(kbench: Kbench, folder: Path, name: str) -> None:
    (folder / "empty").mkdir()
    ended = kbench("history", "check", name)
    assert ended.code == 2 and ended.err.startswith(f"error: {name}")


def test_a_file_that_is_no_results_file_is_named(kbench: Kbench, folder: Path, write: Write) -> None:
    ended = add(kbench, write("notes.csv", "date,note\n2026-09-01,quiet\n"), folder / "history")
    assert ended.code == 2 and "notes.csv" in ended.err


def test_a_history_without_any_time_is_exit_code_3(kbench: Kbench, folder: Path) -> None:
    runs = [
        Run([{**row, **lost("checked")} for row in run.rows if row["role"] == "provider"]) for run in nights(count=2)
    ]
    ended = kbench("history", "check", make_history(kbench, folder, runs))
    assert ended.code == 3 and "no reading has a time" in ended.err


def test_plot_draws_a_picture_with_the_providers_and_the_day_of_the_change(
    kbench: Kbench, folder: Path, slower: Path
) -> None:
    ended = kbench("history", "plot", slower, "--out", folder, "--format", "svg")
    [path] = map(Path, ended.out.split())
    text = path.read_text()
    assert path.suffix == ".svg" and all(word in text for word in ("mine", "torch", "softmax", "2026-09-05"))

"""`kbench history`: results over time, and the changes in them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from promises.nightly import CHANGED, HISTORY_SIZES, Run, add, make_history, night, nights
from promises.outside import Ended, Kbench, MadeOnce, Write


def lost(status: str, reason: str = "") -> dict[str, object]:
    """The fields of a row without a time."""
    return {"status": status, "reason": reason, "ms": ""}


@pytest.fixture
def shared(made_once: MadeOnce) -> Callable[[str, Callable[[], Sequence[Run]]], Path]:
    """`shared(name, runs)` is a history that many tests read."""

    def shared(name: str, runs: Callable[[], Sequence[Run]]) -> Path:
        return made_once(f"history-{name}", lambda folder: make_history(folder, runs())) / "history"

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

    def changes(runs: Sequence[Run]) -> list[tuple[str, str]]:
        history = make_history(folder / str(len(list(folder.iterdir()))), runs)
        document = found(kbench("history", "check", history, "--json", "-"))
        return [(change["kind"], change["at"]["started_at"][:10]) for change in document["changes"]]

    return changes


def on_device(number: int, run: Run) -> Run:
    return Run([{**row, "device_uuid": f"GPU-{number}"} for row in run.rows], run.environment)


def found(ended: Ended) -> dict[str, Any]:
    """What `--json -` printed."""
    assert ended.code in (0, 1), ended.text
    document: dict[str, Any] = json.loads(ended.out)
    return document


# -- changes of a time


def test_a_change_is_named_with_its_provider_day_size_and_interval(kbench: Kbench, slower: Path) -> None:
    ended = kbench("history", "check", slower)
    assert ended.code == 0
    lines = [line for line in ended.out.splitlines() if "slower" in line and "mine" in line]
    assert len(lines) == len(HISTORY_SIZES) and "2026-09-05" in ended.out
    assert all(f"N={n}" in line for n, line in zip(HISTORY_SIZES, lines, strict=True))
    for change in found(kbench("history", "check", slower, "--json", "-"))["changes"]:
        assert change["series"]["provider"] == "mine" and change["kind"] == "slower"
        assert change["ratio"] == pytest.approx(1.1, abs=0.01)
        assert 1.08 < change["ci"][0] < change["ratio"] < change["ci"][1] < 1.12


def test_a_recent_change_of_a_kind_that_fail_on_lists_is_exit_code_1(kbench: Kbench, slower: Path) -> None:
    ended = kbench("history", "check", slower, "--fail-on", "slower,failed")
    assert ended.code == 1 and "gate failed" in ended.err and "2 slower" in ended.err
    assert kbench("history", "check", slower, "--fail-on", "change").code == 1, "change stands for all kinds"


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--fail-on", "failed,missing"),
        ("--fail-on", "slower", "--margin", "20%"),
        ("--fail-on", "slower", "--where", "provider=torch"),
        ("--fail-on", "slower", "--recent", "3"),
    ],
    ids=["no gate", "another kind", "below the margin", "another series", "an older change"],
)
def test_any_other_change_is_exit_code_0(kbench: Kbench, slower: Path, options: tuple[str, ...]) -> None:
    assert kbench("history", "check", slower, *options).code == 0


def test_a_history_without_a_change_passes_every_gate_and_a_faster_provider_that_on_slower(
    kbench: Kbench, steady: Path, folder: Path
) -> None:
    ended = kbench("history", "check", steady, "--fail-on", "change")
    assert ended.code == 0 and "no change" in ended.out
    history = make_history(folder, nights(lambda number: night(number, 0.9 if number >= CHANGED else 1.0)))
    ended = kbench("history", "check", history, "--fail-on", "slower")
    assert ended.code == 0 and "2 faster" in ended.out


def test_an_older_change_is_counted_and_all_shows_it(kbench: Kbench, slower: Path) -> None:
    recent = kbench("history", "check", slower, "--recent", "3").out
    assert "2 older changes" in recent and "2026-09-05" not in recent
    assert "2026-09-05" in kbench("history", "check", slower, "--recent", "3", "--all").out


def test_a_drift_of_the_whole_machine_and_one_slow_night_are_no_change(changes: Callable[..., Any]) -> None:
    """The copy control shows the drift, and kbench subtracts it."""
    assert changes(nights(lambda number: night(number, machine=1.1 if number >= CHANGED else 1.0))) == []
    assert changes(nights(lambda number: night(number, 1.1 if number == CHANGED else 1.0))) == []


def test_each_device_of_a_machine_has_a_level_of_its_own(changes: Callable[..., Any]) -> None:
    def of(number: int) -> Run:
        return on_device(number % 2, night(number, machine=1.1 if number % 2 else 1.0))

    assert changes(nights(of)) == []


def test_a_history_says_that_it_has_no_copy_control_or_too_few_points(kbench: Kbench, folder: Path) -> None:
    runs = [Run([row for row in run.rows if row["role"] == "provider"]) for run in nights()]
    history = make_history(folder, runs)
    ended = kbench("history", "check", history)
    assert "without a copy control" in ended.out and "without the drift" not in ended.out
    for terms in ("provider=mine", f"provider=mine,N={HISTORY_SIZES[0]}"):  # counts those of the series that it shows
        report = found(kbench("history", "check", history, "--where", terms, "--json", "-"))
        assert report["uncorrected"] == sum(len(series["points"]) for series in report["series"])
    ended = kbench("history", "check", make_history(folder / "short", nights(count=3)))
    assert ended.code == 0 and "too few" in ended.out


def test_the_commit_that_moved_with_a_change_is_named(kbench: Kbench, folder: Path) -> None:
    def of(number: int) -> Run:
        new = number >= CHANGED
        run = night(number, 1.1 if new else 1.0, source_hash="b2" if new else "a1")
        return Run(run.rows, {"git": {"commit": f"{number:x}" * 40, "dirty": new}})

    ended = kbench("history", "check", make_history(folder, nights(of)))
    assert "3333333333 -> 4444444444+" in ended.out, "the plus stands for changes that were not committed"


def test_a_baseline_that_changed_too_is_named(kbench: Kbench, folder: Path) -> None:
    def of(number: int) -> Run:
        run = night(number, 0.92, torch=0.9) if number >= CHANGED else night(number)
        return Run(run.rows, {"baseline": "torch"})

    history = make_history(folder, nights(of))
    moved = [
        (change["series"]["provider"], change["moved"]["baseline"])
        for change in found(kbench("history", "check", history, "--json", "-"))["changes"]
    ]
    ratio = pytest.approx(0.9, abs=0.01)
    named = {"mine": {"provider": "torch", "ratio": ratio}, "torch": None}
    assert len(moved) == 4 and all(baseline == named[provider] for provider, baseline in moved)
    assert "the baseline torch changed too, by -" in kbench("history", "check", history).out


def test_a_step_of_the_copies_and_another_device_are_named(kbench: Kbench, folder: Path) -> None:
    def of(number: int) -> Run:
        return on_device(2, night(number, 1.1, machine=1.05)) if number >= CHANGED else on_device(1, night(number))

    ended = kbench("history", "check", make_history(folder, nights(of)))
    copies = r"machine: the copy control became [45]\.\d% slower, which is subtracted"
    assert re.search(rf"device UUID GPU-1 -> GPU-2; {copies}", ended.out), ended.out
    assert "2 slower" in ended.out and "mine" in ended.out


def test_changes_are_in_the_order_of_time_and_a_new_package_is_one_of_the_stack(kbench: Kbench, folder: Path) -> None:
    def of(number: int) -> Run:
        newer = number >= 2 * CHANGED
        run = night(number, 1.2 if number >= CHANGED else 1.0, torch=1.2 if newer else 1.0)
        return Run(run.rows, {"packages": {"torch": "2.10.0" if newer else "2.9.0"}})

    history = make_history(folder, nights(of, 3 * CHANGED))
    (history / f"night-{CHANGED - 1}" / "nightly.env.json").unlink()
    changes = found(kbench("history", "check", history, "--all", "--json", "-"))["changes"]
    assert [change["series"]["provider"] for change in changes] == ["mine", "mine", "torch", "torch"]
    packages = [{"name": "packages.torch", "old": "2.9.0", "new": "2.10.0"}]
    assert [change["moved"]["stack"] for change in changes] == [[], [], packages, packages]
    assert changes[0]["moved"]["machine"] == [{"name": "environment file", "old": "none", "new": "read"}]


def test_results_count_once_wherever_they_lie_and_those_that_a_run_moved_aside_count(
    kbench: Kbench, folder: Path
) -> None:
    history = make_history(folder, [*nights(count=2), night(1)])
    add(history / "copied" / "elsewhere", night(1))
    for suffix in ("csv", "env.json"):
        (history / "night-0" / f"nightly.{suffix}").rename(history / "night-1" / f"nightly.20260901-020000.{suffix}")
    series = found(kbench("history", "check", history, "--json", "-"))["series"]
    assert [len(each["points"]) for each in series] == [2] * len(series)


def test_sessions_that_were_appended_to_a_copied_file_count_once(kbench: Kbench, folder: Path) -> None:
    first, second = ([{**row, "session": number} for row in night(number).rows] for number in (0, 1))
    history = make_history(folder, [Run([*first, *second])])
    add(history / "before", Run(first))
    points = [each["points"] for each in found(kbench("history", "check", history, "--json", "-"))["series"]]
    assert [len({point["ms"] for point in each}) for each in points] == [len(each) for each in points] == [2] * 4


# -- changes of a status


def statuses(*fields: Mapping[str, object]) -> list[Run]:
    """Nights in which the rows of `mine` have these fields."""
    return [night(number, **own) for number, own in enumerate(fields)]


OK: dict[str, object] = {}
UNKNOWN = dict.fromkeys(("timer", "cache", "device", "device_uuid", "case_hash"), "")


def test_a_provider_that_fails_is_failed_on_that_day(kbench: Kbench, folder: Path) -> None:
    *before, wrong = statuses(OK, OK, OK, lost("wrong", "every element NaN"))
    second_session = [{**row, "session": 1} for row in wrong.rows]
    for name, rows in {"all": wrong.rows, "one-session": [*night(3).rows, *second_session]}.items():
        history = make_history(folder / name, [*before, Run(rows)])
        ended = kbench("history", "check", history, "--fail-on", "failed")
        assert ended.code == 1 and "2026-09-04" in ended.out and "every element NaN" in ended.out
        assert "still failing" in ended.out
        document = found(kbench("history", "check", history, "--json", "-", "--where", "provider=mine"))
        assert [series["points"][-1]["ms"] for series in document["series"]] == [None] * 2  # wrong: no time


@pytest.mark.parametrize(
    ("last", "kind"),
    [
        ((lost("error", "no kernel"), OK), "fixed"),
        ((OK, lost("unsupported", "N is too large")), "missing"),
        ((lost("checked"), lost("wrong", "every element NaN")), "failed"),
        ((OK, {"timer": "graph"}), "incomparable"),
        ((OK, lost("crashed", "SIGSEGV") | UNKNOWN), "failed"),
    ],
    ids=[
        "works again",
        "declines what it timed",
        "wrong on a machine that only checks",
        "another timer",
        "a crash before its conditions were known",
    ],
)
def test_a_change_of_a_status_has_a_kind_and_a_day(
    changes: Callable[..., Any], last: tuple[Mapping[str, object], ...], kind: str
) -> None:
    assert changes(statuses(last[0], *last)) == [(kind, "2026-09-03")] * len(HISTORY_SIZES)


def test_a_provider_that_is_absent_from_three_runs_is_missing(kbench: Kbench, folder: Path) -> None:
    def of(number: int) -> Run:
        run = night(number)
        return run if number < 3 else Run([row for row in run.rows if row["provider"] != "mine"])

    history = make_history(folder, nights(of, 6))
    assert kbench("history", "check", history, "--fail-on", "missing").code == 1
    shorter = make_history(folder / "shorter", nights(of, 4))
    assert kbench("history", "check", shorter, "--fail-on", "missing").code == 0


@pytest.mark.parametrize(
    ("before", "after"),
    [("unsupported", "unavailable"), ("checked", "unsupported"), ("unavailable", "checked"), ("wrong", "error")],
)
def test_a_change_between_states_without_a_time_fails_no_gate(
    kbench: Kbench, folder: Path, before: str, after: str
) -> None:
    history = make_history(folder, statuses(lost(before, "why"), lost(before, "why"), lost(after, "other")))
    ended = kbench("history", "check", history, "--fail-on", "change")
    assert ended.code == 0, ended.text
    assert "2 untimed" in ended.out


# -- choices and mistakes


def test_a_kind_of_change_that_does_not_exist_is_named_with_a_near_one(kbench: Kbench, steady: Path) -> None:
    ended = kbench("history", "check", steady, "--fail-on", "slow")
    assert ended.code == 2 and '"slow"' in ended.err and "slower" in ended.err


def test_a_folder_without_results_is_named(kbench: Kbench, folder: Path) -> None:
    (folder / "empty").mkdir()
    for name in ("empty", "nowhere"):
        ended = kbench("history", "check", name)
        assert ended.code == 2 and ended.err.startswith(f"error: {name}")


def test_a_file_that_is_no_results_file_is_named_and_the_others_are_read(
    kbench: Kbench, folder: Path, write: Write
) -> None:
    write("history/notes.csv", "date,note\n2026-09-01,quiet\n")
    ended = kbench("history", "check", "history")
    assert ended.code == 2 and "history/notes.csv" in ended.err
    make_history(folder, nights(count=2))
    ended = kbench("history", "check", "history")
    assert ended.code == 0 and "history/notes.csv" in ended.err and "2 runs" in ended.out


def test_a_history_without_any_time_is_exit_code_3(kbench: Kbench, folder: Path) -> None:
    rows = [{**row, **lost("checked")} for row in night(0).rows if row["role"] == "provider"]
    ended = kbench("history", "check", make_history(folder, [Run(rows)]))
    assert ended.code == 3 and "no reading has a time" in ended.err


def test_plot_draws_the_providers_and_the_day_of_a_change(kbench: Kbench, folder: Path, slower: Path) -> None:
    ended = kbench("history", "plot", slower, "--out", folder, "--format", "svg")
    [path] = map(Path, ended.out.split())
    text = path.read_text()
    assert path.suffix == ".svg" and all(word in text for word in ("mine", "torch", "softmax", "2026-09-05"))


def test_the_picture_calls_times_relative_to_the_copy_control_only_if_there_is_one(
    kbench: Kbench, folder: Path, slower: Path, recwarn: pytest.WarningsRecorder
) -> None:
    without = [Run([row for row in night(day).rows if row["role"] == "provider"]) for day in (0, 1, 2.6)]
    for history, said in ((slower, True), (make_history(folder, without), False)):
        ended = kbench("history", "plot", history, "--out", folder / "pictures", "--format", "svg")
        assert ("relative to the copy control" in Path(ended.out.strip()).read_text()) is said and not recwarn.list

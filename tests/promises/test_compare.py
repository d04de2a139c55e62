"""`kbench compare`: two results files, row by row."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from promises.outside import ROOT, Kbench, rows_of
from promises.planted import Times, write_sessions

SIZES = (1024, 2048, 3072, 4096, 5120, 6144, 7168, 8192)
KERNEL = {n: n / 50_000 for n in SIZES}
BEFORE: Times = {"kernel": KERNEL, "other": {n: 1.5 * ms for n, ms in KERNEL.items()}}


def results(path: Path, times: Times, *, machine: float = 1.0, **more: Any) -> Path:
    """A results file of these times and of a copy for each case. `machine` is how much slower the machine is than usual."""
    copies = {n: n / 60_000 for by_size in times.values() for n in by_size}
    every = {**times, "copy": copies}
    return write_sessions(path, scaled(every, machine, *every), **more)


def scaled(times: Times, factor: float, *providers: str) -> Times:
    """The same times, `factor` times as long for the named providers."""
    return {
        name: {n: ms if isinstance(ms, str) or name not in providers else ms * factor for n, ms in by_size.items()}
        for name, by_size in times.items()
    }


@pytest.fixture
def compared(folder: Path, kbench: Kbench) -> Callable[..., dict[str, Any]]:
    """Compare the file of the first times with the file of the second times, and return the JSON. `code` is the exit code."""

    def compared(
        old: Times, new: Times, *options: str, code: int = 0, machine: float = 1.0, sessions: int = 3
    ) -> dict[str, Any]:
        results(folder / "a.csv", old, sessions=sessions)
        results(folder / "b.csv", new, sessions=sessions, machine=machine)
        ended = kbench("compare", "a.csv", "b.csv", "--export", "json=c.json", *options)
        assert ended.code == code, ended.text
        document: dict[str, Any] = json.loads((folder / "c.json").read_text())
        document["text"] = ended.out
        return document

    return compared


def verdicts(document: Mapping[str, Any], provider: str) -> list[str]:
    return [row["verdict"] for row in document["rows"] if row["key"]["provider"] == provider]


Compared = Callable[..., dict[str, Any]]


def test_unchanged_code_is_the_same_in_every_row_and_passes_the_gate(compared: Compared) -> None:
    document = compared(BEFORE, BEFORE, "--fail-on", "slower,missing,failed")
    assert len(document["rows"]) == 2 * len(SIZES)
    assert verdicts(document, "kernel") + verdicts(document, "other") == ["same"] * 2 * len(SIZES)
    assert document["gate"]["passed"] is True and "gate passed" in document["text"].splitlines()[0]


@pytest.mark.parametrize("change", [1.03, 1.05])
def test_a_slower_provider_is_slower_and_the_other_one_is_the_same(compared: Compared, change: float) -> None:
    document = compared(BEFORE, scaled(BEFORE, change, "kernel"))
    assert verdicts(document, "kernel") == ["slower"] * len(SIZES)
    assert verdicts(document, "other") == ["same"] * len(SIZES)
    for row in document["rows"]:
        if row["key"]["provider"] == "kernel":
            assert row["ci"][0] < row["ratio"] < row["ci"][1] and row["ratio"] == pytest.approx(change, rel=0.01)
            assert row["q"] <= 0.01


def test_chance_alone_makes_none_of_two_hundred_rows_slower_or_faster(compared: Compared) -> None:
    """With almost no margin, every row differs a little, and some 95 % intervals exclude 0."""
    many: Times = {f"kernel-{i}": KERNEL for i in range(25)}
    document = compared(many, many, "--margin", "0.01%", code=3)
    assert {row["verdict"] for row in document["rows"]} == {"unclear"}


def test_a_change_below_the_margin_is_the_same_and_the_metric_gbps_shows_the_opposite_sign(compared: Compared) -> None:
    document = compared(BEFORE, scaled(BEFORE, 1.05, "kernel"), "--margin", "10%")
    assert verdicts(document, "kernel") == ["same"] * len(SIZES)
    document = compared(BEFORE, scaled(BEFORE, 1.5, "kernel"), "--metric", "gbps")
    assert verdicts(document, "kernel") == ["slower"] * len(SIZES)
    assert "-33." in document["text"]


def test_a_machine_that_is_slower_as_a_whole_makes_no_row_slower_and_its_drift_is_subtracted(
    compared: Compared,
) -> None:
    document = compared(BEFORE, BEFORE, "--fail-on", "slower", machine=1.012)
    assert set(verdicts(document, "kernel") + verdicts(document, "other")) == {"same"}
    document = compared(BEFORE, scaled(BEFORE, 1.05, "kernel"), machine=0.985)
    assert verdicts(document, "kernel") == ["slower"] * len(SIZES)
    ratios = [row["ratio"] for row in document["rows"] if row["key"]["provider"] == "kernel"]
    assert ratios == pytest.approx([1.05] * len(SIZES), rel=0.01)


def test_a_single_session_shows_a_large_change_and_no_small_one(compared: Compared) -> None:
    document = compared(BEFORE, scaled(BEFORE, 1.02, "kernel"), sessions=1, code=3)
    assert set(verdicts(document, "kernel")) <= {"unclear"}
    assert all("1 session" in row["reason"] for row in document["rows"] if row["key"]["provider"] == "kernel")
    assert verdicts(compared(BEFORE, scaled(BEFORE, 1.2, "kernel"), sessions=1), "kernel") == ["slower"] * len(SIZES)


def with_statuses(old: float | str | None, new: float | str | None) -> tuple[Times, Times]:
    """Two sets of times in which the provider `kernel` is this at its first size, and absent for None."""

    def times(value: float | str | None) -> Times:
        kernel: dict[int, float | str] = {n: ms for n, ms in KERNEL.items() if n != SIZES[0]}
        return {**BEFORE, "kernel": kernel if value is None else {SIZES[0]: value, **kernel}}

    return times(old), times(new)


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        (0.02, "wrong", "failed"),
        ("error", 0.02, "fixed"),
        (0.02, None, "missing"),
        (0.02, "unsupported", "missing"),
        (None, 0.02, "new"),
        ("checked", None, "missing"),
        ("checked", "unavailable", "missing"),
        ("checked", "checked", "untimed"),
        ("wrong", "error", "untimed"),
        ("unsupported", "unavailable", "untimed"),
    ],
)
def test_a_row_without_a_time_has_a_verdict(
    compared: Compared, old: float | str | None, new: float | str | None, verdict: str
) -> None:
    document = compared(*with_statuses(old, new))
    [row] = [row for row in document["rows"] if row["key"]["provider"] == "kernel" and row["key"]["N"] == SIZES[0]]
    assert row["verdict"] == verdict


def test_rows_of_another_device_or_definition_are_incomparable(folder: Path, kbench: Kbench) -> None:
    results(folder / "a.csv", BEFORE)
    results(folder / "b.csv", BEFORE, case_hash="0ther")
    results(folder / "c.csv", BEFORE, device="NVIDIA H100 80GB HBM3")
    for other, reason in (("b.csv", "operator's source"), ("c.csv", "makes 16 of 16 rows incomparable")):
        ended = kbench("compare", "a.csv", other)
        assert ended.code == 3 and "incomparable" in ended.text and reason in ended.out
    assert kbench("compare", "a.csv", "c.csv", "--vary", "device").code == 0


def test_vary_case_hash_pairs_the_controls_too_so_that_a_slower_machine_makes_no_row_slower(
    folder: Path, kbench: Kbench
) -> None:
    results(folder / "a.csv", BEFORE)
    results(folder / "b.csv", BEFORE, machine=1.05, case_hash="0ther")
    ended = kbench("compare", "a.csv", "b.csv", "--vary", "case_hash", "--export", "json=c.json")
    document = json.loads((folder / "c.json").read_text())
    assert "machine drift +5.0%" in ended.out
    assert not {row["verdict"] for row in document["rows"]} & {"slower", "faster", "incomparable"}


def test_vary_device_shows_how_much_slower_the_other_device_is(folder: Path, kbench: Kbench) -> None:
    results(folder / "a.csv", BEFORE)
    results(folder / "b.csv", BEFORE, machine=1.5, device="NVIDIA H100 80GB HBM3")
    ended = kbench("compare", "a.csv", "b.csv", "--vary", "device", "--fail-on", "slower")
    assert ended.code == 1 and f"{2 * len(SIZES)} slower" in ended.out


def test_files_without_a_row_timed_in_both_have_exit_code_3(folder: Path, kbench: Kbench) -> None:
    results(folder / "a.csv", {"kernel": {1024: 0.02}})
    results(folder / "b.csv", {"kernel": {2048: 0.04}}, device="NVIDIA H100 80GB HBM3")
    assert "concerns no row that both files have" in kbench("compare", "a.csv", "b.csv").out
    results(folder / "c.csv", {"kernel": {1024: "crashed"}})
    assert {kbench("compare", "a.csv", other, "--fail-on", "slower").code for other in ("b.csv", "c.csv")} == {3}
    assert kbench("compare", "a.csv", "c.csv", "--fail-on", "slower,failed").code == 1


def test_the_printed_table_has_the_times_of_each_row_and_a_geometric_mean_of_so_many_rows(compared: Compared) -> None:
    text = compared(BEFORE, scaled(BEFORE, 1.5, "kernel"), "--where", "provider=kernel")["text"]
    [line] = [line for line in text.splitlines() if line.split()[:1] == ["1024"]]
    old_us, new_us = (float(word) for word in line.split()[1:3])
    assert old_us == pytest.approx(20.48, rel=0.01) and new_us == pytest.approx(30.72, rel=0.01)
    assert ("+50." in line or "+49." in line) and "slower" in line
    assert "geomean" in text and "8 of 8 rows" in text


def test_where_selects_rows_and_only_shows_those_with_its_verdicts(compared: Compared) -> None:
    document = compared(BEFORE, BEFORE, "--where", "N=1024,2048,provider=other")
    assert [(row["key"]["provider"], row["key"]["N"]) for row in document["rows"]] == [("other", 1024), ("other", 2048)]
    text = compared(BEFORE, scaled(BEFORE, 1.5, "kernel"), "--only", "slower")["text"]
    assert "kernel" in text and "other" not in text


def test_markdown_begins_with_the_marker_and_the_result_of_the_gate(folder: Path, kbench: Kbench) -> None:
    results(folder / "a.csv", BEFORE)
    results(folder / "b.csv", scaled(BEFORE, 1.5, "kernel"))
    ended = kbench("compare", "a.csv", "b.csv", "--export", "markdown=-", "--fail-on", "slower")
    marker, title, *rest = ended.out.splitlines()
    assert ended.code == 1 and marker == "<!-- kbench:compare -->" and "gate failed" in title
    assert any(line.startswith("|") and "slower" in line and "1024" in line for line in rest)


def test_markdown_of_a_large_comparison_has_at_most_60000_bytes(folder: Path, kbench: Kbench) -> None:
    many = {f"kernel-{i}": KERNEL for i in range(120)}
    results(folder / "a.csv", many, sessions=1)
    results(folder / "b.csv", scaled(many, 1.5, *many), sessions=1)
    kbench("compare", "a.csv", "b.csv", "--export", "markdown=c.md")
    assert 10_000 < (folder / "c.md").stat().st_size <= 60_000


def test_exports_are_of_the_same_comparison_at_full_precision(compared: Compared, folder: Path) -> None:
    options = ("--export", "csv=c.csv", "--export", "markdown=c.md")
    document = compared(BEFORE, scaled(BEFORE, 1.05, "kernel"), *options)
    rows = rows_of(folder / "c.csv")
    assert [row["verdict"] for row in rows] == [row["verdict"] for row in document["rows"]]
    assert [float(row["ratio"]) for row in rows] == [row["ratio"] for row in document["rows"]]
    assert "8 slower" in (folder / "c.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("a.csv", "text.csv"), "text.csv"),
        (("a.csv", "b.csv", "--fail-on", "slowr"), "slower"),
        (("a.csv", "b.csv", "--metric", "gpbs"), "gbps"),
        (("a.csv", "b.csv", "--where", "K=3"), "K"),
        (("a.csv", "b.csv", "--margin", "much"), "much"),
        (("a.csv", "b.csv", "--export", "github=-"), "--github"),
        (("a.csv", "b.csv", "--export", "json=a.csv/x.json"), "a.csv/x.json"),
    ],
)
def test_a_mistake_is_named_in_one_line_with_exit_code_2(
    folder: Path, kbench: Kbench, arguments: tuple[str, ...], named: str
) -> None:
    results(folder / "a.csv", BEFORE)
    results(folder / "b.csv", BEFORE)
    (folder / "text.csv").write_text("a,b\n1,2\n")
    ended = kbench("compare", *arguments)
    errors = [line for line in ended.err.splitlines() if line.startswith("error: ")]
    assert ended.code == 2 and len(errors) == 1 and named in errors[0]
    assert "Traceback" not in ended.err


def test_measured_files_of_the_same_code_have_no_changed_row(folder: Path, kbench: Kbench) -> None:
    """The committed files a and b are two runs of the same code on an H200, and `slowed` does 5 % more work."""
    pairs = ROOT / "results" / "h200" / "comparing"
    same = kbench("compare", pairs / "a" / "softmax.csv", pairs / "b" / "softmax.csv", "--fail-on", "slower,faster")
    assert same.code == 0 and "gate passed" in same.out
    slowed = kbench("compare", pairs / "a" / "softmax.csv", pairs / "slowed" / "softmax.csv", "--fail-on", "slower")
    assert slowed.code == 1 and "40 slower" in slowed.out
    itself = kbench("compare", *[pairs / "a" / "softmax.csv"] * 2, "--fail-on", "slower")
    assert itself.code == 0 and itself.out.startswith("+ gate passed: both sides are the same measurement")

"""What the page says: who wins, by how much, what is a tie, what failed, what differs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from report_rows import ENVIRONMENT, SIZES, report_row, rivals, save_results

from kbench.reporting.content import content

Say = Callable[..., dict[str, Any]]


def standing(said: dict[str, Any], curve: str, file: int = 0) -> dict[str, Any]:
    """The line of a provider in the summary's table, by column."""
    table = said["files"][file]["table"]
    columns = {
        each["name"]: each.get("values") or [each["words"][code] for code in each["codes"]] for each in table["columns"]
    }
    place = columns["curve"].index(curve)
    return {name: values[place] for name, values in columns.items()}


def test_the_summary_counts_wins_and_means_speed_ups(said: Say) -> None:
    slow = [report_row("second", 4096, 2.0, speedup=0.5), report_row("first", 4096, 1.0, speedup=1.0)]
    found = said([*rivals("first", "second"), *slow])
    second = standing(found, "second")
    assert (second["sole"], second["shared"], second["timed"]) == (4, 0, 5)
    assert second["geomean"] == pytest.approx((1.1**4 * 0.5) ** (1 / 5), rel=1e-5)
    assert second["record"] == "4/0/1"
    assert found["files"][0]["headline"] == ("second is fastest in 4 of 5 cases; 0.94x as fast as first (geomean).")


def test_what_lies_within_the_noise_is_a_tie(said: Say) -> None:
    rows = rivals("first")  # whose repeat control differs by 0.1 %
    rows += [report_row("near", n, n / 1e4 / 1.0005, speedup=1.0005) for n in SIZES]
    near = standing(said(rows), "near")
    assert (near["record"], near["sole"], near["shared"]) == ("0/4/0", 0, 4)


def test_what_the_rounds_disagree_about_cannot_be_told(said: Say) -> None:
    rows = [replace(r, round_ms=(r.ms or 0.0,) * 3) if r.provider == "first" else r for r in rivals("first")]
    rows += [report_row("near", n, n / 1e4 / 1.02, speedup=1.02) for n in SIZES]
    assert standing(said(rows), "near")["record"] == "4/0/0"
    spread = [replace(r, round_ms=tuple((r.ms or 0.0) * f for f in (0.97, 1.0, 1.04))) for r in rows]
    assert standing(said([*rows[:-4], *spread[-4:]]), "near")["record"] == "0/0/0/4"


def test_a_suspect_row_wins_nothing_and_is_in_no_mean(said: Say) -> None:
    rows = [*rivals("first", "second"), *(report_row("cheat", n, 1e-6, speedup=1e5, flags=("suspect",)) for n in SIZES)]
    cheat = standing(said(rows), "cheat")
    assert (cheat["sole"], cheat["geomean"], cheat["timed"]) == (0, None, 0)


def test_a_provider_without_rivals_is_not_called_the_fastest(said: Say) -> None:
    found = said(rivals("first"))
    assert not {"sole", "shared"} & standing(found, "first").keys()
    assert found["files"][0]["winners"]["count"] == 0


def test_over_a_suspect_baseline_there_is_no_speed_up(said: Say) -> None:
    rows = [
        report_row("first", 256, 1e-6, speedup=1.0, flags=("suspect",)),
        report_row("second", 256, 1.0, speedup=1e-6),
    ]
    assert standing(said(rows), "second")["geomean"] is None


def test_the_baseline_is_found_without_an_environment_file(said: Say) -> None:
    found = said(rivals("first", "second"), None)
    assert found["files"][0]["baseline"] == "first"
    assert found["machine"]["lines"] == []


def test_without_a_baseline_there_are_no_speed_ups(said: Say) -> None:
    found = said([report_row("a"), report_row("b")], {})
    assert found["files"][0]["baseline"] is None and "geomean" not in standing(found, "a")


def test_dtypes_have_means_of_their_own(said: Say) -> None:
    half = [report_row(name, 256, 1 / s, dtype="float16", speedup=s) for name, s in (("first", 1.0), ("second", 3.0))]
    second = standing(said([*rivals("first", "second"), *half]), "second")
    assert (second["geomean float32"], second["geomean float16"]) == (pytest.approx(1.1), 3.0)


def test_sessions_are_one_trial_each(said: Say) -> None:
    rows = [
        report_row(name, ms=ms, speedup=2.0 / ms, session=session)
        for session, factor in enumerate((1, 1.1, 5))
        for name, ms in (("first", 2.0), ("second", 1.0 * factor))
    ]
    second = standing(said(rows), "second")
    assert (second["timed"], second["geomean"]) == (1, pytest.approx(2 / 1.1, rel=1e-5))


def test_what_has_no_time_is_grouped_by_reason(said: Say) -> None:
    rows = [*rivals("first"), *(report_row("picky", n, status="unsupported", reason="N too odd") for n in SIZES)]
    rows.append(report_row("broken", status="wrong", reason="NaN\nat [0, 0]"))
    lost = said(rows)["lost"]
    assert [(each["curve"], each["status"], len(each["cases"])) for each in lost] == [
        ("broken", "wrong", 1),
        ("picky", "unsupported", 4),
    ]
    assert lost[0]["reason"] == "NaN at [0, 0]"


def test_only_what_differs_between_machines_is_marked(tmp_path: Path) -> None:
    newer = ENVIRONMENT | {"packages": {"torch": "2.12", "triton": "3.6"}, "started_at": "2027-01-01T00:00:00+00:00"}
    files = [
        save_results(tmp_path / "a.csv", rivals("first"), ENVIRONMENT),
        save_results(tmp_path / "b.csv", rivals("first"), newer),
    ]
    found = content(files)
    lines = [*found["machine"]["lines"], *found["method"]["lines"]]
    assert [(line["name"], line["values"]) for line in lines if line["differs"]] == [
        ("packages.torch", ["2.11", "2.12"])
    ]


def test_settings_and_config_are_shown(said: Say) -> None:
    found = said(rivals("first"))
    method = {line["name"]: line["values"] for line in found["method"]["lines"]}
    assert (method["rounds"], method["timer"], method["command"]) == (["5"], ["do_bench"], ["kbench run sweep.yaml"])
    assert found["configs"][0]["path"] == "sweep.yaml" and "operator: softmax" in found["configs"][0]["text"]


def test_words_that_occur_are_explained(said: Say) -> None:
    found = said([*rivals("first"), report_row("x", status="oom"), report_row("y", flags=("noisy",))])
    words = {each["word"] for each in found["words"]}
    assert {"ok", "oom", "noisy", "tie"} <= words and "timeout" not in words


def test_verdicts_are_those_of_compare(said: Say, tmp_path: Path) -> None:
    old = save_results(tmp_path / "old.csv", rivals("first", "second"), {})
    slower = [replace(r, ms=(r.ms or 0.0) * (1.5 if r.provider != "copy" else 1.0)) for r in rivals("first")]
    found = said(slower, baseline=f"before={old}")
    assert {each["word"]: each["count"] for each in found["comparison"]["counts"]} == {"slower": 4, "missing": 4}
    columns = {each["name"]: each for each in found["comparison"]["table"]["columns"]}
    assert columns["change"]["values"][:4] == [pytest.approx(0.5)] * 4
    assert columns["N"]["format"] == "size"
    assert "before" in found["comparison"]["title"]


def test_the_baseline_may_be_one_of_the_files(tmp_path: Path) -> None:
    old = save_results(tmp_path / "old.csv", rivals("first"), {})
    new = save_results(tmp_path / "new.csv", rivals("first"), {})
    found = content([old, new], baseline=old)
    assert [each["file"] for each in found["files"]] == ["old", "new"]
    assert (
        found["comparison"]["counts"] == [{"word": "unclear", "glyph": "?", "count": 4}]
        or found["comparison"]["counts"]
    )


def test_python_says_what_each_row_is_drawn_as_and_what_runs_along_x(said: Say) -> None:
    rows = [report_row("tuned", n, params=f"warps={warps}") for n in SIZES for warps in (1, 2, 4)]
    rows += [
        report_row("copy", 256, role="control"),
        report_row("repeat", 256, role="control"),
        report_row("tuned", 4096, status="oom"),
    ]
    found = said(rows)["plot"]
    drawn = {name: [column["words"][code] for code in column["codes"]] for name, column in found["kinds"].items()}
    assert drawn["gbps"] == ["value"] * 12 + ["value", "", "failed"]
    assert drawn["speedup"][-3:] == ["", "", "failed"]
    [sweep] = found["sweeps"]
    assert sweep["options"] == ["N", "warps"] and sweep["usual"]["gbps"] == "N"
    warps = found["parameters"]["warps"]
    assert warps["x"] == {
        "tuned[warps=1]": 1,
        "tuned[warps=2]": 2,
        "tuned[warps=4]": 4,
        "copy (control)": None,
        "tuned": None,
    }
    assert warps["line"]["tuned[warps=2]"] == "tuned[warps=*]"

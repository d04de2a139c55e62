"""The page as a file: what it says, what it weighs, and that text in it is never markup."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from report_rows import ENVIRONMENT, IMAGE, report_row, rivals, save_results

from kbench import reporting
from kbench.analysis.files import load_sources
from kbench.plotting import Choices, plot
from kbench.reporting.content import content
from kbench.reporting.inline import inline_svg
from kbench.reporting.table import page_table
from kbench.results.row import Row

Make = Callable[..., Path]


@pytest.fixture
def made(tmp_path: Path) -> Make:
    """The page on rows: `made(rows, environment={...}, baseline=path)`."""

    def made(rows: Sequence[Row], environment: dict[str, Any] | None = ENVIRONMENT, **options: Any) -> Path:
        path = save_results(tmp_path / "softmax.csv", rows, environment)
        return reporting.write_report([path], tmp_path / "report.html", **options)

    return made


def test_a_column_of_numbers_is_known_by_its_cells_and_an_empty_column_is_left_out() -> None:
    columns = {
        "provider": ["a", "b", "a"],
        "time": ["1.5", "", "1,024"],
        "change": ["+5.3%", "-", "-0.1%"],
        "record": ["1/0/2", "-", ""],
        "empty": ["", "", ""],
        "dtype": ["float16", "float16", "float16"],
    }
    table = page_table(columns, ["provider", "dtype", "empty"])
    numeric = dict(zip(table.heads, table.numeric, strict=True))
    assert numeric == {"provider": False, "time": True, "change": True, "record": False, "dtype": False}
    assert table.choices == {"provider": ["a", "b"]}


def test_what_has_no_time_is_grouped_by_reason(tmp_path: Path) -> None:
    rows = [*rivals("first"), *(report_row("picky", n, status="unsupported", reason="N too odd") for n in (256, 512))]
    rows.append(report_row("broken", status="wrong", reason="NaN\nat [0, 0]"))
    lost = content([save_results(tmp_path / "x.csv", rows)])["lost"]
    assert [(each["provider"], each["reason"], len(each["cases"])) for each in lost] == [
        ("broken", "NaN at [0, 0]", 1),
        ("picky", "N too odd", 2),
    ]


def test_only_what_differs_between_machines_is_marked(tmp_path: Path) -> None:
    newer = ENVIRONMENT | {"packages": {"torch": "2.12", "triton": "3.6"}, "started_at": "2027-01-01T00:00:00+00:00"}
    files = [
        save_results(tmp_path / f"{name}.csv", rivals("first"), environment)
        for name, environment in (("a", ENVIRONMENT), ("b", newer))
    ]
    found = content(files)
    assert [line for line in found["measurement"][1] if line[-1]] == [["packages.torch", "2.11", "2.12", "≠ differs"]]
    assert found["runs"][0]["command"] == "kbench run sweep.yaml" and "operator: softmax" in found["runs"][0]["text"]


def test_words_that_occur_are_explained(tmp_path: Path) -> None:
    rows = [*rivals("first"), report_row("x", status="oom"), report_row("y", flags=("noisy",))]
    words = content([save_results(tmp_path / "x.csv", rows)])["words"]
    assert {"ok", "oom", "noisy", "tie"} <= words.keys() and "timeout" not in words


def test_a_picture_names_the_value_of_each_point_and_takes_its_colours_from_the_page(tmp_path: Path) -> None:
    rows = rivals("first", "second", IMAGE)
    [drawn] = plot(load_sources([save_results(tmp_path / "x.csv", rows, ENVIRONMENT)]), Choices("ms"))
    picture = inline_svg(drawn)
    assert "<title>second · N=256\ntime (µs): 23.27 (" in picture
    assert picture.count("<title>") == 16 and "copy (control) · N=2048" in picture
    assert "<img" not in picture and "&lt;img src=x" in picture
    assert "stroke:var(--line" in picture and re.findall(r"[: ]#[0-9a-f]{6}\b", picture) == []


def test_a_title_that_is_not_unicode_is_written(made: Make) -> None:
    assert "<title>page ?</title>" in made(rivals("first"), title="page \udcff").read_text()

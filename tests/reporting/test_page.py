"""The page as a file: what it says, and that text in it is never markup."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from common import Kbench
from history.nights import Night, history
from plotting.drawing import H200, NS, case, copies, drawn_row, save, sweep

from kbench import reporting
from kbench.analysis.files import load_sources
from kbench.plotting import Choices, plot
from kbench.reporting.content import content
from kbench.reporting.inline import inline_svg
from kbench.reporting.table import page_table
from kbench.results.row import Row

IMAGE = '"><img src=x onerror=alert(1)>'
"""A name that has an effect if a browser takes it for markup."""

CONFIG = {"path": "sweep.yaml", "sha": "abc", "text": "operator: softmax  # </pre><script>alert(1)</script>\n"}


def saved(path: Path, rows: Iterable[Row], **environment: Any) -> Path:
    return save(
        path, rows, environment={**H200, "command": ["kbench", "run", "sweep.yaml"], "config": CONFIG, **environment}
    )


def test_a_column_of_numbers_is_known_by_its_cells_and_an_empty_column_is_left_out() -> None:
    columns = {
        "provider": ["a", "b", "a"],
        "time": ["1.5", "", "1,024"],
        "change": ["+5.3%", "-", "-0.1%"],
        "record": ["1/0/2", "-", ""],
        "empty": ["", "", ""],
        "dtype": ["float16", "float16", "float16"],
    }
    table = page_table(columns.items(), ["provider", "dtype", "empty"])
    numeric = dict(zip(table.heads, table.numeric, strict=True))
    assert numeric == {"provider": False, "time": True, "change": True, "record": False, "dtype": False}
    assert table.choices == {"provider": ["a", "b"]}


def test_what_has_no_time_is_grouped_by_reason_and_words_that_occur_are_explained(tmp_path: Path) -> None:
    rows = [*sweep("first", flags=("noisy",)), drawn_row(case(256), "broken", status="wrong", reason="NaN\nat [0, 0]")]
    rows += [drawn_row(case(n), "picky", status="unsupported", reason="N too odd") for n in (256, 512)]
    page = content([saved(tmp_path / "x.csv", rows)])
    assert [(group["provider"], group["reason"], len(group["cases"])) for group in page["lost"]] == [
        ("broken", "NaN at [0, 0]", 1),
        ("picky", "N too odd", 2),
    ]
    assert {"ok", "wrong", "noisy", "tie"} <= page["words"].keys() and "timeout" not in page["words"]


def test_only_what_differs_between_machines_is_marked(tmp_path: Path) -> None:
    newer = {"packages": {"torch": "2.12", "triton": "3.6"}, "started_at": "2027-01-01T00:00:00+00:00"}
    page = content([saved(tmp_path / "a.csv", sweep("first")), saved(tmp_path / "b.csv", sweep("first"), **newer)])
    assert [line for line in page["measurement"][1] if line[-1]] == [["packages.torch", "2.11", "2.12", "≠ differs"]]
    assert page["runs"][0]["command"] == "kbench run sweep.yaml" and "operator: softmax" in page["runs"][0]["text"]


def test_a_picture_names_the_value_of_each_point_and_takes_its_colours_from_the_page(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.csv", [*sweep("first", IMAGE), *copies()])
    [drawn] = plot(load_sources([path]), Choices("ms"))
    picture = inline_svg(drawn)
    assert "<title>first · N=256\ntime (µs): 2.56 (2.304 to 3.072)" in picture
    assert picture.count("<title>") == 3 * len(NS) and "copy (control) · N=2048" in picture
    assert "<img" not in picture and "&lt;img src=x" in picture
    assert "stroke:var(--line" in picture and re.findall(r"[: ]#[0-9a-f]{6}\b", picture) == []


def test_a_title_that_is_not_unicode_is_written(tmp_path: Path) -> None:
    page = reporting.write_report([saved(tmp_path / "x.csv", sweep("a"))], tmp_path / "r.html", title="page \udcff")
    assert "<title>page ?</title>" in page.read_text()


@pytest.mark.parametrize("more", [["a.csv"], ["--baseline", "a.csv"]])
def test_a_history_stands_alone(kbench: Kbench, tmp_path: Path, more: list[str]) -> None:
    history(tmp_path, 1)
    (tmp_path / "a.csv").write_text("")
    done = kbench("report", "history", *more)
    assert done.returncode == 2 and "takes it for a history" in done.stderr


def test_a_history_without_a_time_has_a_page(tmp_path: Path) -> None:
    history(tmp_path, 2, lambda number: Night(statuses={"mine": "error", "torch": "oom"}))
    page = reporting.write_history_report(tmp_path / "history", tmp_path / "page.html").read_text()
    assert "No reading has a time." in page and "Nothing changed." in page

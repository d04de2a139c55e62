"""`kbench report DIR`: a page on a history."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from common import Kbench
from history.nights import Night, history
from report_rows import IMAGE, SCRIPT

from kbench import reporting

View = Callable[..., Any]
DATA = re.compile(r'<script type="application/json" id="content">(.*?)</script>', re.DOTALL)


def night(number: int) -> Night:
    torch = {"torch": "2.10.0" if number >= 12 else "2.9.0"}
    wrong = {"torch": "wrong"} if number == 19 else {}
    return Night(factors={"mine": 1.1 if number >= 12 else 1.0}, environment={"packages": torch}, statuses=wrong)


def test_the_command_writes_a_page_on_a_history(kbench: Kbench, tmp_path: Path) -> None:
    history(tmp_path, 20, night)
    done = kbench("report", "history", "-o", "page.html", "--where", "N>=512", "--title", "nights")
    assert (done.returncode, done.stdout, done.stderr) == (0, "page.html\n", "")
    [data] = DATA.findall((tmp_path / "page.html").read_text())
    content = json.loads(data)
    assert content["title"] == "nights" and content["lede"].startswith(
        "20 runs from 2026-09-01 to 2026-09-20: 4 series"
    )
    assert [(each["word"], each["count"]) for each in content["counts"]] == [("slower", 2), ("failed", 2)]
    assert set(content["pictures"][0]) == {"title", "light", "dark"}
    assert content["changes"]["count"] == 4 and content["series"]["count"] == 4


@pytest.mark.parametrize("more", [["a.csv"], ["--baseline", "a.csv"]])
def test_a_history_stands_alone(kbench: Kbench, tmp_path: Path, more: list[str]) -> None:
    history(tmp_path, 1)
    (tmp_path / "a.csv").write_text("")
    done = kbench("report", "history", *more)
    assert done.returncode == 2 and "takes it for a history" in done.stderr


def test_a_folder_that_is_no_history_is_an_error(kbench: Kbench, tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    done = kbench("report", "results")
    assert done.returncode == 2 and "results: no results of a provider here" in done.stderr


def test_text_of_a_history_is_never_markup(tmp_path: Path) -> None:
    history(tmp_path, 1, lambda number: Night(providers=(IMAGE, SCRIPT)))
    text = reporting.write_history_report(tmp_path / "history", tmp_path / "page.html").read_text()
    assert SCRIPT not in text and IMAGE not in text


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_reader_sees_pictures_changes_and_series(tmp_path: Path, view: View, scheme: str) -> None:
    history(tmp_path, 20, night)
    page = view(reporting.write_history_report(tmp_path / "history", tmp_path / "page.html"), scheme=scheme)
    assert page.locator("#contents").inner_text().split("\n") == [
        "Over time",
        "Changes",
        "All series",
        "How to read it",
    ]
    shown = page.locator("#pictures img:visible")
    assert shown.count() == 1 and shown.evaluate("image => image.naturalWidth") > 500
    assert "! 3 slower" in page.locator("#changes .chips").inner_text()
    assert "stack: torch 2.9.0 -> 2.10.0" in page.locator("#changes table").inner_text()
    page.get_by_label("kind in changes").select_option("failed")
    assert "3 of 6 rows" in page.locator("#changes .count").inner_text()
    assert page.locator("#series td.failed").all_inner_texts() == ["wrong"] * 3


@pytest.mark.slow
def test_a_history_without_a_time_has_a_page(tmp_path: Path, view: View) -> None:
    history(tmp_path, 2, lambda number: Night(statuses={"mine": "error", "torch": "oom"}))
    page = view(reporting.write_history_report(tmp_path / "history", tmp_path / "page.html"))
    assert "No reading has a time." in page.locator("#pictures").inner_text()
    assert "Nothing changed." in page.locator("#changes").inner_text()

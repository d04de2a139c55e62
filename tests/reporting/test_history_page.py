"""`kbench report DIR`: a page on a history."""

from __future__ import annotations

from pathlib import Path

import pytest
from common import Kbench
from history.nights import Night, history

from kbench import reporting


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

"""Results that no run writes. The outcome is a page or an error of one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_rows import report_row, save_results

from kbench import plotting, reporting
from kbench.errors import UsageError


def test_a_reason_of_any_length_is_cut(tmp_path: Path) -> None:
    path = save_results(tmp_path / "x.csv", [report_row("a"), report_row("b", status="error")])
    text = path.read_text()
    path.write_text(text.replace("it is so", 33_000 * "no "))
    page = reporting.write_report([path], tmp_path / "r.html").read_text()
    assert "no no no" in page and "characters)" in page and page.count("no no no") < 5000


def test_too_many_curves_for_a_picture(tmp_path: Path) -> None:
    path = save_results(tmp_path / "x.csv", [report_row(f"provider{n}", ms=1 + n / 1000) for n in range(300)])
    with pytest.raises(UsageError, match="300 curves are too many for a picture, the limit is 200; choose some with"):
        plotting.write_pictures(path)

"""Results that no run writes. The outcome is a page or an error of one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_rows import report_row, rivals, save_results

from kbench import plotting, reporting
from kbench.errors import UsageError
from kbench.plotting.names import natural
from kbench.reporting.content import content


@pytest.mark.parametrize("speedup", [-1.0, float("inf")])
def test_a_speedup_that_cannot_be(tmp_path: Path, speedup: float) -> None:
    path = save_results(
        tmp_path / "x.csv", [report_row("a", speedup=1.0), report_row("b", speedup=speedup)], {"baseline": "a"}
    )
    assert "files" in content([path])


@pytest.mark.slow
def test_a_name_of_thousands_of_digits(tmp_path: Path) -> None:
    path = save_results(
        tmp_path / "x.csv", [report_row("9" * 5000), report_row("a"), report_row("a" + 4400 * "1")], {"baseline": "a"}
    )
    assert 5000 * "9" in reporting.write_report([path], tmp_path / "r.html", baseline=path).read_text()
    assert len(plotting.write_pictures(path, formats=["png"])) == 1


def test_natural_order() -> None:
    names = ["b10", "b2", "w=4,s=10", "w=16,s=1", "w=4,s=9", "a", "007", "7", "8", "٣"]
    assert natural(names) == ["007", "7", "8", "a", "b2", "b10", "w=4,s=9", "w=4,s=10", "w=16,s=1", "٣"]


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


@pytest.mark.parametrize(
    "environment",
    [
        {"peak_gbps": float("inf")},
        {"driver": "\x1b]0;owned\x07"},
        {"packages": [], "measure": 3, "git": "x", "config": 7, "plugin_errors": {}, "command": "x", "baseline": {}},
    ],
)
def test_nonsense_beside_the_file_is_noted(tmp_path: Path, environment: dict[str, object]) -> None:
    path = save_results(tmp_path / "x.csv", rivals("first", "second", ns=[256, 512]), environment)
    reporting.write_report([path], tmp_path / "r.html")
    [picture] = plotting.write_pictures(path, formats=["svg"])
    [page] = content([path])["files"]
    noted = "not an environment file" in " ".join(page["caveats"])
    assert noted is ("driver" not in environment)
    assert "owned\x07" not in picture.read_text()

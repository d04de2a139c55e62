"""Names and reasons that are meant for somebody else: for GitHub's runner, for a spreadsheet, for a terminal."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path

import pytest

from kbench.cli import app
from kbench.comparison.compare import compare_results
from kbench.comparison.formats import FORMATS
from kbench.comparison.formats import github as actions
from kbench.execute.writer import Writer
from kbench.results.case import Case
from kbench.results.row import Row
from kbench.results.vocabulary import Status
from kbench.text.streams import Stream

PROVIDERS = ("::add-mask::a", "=HYPERLINK(1)", "+cmd", "-cmd", "@SUM(1)", "a%0A::error::b", "##[error]c")


def written(path: Path, ms: float) -> str:
    """A file that kbench has not made: it would have refused the names."""
    case = Case("::stop-commands::x", {"M": 8, "N": 64}, "float32")
    rows = [Row(case, name, ms=ms, gbps=1.0, round_ms=(ms, ms), reason="", device="D") for name in PROVIDERS]
    lost = [Row(case, "lost", status=Status.ERROR, reason=f"{'x ' * 45}::error file=a.py::owned")]
    writer = Writer(path, ("M", "N"))
    writer.write(rows + lost)
    return str(path)


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    monkeypatch.chdir(tmp_path)
    return written(Path("old.csv"), 0.1), written(Path("new.csv"), 0.3)


@pytest.mark.slow
@pytest.mark.parametrize("export", ["", "markdown=-", "csv=-"])
def test_no_line_of_a_comparison_is_a_command(
    pair: tuple[str, str], export: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["--export", export] if export else []
    monkeypatch.setattr(sys, "stdout", Stream(sys.stdout))
    assert app(["compare", *pair, *options], standalone_mode=False) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 5
    assert [line for line in lines if line.lstrip().startswith("::") or "##[" in line] == []


def test_annotations_are_kbenchs_own_and_one_line_each(pair: tuple[str, str]) -> None:
    told = FORMATS["github"](compare_results(*pair))
    lines = told.splitlines()
    assert len(lines) > len(PROVIDERS)
    for line in lines:
        assert line.startswith(
            ("::error title=kbench compare%3A ", "::warning title=kbench ", "::notice title=kbench ")
        )
        assert "%0A" not in line.replace("%250A", "") and line.isprintable()


def test_outputs_are_one_line_each(pair: tuple[str, str]) -> None:
    for line in actions.outputs(compare_results(*pair)).splitlines():
        assert "=" in line and line.isprintable()


def test_no_cell_of_an_exported_comparison_is_a_formula(pair: tuple[str, str]) -> None:
    text = FORMATS["csv"](compare_results("+old=" + pair[0], "@new=" + pair[1]))
    words = [cell for row in csv.reader(io.StringIO(text)) for cell in row if not _number(cell)]
    assert "'=HYPERLINK(1)" in words and "'@SUM(1)" in words
    assert [cell for cell in words if cell.startswith(("=", "+", "-", "@"))] == []


def _number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True

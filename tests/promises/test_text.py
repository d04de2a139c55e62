"""Text of a stranger's results file is text: no command to GitHub, no formula, no escape code, wherever it is shown."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from promises.outside import Kbench, write_results

NAMES = (
    "::add-mask::a",
    "=HYPERLINK(1)",
    "@SUM(1)",
    "a%0A::error::b",
    "##[error]c",
    "\x1b[2Jd",
    "<script>![x](y)",
    "e|f",
)


@pytest.fixture
def pair(folder: Path) -> tuple[str, str]:
    """Two results files with such names; the second one is three times as slow."""
    for name, ms in (("old.csv", 1.0), ("new.csv", 3.0)):
        write_results(folder / name, [{"provider": provider, "ms": ms, "N": 64} for provider in NAMES])
    return "old.csv", "new.csv"


COMPARE = "compare old.csv new.csv"


def test_no_printed_line_is_a_command_to_github_or_moves_the_cursor(kbench: Kbench, pair: tuple[str, str]) -> None:
    for command in ("show old.csv", COMPARE, f"{COMPARE} --export markdown=-", f"{COMPARE} --export csv=-"):
        ended = kbench(*command.split())
        lines = ended.out.splitlines()
        assert len(lines) > 5 and "\x1b" not in ended.text, command
        assert [line for line in lines if line.lstrip().startswith("::") or "##[" in line] == [], command


def test_an_annotation_of_github_is_one_line(kbench: Kbench, pair: tuple[str, str]) -> None:
    ended = kbench("compare", *pair, "--github", "--fail-on", "slower")
    lines = [line for line in ended.out.splitlines() if line.startswith("::")]
    begins = tuple(f"::{level} title=kbench compare" for level in ("error", "warning", "notice"))
    assert len(lines) > len(NAMES) and all(line.startswith(begins) for line in lines)
    assert any(line.startswith("::error") for line in lines) and any("a%250A" in line for line in lines)


def test_markdown_holds_no_html_no_picture_and_no_mention_and_no_exported_cell_is_a_formula(
    kbench: Kbench, pair: tuple[str, str], folder: Path
) -> None:
    written = kbench("compare", *pair, "--export", "markdown=-").out
    assert "<script" not in written and "![x](" not in written and "script" in written
    assert "@SUM" not in written and "e|f" not in written and "e\\|f" in written
    kbench("compare", *pair, "--export", "csv=c.csv")
    with (folder / "c.csv").open(newline="") as file:
        cells = [cell for row in csv.DictReader(file) for cell in (row["provider"], row["reason"])]
    assert "'=HYPERLINK(1)" in cells and not any(cell.startswith(("=", "@")) for cell in cells)

"""Charts for a terminal: letters that need no colour, lines that fit, plain text for pipes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from drawing import NS, case, copies, drawn_row, save, sweep

from kbench.analysis.files import load_sources
from kbench.plotting import Choices, terminal_charts
from kbench.plotting.terminal import LEAST_WIDTH, LINES_OF_A_CHART
from kbench.results.row import Row


@pytest.fixture
def chart(tmp_path: Path) -> Any:
    def chart(*rows: Row, width: int = 80, plain: bool = True, **choices: Any) -> str:
        path = save(tmp_path / "softmax.csv", rows)
        return "\n\n".join(terminal_charts(load_sources([path]), Choices(**choices), width, plain=plain))

    return chart


def test_a_curve_is_a_letter_with_its_name_and_last_value_below(chart: Any) -> None:
    rows = [drawn_row(case(n), name, gbps=speed) for n in NS for name, speed in (("cuda", 3000.0), ("triton", 1000.0))]
    text = chart(*rows, *copies(gbps=4000.0))
    assert "softmax - float32 - M=4096\nGB/s\n" in text
    assert re.findall(r"^  (\S)  (.*)$", text, re.MULTILINE) == [
        ("=", "copy (control): 4000"),
        ("A", "cuda: 3000"),
        ("B", "triton: 1000"),
    ]
    drawn = text.splitlines()[2 : 2 + LINES_OF_A_CHART]
    heights = {letter: i for i, line in enumerate(drawn) for letter in "=AB" if line.count(letter) == len(NS)}
    assert heights["="] < heights["A"] < heights["B"]
    assert "256" in drawn[-1] and "4K" in drawn[-1]


@pytest.mark.slow
def test_plain_text_is_ascii_and_fits(chart: Any) -> None:
    for width in (40, 80, 120):
        for choices in ({}, {"metric": "ms"}, {"kind": "bars"}, {"kind": "heatmap"}):
            text = chart(*sweep("triton", "cuda"), *copies(), width=width, **choices)
            assert text.isascii() and "\x1b" not in text
            assert max(map(len, text.splitlines())) <= max(width, LEAST_WIDTH)


def test_a_terminal_gets_colour_and_the_same_letters(chart: Any) -> None:
    rows = [*sweep("triton", "cuda"), *copies()]
    coloured = chart(*rows, plain=False)
    assert "\x1b[" in coloured
    bare = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    names = re.compile(r"^  \S  .*$", re.MULTILINE)
    assert names.findall(bare) == names.findall(chart(*rows)) != []


def test_what_failed_and_what_says_little_is_told(chart: Any) -> None:
    rows = [drawn_row(case(n), "cuda", flags=("overhead-bound",) if n == 256 else ()) for n in NS]
    liger = [drawn_row(case(n), "liger", gbps=500.0, status="unsupported" if n > 512 else "ok") for n in NS]
    cheat = [drawn_row(case(n), "cheat", gbps=1e6, flags=("suspect",)) for n in NS]
    text = chart(*rows, *liger, *cheat)
    assert "liger: 500, unsupported at N=1024, 2048, 4096" in text
    assert "cheat: suspect at N=256, 512, 1024, ..." in text
    assert "points in small letters have a flag: overhead-bound" in text
    assert any(line.count("b") == 1 and line.count("B") >= 3 for line in text.splitlines())


def test_bars_and_winners(chart: Any) -> None:
    rows = [drawn_row(case(256), name, gbps=speed, ms=1 / speed) for name, speed in (("slow", 100.0), ("fast", 200.0))]
    bars = chart(*rows, drawn_row(case(256), "bad", status="wrong"))
    fast, slow, bad = bars.splitlines()[2:5]
    assert fast.startswith("fast |##") and fast.endswith("200") and fast.count("#") == 2 * slow.count("#")
    assert bad.strip() == "bad |wrong"
    table = chart(
        *rows, *(drawn_row(case(512), name, ms=ms) for name, ms in (("slow", 1.0), ("fast", 3.0))), kind="heatmap"
    )
    assert "N    fastest\n256  fast 2.00x\n512  slow 3.00x\n" in table


def test_a_map_of_winners_is_a_line_per_case(chart: Any) -> None:
    rows = [drawn_row(case(n, m), "a-name-of-some-length", ms=1.0) for n in (256, 512) for m in range(1, 13)]
    text = chart(*rows, kind="heatmap", x="N")
    assert "N    M   fastest\n256  1   a-name-of-some-length alone\n" in text

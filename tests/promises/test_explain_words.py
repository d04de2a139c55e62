"""`kbench explain` knows the words that other commands print."""

from __future__ import annotations

from pathlib import Path

import pytest

from promises.outside import Kbench, MadeOnce, run_kbench, write_results

CHECKS = {
    "softmax": ("softmax", "--only", "torch-native", "--set", "M=4", "--set", "N=8", "--set", "dtype=float32"),
    "rmsnorm": ("rmsnorm", "--only", "torch-native", "--set", "M=4", "--set", "N=8", "--set", "mode=backward",
                "--set", "dtype=float32"),
}  # fmt: skip


@pytest.fixture(params=CHECKS)
def printed_inputs(request: pytest.FixtureRequest, made_once: MadeOnce) -> list[str]:
    """The first column of the table of `kbench check`."""
    name = request.param

    def make(folder: Path) -> None:
        ended = run_kbench("check", *CHECKS[name], folder=folder)
        assert ended.code == 0, ended.text
        (folder / "out").write_text(ended.out)

    lines = (made_once(f"check-{name}", make) / "out").read_text().splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith("input "))
    width = lines[head].index("torch-native")
    cells = [line[:width].strip() for line in lines[head + 1 : lines.index("", head)]]
    return [cell for cell in cells if cell]


def test_every_input_that_check_prints_is_explained(printed_inputs: list[str], kbench: Kbench) -> None:
    assert len(printed_inputs) > 3 and "random" in printed_inputs
    for name in printed_inputs:
        ended = kbench("explain", name)
        assert ended.code == 0 and ended.out.startswith(name), ended.text


def test_odd_columns_says_which_columns_they_are(kbench: Kbench) -> None:
    ended = kbench("explain", "odd", "columns")
    assert ended.code == 0 and "one column is left out if it was even" in " ".join(ended.out.split())


def test_words_of_a_comparison_are_explained(folder: Path, kbench: Kbench) -> None:
    for name, times in (("old", 1.0), ("new", 1.2)):
        measured = ({"N": n, "session": s, "ms": times * n * (1 + s / 1000)} for n in range(1, 7) for s in range(3))
        rows = [
            row | who
            for row in measured
            for who in ({"provider": "a"}, {"provider": "copy", "role": "control", "ms": 1})
        ]
        write_results(folder / f"{name}.csv", rows)
    printed = kbench("compare", "old.csv", "new.csv").out
    for word in ("machine drift", "95% interval", "q", "verdict", "slower", "geomean", "sessions", "margin"):
        assert word in printed
        assert kbench("explain", word).code == 0, word


def test_a_word_that_nothing_prints_is_refused_with_a_near_one(kbench: Kbench) -> None:
    ended = kbench("explain", "odd colums")
    assert ended.code == 2 and "odd columns" in ended.err

"""`--out` makes a folder. Commands that read results take the folder for the only results file in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from promises.outside import Kbench, write_results

SIZES = (1024, 2048, 4096)


@pytest.fixture
def folders(folder: Path) -> Path:
    """`base` and `head` have one results file each, `both` has two, `none` has none."""
    for name, factor in (("base", 1.0), ("head", 1.1)):
        rows = [
            {"provider": "mine", "N": n, "session": session, "ms": factor * n * (1 + 0.001 * session), "gbps": 10}
            for n in SIZES
            for session in range(3)
        ]
        write_results(folder / name / "softmax.csv", rows)
        write_results(folder / "both" / f"{name}.csv", rows)
    (folder / "base" / "softmax.20261120-100000.csv").write_text("a run that was moved aside\n")
    (folder / "none").mkdir()
    return folder


def test_compare_takes_folders(kbench: Kbench, folders: Path) -> None:
    ended = kbench("compare", "base", "head", "--fail-on", "slower")
    assert ended.code == 1 and ended.out.count("! slower") == len(SIZES)
    labelled = kbench("compare", "old=base", "new=head", "--fail-on", "slower")
    assert labelled.code == 1 and "new against old" in labelled.out


def test_show_and_plot_take_folders(kbench: Kbench, folders: Path) -> None:
    shown = kbench("show", "head")
    assert shown.code == 0 and "head/softmax.csv" in shown.out
    drawn = kbench("plot", "base", "head", "--format", "svg", "--out", "pictures")
    assert drawn.code == 0 and list((folders / "pictures").glob("*.svg"))


def test_a_folder_with_several_results_files_lists_them(kbench: Kbench, folders: Path) -> None:
    for command in (["show", "both"], ["compare", "both", "head"], ["plot", "both"]):
        ended = kbench(*command)
        assert ended.code == 2 and "both/base.csv" in ended.err and "both/head.csv" in ended.err


def test_a_folder_without_results_is_named(kbench: Kbench, folders: Path) -> None:
    for command in (["show", "none"], ["compare", "none", "head"], ["plot", "none"]):
        ended = kbench(*command)
        assert ended.code == 2 and "none: no results file" in ended.err

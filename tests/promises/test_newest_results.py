"""Commands without a file read the newest results in `results/`."""

from __future__ import annotations

import os
from pathlib import Path

from promises.outside import Kbench, write_results


def test_an_exported_comparison_beside_the_results_is_not_taken_for_them(folder: Path, kbench: Kbench) -> None:
    for name, ms in (("a.csv", 1.0), ("results/softmax.csv", 1.5)):
        write_results(folder / name, [{"provider": "mine", "ms": ms}])
    exported = kbench("compare", "a.csv", "results/softmax.csv", "--export", "csv=results/changes.csv")
    assert exported.code == 0, exported.text
    os.utime(folder / "results/softmax.csv", (1000, 1000))  # the export is the newer one
    ended = kbench("show")
    assert ended.code == 0 and "results/softmax.csv" in ended.out, ended.text


def test_a_folder_without_results_says_how_to_make_some(folder: Path, kbench: Kbench) -> None:
    (folder / "results").mkdir()
    (folder / "results" / "other.csv").write_text("name,value\na,1\n")
    ended = kbench("show")
    assert ended.code == 2 and "kbench run" in ended.err

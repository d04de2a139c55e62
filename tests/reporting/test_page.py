"""The tables of the page: which columns are numbers, and what differs between machines."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from plotting.drawing import H200, save, sweep

from kbench.reporting.content import content
from kbench.reporting.parts import page_table
from kbench.results.row import Row

CONFIG = {"path": "sweep.yaml", "sha": "abc", "text": "operator: softmax\n"}


def saved(path: Path, rows: Iterable[Row], **environment: Any) -> Path:
    return save(
        path, rows, environment={**H200, "command": ["kbench", "run", "sweep.yaml"], "config": CONFIG, **environment}
    )


def test_a_column_of_numbers_is_known_by_its_cells_and_an_empty_column_is_left_out() -> None:
    columns = {
        "provider": ["a", "b", "a"],
        "time": ["1.5", "", "1,024"],
        "change": ["+5.3%", "-", "-0.1%"],
        "record": ["1/0/2", "-", ""],
        "day": ["2026-11-20", "2026-11-21", ""],
        "empty": ["", "", ""],
        "dtype": ["float16", "float16", "float16"],
    }
    table = page_table(list(columns.items()))
    numeric = dict(zip(table.header, table.numeric, strict=True))
    assert numeric == {"provider": False, "time": True, "change": True, "record": True, "day": False, "dtype": False}


def test_only_what_differs_between_machines_is_marked(tmp_path: Path) -> None:
    newer = {"packages": {"torch": "2.12", "triton": "3.6"}, "started_at": "2027-01-01T00:00:00+00:00"}
    page = content([saved(tmp_path / "a.csv", sweep("first")), saved(tmp_path / "b.csv", sweep("first"), **newer)])
    assert [line for line in page["measurement"].rows if line[-1]] == [["packages.torch", "2.11", "2.12", "≠ differs"]]
    assert page["runs"][0]["command"] == "kbench run sweep.yaml" and "operator: softmax" in page["runs"][0]["text"]

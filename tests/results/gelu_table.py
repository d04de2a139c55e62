"""A results file of GELU that tests write and damage, and how it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbench.errors import ResultsError
from kbench.execute.writer import Writer
from kbench.results.case import Case
from kbench.results.reader import read_results
from kbench.results.row import Row


def gelu_row(n: int = 1024, **fields: object) -> Row:
    case = Case("gelu", {"M": 64, "N": n, "approximate": "tanh"}, "float32")
    return Row(case, "triton", **{"ms": 0.1234567890123456789, "samples": 80, **fields})  # type: ignore[arg-type]


def write_gelu_rows(path: Path, *rows: Row) -> Path:
    writer = Writer(path, ("M", "N", "approximate"))
    writer.write(list(rows))
    return path


def refuses(path: Path, *words: str) -> None:
    with pytest.raises(ResultsError) as caught:
        read_results(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(path))
    for word in words:
        assert word in message


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))

"""What a provider, a device or a worker says of itself becomes a row that every reader of the CSV can show."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbench.execute.writer import Writer
from kbench.protocol import Rows, decode, encode
from kbench.results.case import Case
from kbench.results.reader import read_results
from kbench.results.row import Row
from kbench.results.vocabulary import Status
from kbench.text.printable import REASON_LIMIT

CASE = Case("softmax", {"M": 8, "N": 64}, "float32")

A_ROW = 'fine"\nsoftmax,torch-native,,8,64,float32,provider,0,ok,' + "," * 40 + '"'

REASONS = {
    "300 KB": "x" * 300_000,
    "a row": A_ROW,
    "escapes": "\x1b]0;owned\x07\x1b[2Jgone\r\nover",
    "a lone surrogate": "a\udcffb",
    "lines of Unicode": "a\u2028b\u2029c\x85d",
}


@pytest.mark.parametrize("reason", REASONS.values(), ids=REASONS)
def test_a_reason_is_one_line_that_files_and_tables_can_hold(reason: str, tmp_path: Path) -> None:
    sent = Rows((Row(CASE, "mine", status=Status.ERROR, reason=reason),))
    message = decode(encode(sent, "secret"), "secret")
    assert isinstance(message, Rows)
    [row] = message.rows
    assert row.reason and row.reason.isprintable() and len(row.reason) < REASON_LIMIT + 50

    writer = Writer(tmp_path / "s.csv", ("M", "N")).begin()
    writer.write([row, Row(CASE, "other", ms=0.1)])
    assert (tmp_path / "s.csv").read_text().count("\n") == 3
    first, second = read_results(tmp_path / "s.csv").rows
    assert (first.provider, second.provider) == ("mine", "other") and first.reason == row.reason

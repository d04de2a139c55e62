"""What a run prints while it works, where stderr is not a terminal."""

from __future__ import annotations

import time

import pytest
from making import row
from stand_in import task

from kbench.execute.progress import PlainProgress


def test_the_time_left_does_not_count_what_the_first_case_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its worker starts, and CUDA extensions are built: 60 s here, and 2 s for each case after it."""
    progress = PlainProgress(5)
    for seconds in (60.0, 62.0, 64.0, 66.0, 68.0):
        monkeypatch.setattr(time, "monotonic", lambda now=seconds: now)
        progress.end(task(), [row(ms=0.1)])
    ends = [line.rsplit(" ", 3)[1:] for line in capsys.readouterr().err.splitlines()]
    assert ends[0][-1] != "left)"
    assert ends[1:] == [["(6", "s", "left)"], ["(4", "s", "left)"], ["(2", "s", "left)"], ["(0", "s", "left)"]]

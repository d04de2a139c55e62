"""What a run prints while it works, where stderr is not a terminal."""

from __future__ import annotations

import time

import pytest
from making import row
from stand_in import task

from kbench.execute.progress import PlainProgress, describe_fastest


def test_the_time_left_does_not_count_what_the_first_case_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its worker starts, and CUDA extensions are built: 60 s here, and 2 s for each case after it."""
    progress = PlainProgress(5)
    for seconds in (60.0, 62.0, 64.0, 66.0, 68.0):
        monkeypatch.setattr(time, "monotonic", lambda now=seconds: now)
        progress.end(task(), [row(ms=0.1)])
    ends = [line.rsplit(" ", 3)[1:] for line in capsys.readouterr().err.splitlines()]
    assert ends[1:4] == [["(6", "s", "left)"], ["(4", "s", "left)"], ["(2", "s", "left)"]]
    assert "left)" not in (ends[0][-1], ends[4][-1])


@pytest.mark.parametrize("gbps, text", [(0.412, "0.412 GB/s"), (4262.7, "4263 GB/s")])
def test_a_slow_provider_has_a_speed_too(gbps: float, text: str) -> None:
    assert describe_fastest([row(ms=0.1, gbps=gbps)]).endswith(text)

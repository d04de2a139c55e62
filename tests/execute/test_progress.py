"""What a run prints while it works, where stderr is not a terminal."""

from __future__ import annotations

import pytest
from making import row

from kbench.execute.progress import describe_fastest


@pytest.mark.parametrize("gbps, text", [(0.412, "0.412 GB/s"), (4262.7, "4263 GB/s")])
def test_a_slow_provider_has_a_speed_too(gbps: float, text: str) -> None:
    assert describe_fastest([row(ms=0.1, gbps=gbps)]).endswith(text)

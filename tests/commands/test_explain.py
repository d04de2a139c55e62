"""`kbench explain` has a paragraph for whatever a report can say, and it says what the code does."""

from __future__ import annotations

import pytest

from kbench.explain import KINDS
from kbench.measure import flags
from kbench.measure.timing.do_bench import MAX_PREFILL_MS

MARGINS = [flags.MARGIN, flags.COPY_SHARE, flags.HOST_COPY_SHARE, flags.COMPUTE_MARGIN, flags.SHORTER_MARGIN]
TICKS_NS, JITTER_US = flags.ROUND_TICKS * flags.TICK_MS * 1e6, flags.SAMPLE_JITTER_MS * 1e3
SPREADS = [f"{100 * share:g} %" for share in (flags.ROUND_SPREAD, flags.SAMPLE_SPREAD)]


@pytest.mark.parametrize(
    ("flag", "figures"),
    [
        ("suspect", [f"{margin:g}" for margin in MARGINS]),
        ("host-bound", [f"{MAX_PREFILL_MS:g} ms"]),
        ("overhead-bound", [f"{100 * flags.OVERHEAD_SHARE:g} %"]),
        ("noisy", [*SPREADS, f"{TICKS_NS:g} ns", f"{JITTER_US:g} us"]),
    ],
)
def test_thresholds_are_those_of_the_code(flag: str, figures: list[str]) -> None:
    text = KINDS["flag"][flag]
    assert all(figure in text for figure in figures), (flag, figures, text)

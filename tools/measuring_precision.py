"""Makes the figures of "A precision, measured twice" of measuring.md: what a precision of 0.5 % costs, and whether it holds.

    python tools/measuring_precision.py [SIZES]         needs a CUDA device

It measures softmax at 40 row lengths twice with a precision of 0.5 %, and once with the default rounds, each in a process of
its own. Two times agree if they are at most 1 % apart.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import pandas as pd

import kbench

PROVIDERS = ("torch-native", "triton", "cuda")
SIZES = 40
ROWS = 4096
AGREE = 0.01

CONFIG = """
operator: softmax
sweep: {{M: {rows}, N: {lengths}, dtype: float32}}
providers: {providers}
measure: {{{measure}}}
"""


def timed(sizes: int, measure: str) -> tuple[pd.DataFrame, float]:
    """The rows of providers by length and name, and the wall time of the run in s."""
    config = CONFIG.format(
        rows=ROWS, lengths=[256 + 320 * n for n in range(sizes)], providers=list(PROVIDERS), measure=measure
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "precision.yaml")
        path.write_text(config)
        start = time.perf_counter()
        frame = kbench.run(path, out=folder)
        seconds = time.perf_counter() - start
    return frame[frame.role == "provider"].set_index(["N", "provider"]), seconds


def main() -> None:
    sizes = int(sys.argv[1]) if sys.argv[1:] else SIZES
    timed(sizes, "rounds: 1, warmup_ms: 1, rep_ms: 1")  # compiles
    (a, a_s), (b, b_s) = (timed(sizes, "precision: 0.5%") for _ in range(2))
    fixed, fixed_s = timed(sizes, "rounds: 5")
    apart, against = (b.ms / a.ms - 1).abs(), (a.ms / fixed.ms - 1).abs()
    print(
        f"{len(a)} rows of {sizes} cases; precision 0.5 % took {a_s:.1f} s and {b_s:.1f} s, fixed work {fixed_s:.1f} s"
    )
    for name, off in (("two runs with the precision", apart), ("precision against fixed work", against)):
        print(
            f"{name}: {(off <= AGREE).mean():.1%} within {AGREE:.0%}, median {off.median():.2%}, "
            f"largest {off.max():.2%} at {off.idxmax()}"
        )
    worst = apart.groupby(level="N").max()
    print(f"cases of which all providers agree within {AGREE:.0%}: {(worst <= AGREE).mean():.1%}")
    for name, rows in (("precision 0.5 %", a), ("fixed work", fixed)):
        counts = rows.round_ms.map(len)
        print(
            f"{name}: {(rows.precision <= 0.005).mean():.1%} of the rows are known to 0.5 %; rounds {counts.min()} to "
            f"{counts.max()}, mean {counts.mean():.1f}; samples {rows.samples.median():.0f}"
        )


if __name__ == "__main__":
    main()

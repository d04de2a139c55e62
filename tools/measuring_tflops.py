"""Compares the TFLOP/s that kbench and torch.utils.benchmark read for a matrix product, and prints the share of the speed of
light.

    python tools/measuring_tflops.py [SIZE ...]       square bfloat16 products, by default of 4096 and 8192 rows

kbench runs first, in its own process. torch.utils.benchmark then times the same product of normal values in this process.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch
from torch.utils import benchmark

import kbench

SIZES = (4096, 8192)

CONFIG = """
operator: matmul
sweep: [{sweep}]
providers: [torch-native]
measure: {{sessions: 3}}
profiles: {{cpu: {{measure: {{rounds: 2}}}}}}
"""

MAPPING = "{{M: {size}, N: {size}, K: {size}, dtype: bfloat16, mode: forward}}"


def plain_tflops(size: int) -> float:
    """What torch.utils.benchmark reads."""
    device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "cpu"
    a, b = (torch.randn(size, size, dtype=torch.bfloat16, device=device) for _ in range(2))
    timer = benchmark.Timer("a @ b", globals={"a": a, "b": b}, num_threads=torch.get_num_threads())
    return 2 * size**3 / timer.blocked_autorange(min_run_time=1.0).median * 1e-12


def main() -> None:
    sizes = [int(size) for size in sys.argv[1:]] or list(SIZES)
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "tflops.yaml")
        config.write_text(CONFIG.format(sweep=", ".join(MAPPING.format(size=size) for size in sizes)))
        frame = kbench.run(config, out=folder)
    rows = frame[frame.role == "provider"].groupby("M")[["tflops", "ceiling_tflops", "sol"]].median()
    print("| size | kbench TFLOP/s | torch.utils.benchmark TFLOP/s | difference | ceiling TFLOP/s | sol |")
    print("|---|---|---|---|---|---|")
    for size in sizes:
        row, plain = rows.loc[size], plain_tflops(size)
        print(
            f"| {size} | {row.tflops:.4g} | {plain:.4g} | {row.tflops / plain - 1:+.1%} | {row.ceiling_tflops:.4g} "
            f"| {row.sol:.3f} |"
        )


if __name__ == "__main__":
    main()

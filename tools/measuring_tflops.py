"""Compares the TFLOP/s that kbench and torch.utils.benchmark read for a matrix product, and prints the share of the speed of
light.

    python tools/measuring_tflops.py [SIZE ...]       square bfloat16 products, by default of 4096 and 8192 rows

torch.utils.benchmark calls the product again and again for a second, so the device draws all the power that it may, and its
clock falls. kbench measures twice: in the same way (timer graph, warm cache, a second per round), and with its defaults, which
let the device rest between calls. The difference is between the two readings that were taken in the same way. kbench runs in
processes of its own, and all three readings are taken in turns, three times. The table shows medians.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from statistics import median

import torch
from torch.utils import benchmark

import kbench

SIZES = (4096, 8192)
TURNS = 3

CONFIG = """
operator: matmul
sweep: [{sweep}]
providers: [torch-native]
measure: {measure}
profiles: {{cpu: {{measure: {{rounds: 2}}}}}}
"""

MAPPING = "{{M: {size}, N: {size}, K: {size}, dtype: bfloat16, mode: forward}}"

WAYS = {"back to back": "{timer: graph, cache: warm, rounds: 1, warmup_ms: 200, rep_ms: 1000}", "default": "{}"}
"""The `measure:` of each way in which kbench measures."""


def plain_tflops(size: int) -> float:
    """What torch.utils.benchmark reads."""
    device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "cpu"
    a, b = (torch.randn(size, size, dtype=torch.bfloat16, device=device) for _ in range(2))
    timer = benchmark.Timer("a @ b", globals={"a": a, "b": b}, num_threads=torch.get_num_threads())
    return 2 * size**3 / timer.blocked_autorange(min_run_time=1.0).median * 1e-12


def main() -> None:
    sizes = [int(size) for size in sys.argv[1:]] or list(SIZES)
    plain: dict[int, list[float]] = {size: [] for size in sizes}
    found: dict[tuple[int, str, str], list[float]] = {}
    for _ in range(TURNS):
        for size in sizes:
            plain[size].append(plain_tflops(size))
        for way, measure in WAYS.items():
            with tempfile.TemporaryDirectory() as folder:
                config = Path(folder, "tflops.yaml")
                sweep = ", ".join(MAPPING.format(size=size) for size in sizes)
                config.write_text(CONFIG.format(sweep=sweep, measure=measure))
                frame = kbench.run(config, out=folder)
            for _, row in frame[frame.role == "provider"].iterrows():
                for column in ("tflops", "ceiling_tflops", "sol"):
                    found.setdefault((row.M, way, column), []).append(row[column])
    print(
        "| size | torch.utils.benchmark TFLOP/s | kbench, back to back | difference | kbench, default | ceiling | sol |"
    )
    print("|---|---|---|---|---|---|---|")
    for size in sizes:
        once, alike = median(plain[size]), median(found[size, "back to back", "tflops"])
        tflops, ceiling, sol = (
            median(found[size, "default", column]) for column in ("tflops", "ceiling_tflops", "sol")
        )
        print(
            f"| {size} | {once:.4g} | {alike:.4g} | {alike / once - 1:+.1%} | {tflops:.4g} | {ceiling:.4g} | {sol:.3f} |"
        )
    print(f"highest sol of all rows: {max(max(x) for (_, _, column), x in found.items() if column == 'sol'):.3f}")


if __name__ == "__main__":
    main()

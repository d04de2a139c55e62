"""Compares the TFLOP/s that kbench and torch.utils.benchmark read for a matrix product, and prints the share of the speed of
light.

    python tools/measuring_tflops.py [SIZE ...]       square bfloat16 products, by default of 4096 and 8192 rows

If torch.utils.benchmark calls the product again and again for a second, the device draws all the power that it may, and its
clock falls. Any pause lets the clock rise again. kbench never measures without pauses: its graph timer changes the inputs after
every 20 calls. So torch.utils.benchmark reads twice, for a second without pauses, and in bursts of 20 calls. kbench reads twice
as well: with the graph timer (warm cache, a second per round), and with its defaults, which pause after every call. The
difference is between the two readings in bursts. kbench runs in processes of its own, and all readings are taken in turns,
three times. The table shows medians.
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
BURST = 20
"""How many calls the graph timer of kbench makes without a pause."""

CONFIG = """
operator: matmul
sweep: [{sweep}]
providers: [torch-native]
measure: {measure}
profiles: {{cpu: {{measure: {{rounds: 2}}}}}}
"""

MAPPING = "{{M: {size}, N: {size}, K: {size}, dtype: bfloat16, mode: forward}}"

WAYS = {"bursts": "{timer: graph, cache: warm, rounds: 1, warmup_ms: 200, rep_ms: 1000}", "default": "{}"}
"""The `measure:` of each way in which kbench measures."""


def plain_tflops(size: int) -> tuple[float, float]:
    """What torch.utils.benchmark reads: for a second without pauses, and in bursts of 20 calls for a second."""
    device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "cpu"
    a, b = (torch.randn(size, size, dtype=torch.bfloat16, device=device) for _ in range(2))
    timer = benchmark.Timer("a @ b", globals={"a": a, "b": b}, num_threads=torch.get_num_threads())
    steady_s = timer.blocked_autorange(min_run_time=1.0).median
    bursts = max(5, int(1.0 / (BURST * steady_s)))
    burst_s = median(timer.timeit(BURST).median for _ in range(bursts))
    return 2 * size**3 / steady_s * 1e-12, 2 * size**3 / burst_s * 1e-12


def main() -> None:
    sizes = [int(size) for size in sys.argv[1:]] or list(SIZES)
    plain: dict[int, list[tuple[float, float]]] = {size: [] for size in sizes}
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
        "| size | torch.utils.benchmark, a second | in bursts | kbench, in bursts | difference | default | ceiling | sol |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for size in sizes:
        steady, burst = (median(each) for each in zip(*plain[size], strict=True))
        alike = median(found[size, "bursts", "tflops"])
        tflops, ceiling, sol = (
            median(found[size, "default", column]) for column in ("tflops", "ceiling_tflops", "sol")
        )
        print(
            f"| {size} | {steady:.4g} | {burst:.4g} | {alike:.4g} | {alike / burst - 1:+.1%} | {tflops:.4g} "
            f"| {ceiling:.4g} | {sol:.3f} |"
        )
    print(f"highest sol of all rows: {max(max(x) for (_, _, column), x in found.items() if column == 'sol'):.3f}")


if __name__ == "__main__":
    main()

"""Makes the second table of measuring.md: how far apart two runs of the same code come out.

    python tools/measuring_aa.py        needs a CUDA device, and liger-kernel for its rows

It runs the same config twice, three sessions each, and compares the medians over the sessions row by row. A second
line has the method that people use by hand: the median of triton.testing.do_bench, once per row, in two processes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd

import kbench

PROVIDERS = ("torch-native", "triton-row", "triton", "cuda", "liger")
SIZES = (256, 512, 1024, 1536, 2048, 4096, 6144, 8192, 12288, 16384)

CONFIG = f"""
operator: softmax
sweep: {{M: 4096, N: {list(SIZES)}, dtype: float32}}
providers: {list(PROVIDERS)}
measure: {{warmup_ms: 10, rep_ms: 20, rounds: 3, sessions: 3}}
"""

PLAIN = f"""
import json, torch, triton.testing, kbench
from kbench.results.case import Case
softmax = kbench.operator("softmax")
times = {{}}
for n in {SIZES}:
    x = torch.randn(4096, n, device="cuda")
    for name in {PROVIDERS}:
        fn = softmax.providers[name].bind(Case("softmax", {{"M": 4096, "N": n}}, "float32"), {{}})
        times[f"{{n}} {{name}}"] = triton.testing.do_bench(lambda: fn(x), return_mode="median")
print(json.dumps(times))
"""


def kbench_run() -> pd.Series:
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "aa.yaml")
        config.write_text(CONFIG)
        frame = kbench.run(config, out=folder)
    return frame[frame.role == "provider"].groupby(["N", "provider"]).ms.median()


def plain_run() -> pd.Series:
    done = subprocess.run([sys.executable, "-c", PLAIN], capture_output=True, text=True, check=True)
    return pd.Series(json.loads(done.stdout.splitlines()[-1]))


def report(label: str, a: pd.Series, b: pd.Series) -> None:
    off = (b / a - 1).abs()
    slow = off[a > 0.010]
    print(
        f"| {label} | {len(off)} | {off.median():.2%} | {off.quantile(0.9):.2%} | {off.max():.2%} ({off.idxmax()}) "
        f"| {slow.max():.2%} |"
    )


def main() -> None:
    print("| how | rows | median | 90 % of rows within | largest | largest from 10 us on |")
    print("|---|---|---|---|---|---|")
    report("kbench, 3 sessions a side", kbench_run(), kbench_run())
    report("plain do_bench, one process a side", plain_run(), plain_run())


if __name__ == "__main__":
    main()

"""Makes the table of scaling.md on the overhead of a dask cluster, with many cases of an operator that does next to nothing.

    python tools/scaling_dask.py [CASES]        10,000 by default, some ten minutes; no GPU needed, pip install '.[cluster]'

CASES is a multiple of 100.

The same config runs on this host alone, then through a scheduler with one worker. The difference is the overhead.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from distributed import Client

PLUGIN = """
import kbench

trivial = kbench.Operator(
    "trivial",
    axes=("A", "B"),
    inputs={"x": kbench.Tensor(1)},
    outputs={"y": kbench.Tensor(1)},
    reference=lambda x: x + 1,
    tolerance=1,
)

@trivial.provider("add")
def add(x):
    return x + 1
"""

CONFIG = """
operator: trivial
sweep: {{A: {{start: 1, stop: {count}, step: 1}}, B: {{start: 1, stop: 100, step: 1}}}}
providers: [add]
plugins: [trivial.py]
measure: {{warmup_ms: 0, rep_ms: 0.01, rounds: 1, cache: warm}}
"""


def main(cases: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "trivial.py").write_text(PLUGIN)
        (folder / "many.yaml").write_text(CONFIG.format(count=cases // 100))
        alone = run(folder, "alone")
        scheduler = start(folder, "scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", "file.json")
        while not ((file := folder / "file.json").exists() and file.read_text().rstrip().endswith("}")):
            time.sleep(0.1)
        address = json.loads(file.read_text())["address"]
        worker = start(folder, "worker", address, "--nthreads", "1", "--no-nanny")
        with Client(address) as client:
            client.wait_for_workers(1)
        before = cpu_s(scheduler)
        there = run(folder, "there", "--scheduler", address)
        busy_s = cpu_s(scheduler) - before
        for process in (worker, scheduler):
            process.kill()
            process.wait()
    print(f"{cases} cases, {there['rows']} rows")
    print(f"alone                      {alone['s'] / cases * 1e3:.2f} ms a case")
    print(f"through dask, one worker   {there['s'] / cases * 1e3:.2f} ms a case")
    print(f"overhead                   {(there['s'] - alone['s']) / cases * 1e3:.2f} ms a case")
    print(f"parent's own work          {there['cpu_s'] / cases * 1e3:.2f} ms a case, {there['peak_mb']:.0f} MB at most")
    print(f"scheduler's own work       {busy_s / cases * 1e3:.2f} ms a case")


def run(folder: Path, out: str, *options: str) -> dict[str, Any]:
    """Run the config. Returns the seconds from the first case to the last, the rows, the CPU time and memory of the parent."""
    command = [sys.executable, "-m", "kbench", "run", "many.yaml", "--no-plot", "--out", out, *options]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    times = []
    assert process.stderr
    for line in process.stderr:
        if line.startswith("["):
            times.append(time.monotonic())
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0
    rows = (folder / out / "many.csv").read_text().count("\n") - 1
    peak_mb = used.ru_maxrss / 1024
    return {"s": times[-1] - times[0], "rows": rows, "cpu_s": used.ru_utime + used.ru_stime, "peak_mb": peak_mb}


def start(folder: Path, what: str, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--no-dashboard", *options]
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL)


def cpu_s(process: subprocess.Popen[bytes]) -> float:
    times = psutil.Process(process.pid).cpu_times()
    return float(times.user + times.system)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)

"""What crashes cost: the figures of running.md.

    python tools/running_restarts.py sweep       ten providers that crash, exit or hang beside ten that work, in ten cases
    python tools/running_restarts.py restart     the time from a crash to the first step of the next worker

`restart` also prints how long the device takes to start in a Python that has imported torch: that time is part of every
restart. Both commands work without a device, too.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

from kbench.config.load import load_config
from kbench.execute.plan import make_plan
from kbench.execute.supervision.supervisor import WorkerSupervisor
from kbench.execute.worker.starting import PluginFiles
from kbench.protocol import Message, StepBegun

RESTARTS = 10

PLUGIN = """
import ctypes, os, time
import torch, kbench

softmax = kbench.operator("softmax")

def works(x):
    return torch.softmax(x, -1)

def segfaults(x):
    ctypes.string_at(0)

def exits(x):
    os._exit(3)

def hangs(x):
    time.sleep(3600)

for number in range(10):
    softmax.provider(f"works-{number}")(works)
    softmax.provider(f"segfaults-{number}")(segfaults)
    softmax.provider(f"exits-{number}")(exits)
    softmax.provider(f"hangs-{number}")(hangs)
"""

BAD = [*(f"segfaults-{n}" for n in range(4)), *(f"exits-{n}" for n in range(3)), *(f"hangs-{n}" for n in range(3))]

CONFIG = """
operator: softmax
sweep: {{M: 256, N: {sizes}, dtype: float32}}
providers: {providers}
plugins: [plugin.py]
measure: {{warmup_ms: 5, rep_ms: 20, rounds: 3, build_timeout_s: 8}}
"""

CUDA_START = """
import time, torch
begun = time.perf_counter()
device = "cuda" if torch.cuda.is_available() else "cpu"
print(torch.ones(8, device=device).add_(1).sum().item() and time.perf_counter() - begun)
"""


def write_config(folder: Path, providers: list[str], cases: int) -> Path:
    (folder / "plugin.py").write_text(PLUGIN)
    path = folder / "sweep.yaml"
    path.write_text(CONFIG.format(sizes=[1024 + 128 * n for n in range(cases)], providers=providers))
    return path


def sweep(folder: Path) -> None:
    providers = [name for number, bad in enumerate(BAD) for name in (f"works-{number}", bad)]
    path = write_config(folder, providers, 10)
    command = [sys.executable, "-m", "kbench", "run", str(path), "--no-plot", "--out", str(folder), *sys.argv[2:]]
    begun = time.perf_counter()
    done = subprocess.run(command, check=False)
    wall_s = time.perf_counter() - begun
    rows = pd.read_csv(folder / "sweep.csv")
    counts = rows[rows.role == "provider"].status.value_counts().to_dict()
    print(f"{wall_s:.1f} s, exit code {done.returncode}, rows of providers: {sum(counts.values())}, {counts}")


class Clock:
    """Notes when a worker begins its first step with a provider."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, float]] = []

    def begin(self, task: Any, place: str) -> None:
        self.steps = []

    def event(self, event: Message, place: str) -> None:
        if isinstance(event, StepBegun):
            self.steps.append((event.name, time.perf_counter()))

    def note(self, line: str) -> None:
        print(line)


def restart(folder: Path) -> None:
    """In each case another provider crashes in its first step, and the next step is that of the new worker."""
    path = write_config(folder, ["works-0", *(f"segfaults-{n}" for n in range(RESTARTS))], RESTARTS)
    config, clock = load_config(path), Clock()
    begun = time.perf_counter()
    with WorkerSupervisor(PluginFiles(config.plugins), print) as supervisor:
        catalog = supervisor.start()
        print(f"the first worker: {time.perf_counter() - begun:.2f} s")
        plan = make_plan(config.resolve(catalog), catalog)
        found = []
        for number, task in enumerate(plan.tasks):
            works, crashes = task.configurations[0], task.configurations[1 + number]
            supervisor.measure(replace(task, configurations=(crashes, works), needs={}), clock)
            (name, crash), (_, again), *_ = clock.steps
            assert name == crashes.name
            found.append(again - crash)
    print(f"from a crash to the next worker's first step: median {median(found):.2f} s of {times(found)}")
    command = [sys.executable, "-c", CUDA_START]
    starts = [float(subprocess.check_output(command).split()[-1]) for _ in range(RESTARTS)]
    print(f"starting the device, without importing torch: median {median(starts):.2f} s of {times(starts)}")
    print(f"a restart costs {median(found) - median(starts):.2f} s more")


def times(found: list[float]) -> str:
    return " ".join(f"{each:.2f}" for each in found)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        {"sweep": sweep, "restart": restart}[sys.argv[1]](Path(temporary))

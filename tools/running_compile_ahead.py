"""Compiles in parallel what the runs of some configs need. The runs find it in the caches, and spend their time on measuring.

    python tools/running_compile_ahead.py softmax-peers:short softmax-peers --limit 95 --processes 10

Each argument is a config as `kbench run` takes it, with a profile after a colon. Plug-ins are left out. Give it the environment
of the later runs (PYTHONPATH, HOME, TMPDIR and variables that name caches). It fills the caches of Triton, inductor, QuACK
and CUDA extensions.

Every CUDA source has a process that builds it. Other processes share the cases, in groups of one dtype, mode and row length.
They call each provider once per case, without a check. A few cases are measured whole, for what checks and timers compile. No
process waits for the lock of a device, so time nothing on it meanwhile. Exit codes: 0: everything was called; 1: the limit or a
failure cut it short; 2: a config cannot be read.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import kbench
from kbench.config.load import load_config

WORKER = Path(__file__).with_name("running_compile_worker.py")

MOST_STARTS = 4
"""How often a process that calls providers is started: a provider may crash it."""

START = time.monotonic()


def seconds() -> float:
    return time.monotonic() - START


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configs", nargs="+", metavar="CONFIG[:PROFILE]")
    parser.add_argument("--limit", type=float, default=120, help="seconds; what still runs then is killed")
    parser.add_argument("--processes", type=int, default=min(12, max(1, (os.cpu_count() or 2) - 2)))
    parser.add_argument(
        "--whole", type=int, default=1, help="cases of each config that are measured whole, with checks"
    )
    asked = parser.parse_args()
    try:
        sources = cuda_sources(asked.configs)
    except kbench.KbenchError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    jobs = [f"build:{path}" for path in sources] + [f"cases:{number}" for number in range(asked.processes)]
    state = Path(tempfile.mkdtemp(prefix="compile-ahead-"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    processes = Processes(state, [*asked.configs, "--whole", str(asked.whole)])
    try:
        complete = processes.run(jobs, asked.limit)
    finally:
        processes.kill()
        report(state)
    sys.exit(0 if complete else 1)


def cuda_sources(configs: list[str]) -> list[Path]:
    """The CUDA sources of the configs' operators, the largest first. Raises ConfigError."""
    operators = set()
    for text in configs:
        name, _, profile = text.partition(":")
        operators.add(str(load_config(name, profile=profile or None).document.entries["operator"].value))
    folder = Path(kbench.__file__).parent / "operators"
    found = [path for operator in operators for path in folder.glob(f"{operator}/**/*.cu")]
    return sorted(found, key=lambda path: -path.stat().st_size)


class Processes:
    """The processes that compile, each with a log in the folder `state`."""

    def __init__(self, state: Path, arguments: list[str]) -> None:
        self.state, self.arguments = state, arguments
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.starts: Counter[str] = Counter()

    def run(self, jobs: list[str], limit_s: float) -> bool:
        """Whether all jobs ended well within the limit."""
        for job in jobs:
            self._start(job)
        failed = False
        while self.running and seconds() <= limit_s:
            for job, process in list(self.running.items()):
                code = process.poll()
                if code is None:
                    continue
                del self.running[job]
                if code and not self._start_again(job, code):
                    failed = True
            time.sleep(0.1)
        return not failed and not self.running

    def _start(self, job: str) -> None:
        command = [sys.executable, "-u", str(WORKER), job, str(self.state), *self.arguments]
        with self._log(job, "ab") as log:
            self.running[job] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self.starts[job] += 1

    def _start_again(self, job: str, code: int) -> bool:
        """Whether a job that failed goes on. A process that calls providers goes on with the next group of cases."""
        with self._log(job, "rb") as log:
            tail = log.read().decode(errors="replace").splitlines()[-4:]
        print(f"[{seconds():.0f} s] {job} ended with {code}: {' | '.join(tail)[-400:]}", flush=True)
        again = job.startswith("cases") and self.starts[job] < MOST_STARTS
        if again:
            self._start(job)
        return again

    def _log(self, job: str, mode: str) -> IO[Any]:
        return (self.state / f"{job.replace('/', '_')}.log").open(mode)

    def kill(self) -> None:
        for job, process in self.running.items():
            print(f"[{seconds():.0f} s] killed {job}", flush=True)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # it leads a session: compilers that it started end too


def report(state: Path) -> None:
    """Print where the time went, what failed most often, and how much was done."""
    lines = [json.loads(line) for path in state.glob("*.jsonl") for line in path.read_text().splitlines()]
    calls = [line for line in lines if "provider" in line]
    spent: dict[tuple[str, str], float] = defaultdict(float)
    for line in calls:
        spent[line["config"], line["provider"]] += line["s"]
    for (config, provider), time_s in sorted(spent.items()):
        print(f"  {config} {provider}: {time_s:.1f} s")
    errors = Counter(
        f"{line['config']} {line.get('provider', '')}: {line['error'][:160]}" for line in lines if line.get("error")
    )
    for text, count in errors.most_common(12):
        print(f"  {count} x {text}")
    built = [f"{line['built']} {line['s']:.0f} s" for line in lines if "built" in line]
    print(f"extensions: {', '.join(built) or 'none'}")
    groups = max((line["groups"] for line in lines if "groups" in line), default=0)
    ended = sum("ended" in line for line in lines)
    print(f"[{seconds():.0f} s] {ended} of {groups} groups, {len(calls)} calls; logs in {state}", flush=True)


if __name__ == "__main__":
    main()

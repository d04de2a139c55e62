"""Times large forward launches of the Triton norms on many matrices, one after another, without a flush.

    python tools/rows_stream.py                                    all lengths that docs/kernels.md names, with peers
        --only rmsnorm-float32-4096,layernorm-float32-4096         some of them
        --matrices 12 --repeats 7 --limit-s 60                     how much, and how long at most

do_bench writes a large buffer before each call, so a call finds that buffer's dirty lines in the L2 cache. The launches that
`kernels/norms/dispatch/once.py` chooses load with the hint `evict_last`, and are faster then. Here each call has a matrix and
an output of its own, so the cache holds what earlier calls have read and written, as in a program that streams.

It prints three times of each launch: in a pass of calls between two events, in a CUDA graph of such a pass, and with do_bench's
flush. Persisting lines are dropped before every pass and every flushed call. Launches take turns. Ratios are to the time with
the hint: above 1, the hint is faster. `late` marks rows where the host fell behind in a pass. Kernels are first compiled in
several processes, for half of the time at most. Without a GPU, try --elements 8192 --matrices 2.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import torch
from rows_stream_launches import COPY, ELEMENTS, HINT, ROWS, Call, Matrices, Rows, calls_of, compile_launches
from rows_worker import difference, reason

import kbench
from kbench.measure.machine.device import Device
from kbench.measure.timing.do_bench import BenchTimer
from kbench.measure.timing.graph import GraphTimer
from kbench.measure.timing.timer import measure_launch_ms

FLUSHED_MS = 4.0
"""How long do_bench times a launch, in each repeat."""


class Timers:
    """Three ways to time a call on `count` matrices. All return microseconds."""

    def __init__(self, device: Device, count: int) -> None:
        self.device, self.count = device, count
        self.spin_ms = 0.0
        self.late = False

    def of_pass(self, call: Call) -> float:
        """A call in a pass over all matrices."""
        self.device.drop_kept_lines()
        if not self.device.accelerated:
            begin = time.perf_counter()
            for number in range(self.count):
                call(number)
            return 1e6 * (time.perf_counter() - begin) / self.count
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        still_busy = self.device.keep_busy(self.spin_ms)
        begin = time.perf_counter()
        start.record()
        kept = [call(number) for number in range(self.count)]  # so that each has an output of its own
        end.record()
        self.late |= not still_busy()
        host_ms = 1e3 * (time.perf_counter() - begin)
        self.spin_ms = max(self.spin_ms, min(20.0, 0.2 + 1.5 * host_ms))
        end.synchronize()
        del kept
        return 1e3 * float(start.elapsed_time(end)) / self.count

    def of_graph(self, call: Call, launch_ms: float | None) -> Callable[[], float]:
        """A call in a CUDA graph of a pass. Raises Unsupported."""
        runs = [partial(call, number) for number in range(self.count)]
        sample = GraphTimer(self.device, "cold").ready(runs, launch_ms)
        return lambda: 1e3 * median(sample(0.0, 0.0))

    def of_flushed(self, call: Call, launch_ms: float | None) -> Callable[[], float]:
        """A call after a flush of the cache."""
        sample = BenchTimer(self.device, "cold").ready([partial(call, 0)], launch_ms)
        return lambda: 1e3 * median(sample(1.0, FLUSHED_MS))


class Tool:
    def __init__(self, asked: argparse.Namespace) -> None:
        self.asked, self.begin = asked, time.monotonic()
        self.device = Device()
        self.device.set_up()
        self.rows = [each for each in ROWS if not asked.only or each.name in asked.only]

    def left(self) -> float:
        return float(self.asked.limit_s - (time.monotonic() - self.begin))

    def matrices(self, count: int, drawn: bool) -> Matrices:
        return Matrices(self.asked.elements, count, self.device.torch_device, drawn)

    def compile(self) -> None:
        """Each case in a process of its own, for half of the time at most."""
        end = time.monotonic() + 0.5 * self.asked.limit_s
        waiting, failed = list(self.rows), 0
        running: list[subprocess.Popen[bytes]] = []
        while (waiting or running) and time.monotonic() < end:
            while waiting and len(running) < self.asked.workers:
                name = waiting.pop(0).name
                command = [sys.executable, __file__, "--compile-only", "--only", name]
                running.append(subprocess.Popen([*command, "--elements", str(self.asked.elements)]))
            failed += sum(process.poll() not in (None, 0) for process in running)
            running = [process for process in running if process.poll() is None]
            time.sleep(0.1)
        for process in running:
            process.kill()
            process.wait()
        spent = self.asked.limit_s - self.left()
        print(f"# compiled in {spent:.0f} s: {failed} failed, {len(waiting) + len(running)} left", flush=True)

    def measure(self) -> None:
        accelerated = self.device.accelerated
        if accelerated and not self.asked.no_compile:
            self.compile()
        matrices = self.matrices(self.asked.matrices, drawn=True)
        print(f"# {self.device.name}, {self.asked.matrices} matrices of {self.asked.elements} elements, us per call")
        print("| rows | launch | pass | graph | flush | pass / hint | graph / hint | flush / hint |")
        print("|---" * 8 + "|")
        for number, rows in enumerate(self.rows):
            if self.left() < 2:
                print(f"# the time is over: {len(self.rows) - number} are left, from {rows.name} on", flush=True)
                break
            try:
                self.one(rows, matrices)
            except Exception as error:  # noqa: BLE001  other rows may still be measured
                print(f"# {rows.name}: {reason(error)}", flush=True)
                if not self.device.healthy():
                    sys.exit("the device is lost")
            self.device.release()
        print(f"# {self.asked.limit_s - self.left():.0f} s", flush=True)

    def one(self, rows: Rows, matrices: Matrices) -> None:
        timers = Timers(self.device, matrices.count)
        ways: dict[str, dict[str, Callable[[], float]]] = {}
        expected: list[torch.Tensor] = []
        for name, call in calls_of(rows, matrices).items():
            try:
                found = call(0)
                if name != COPY:
                    outputs = [found] if isinstance(found, torch.Tensor) else list(found)
                    expected = expected or [each.clone() for each in outputs]
                    if (far := difference(outputs, expected)) > 1:
                        print(f"# {rows.name}, {name}: DIFFERS ({far:.1f})", flush=True)
                ways[name] = self.ready(timers, call)
            except Exception as error:
                print(f"# {rows.name}, {name}: {reason(error)}", flush=True)
                if not self.device.healthy():
                    raise
        del expected
        times: dict[str, dict[str, list[float]]] = {name: {way: [] for way in mine} for name, mine in ways.items()}
        for repeat in range(self.asked.repeats):
            if repeat and self.left() < 1:
                break
            for name in list(ways)[:: -1 if repeat % 2 else 1]:
                for way, sample in ways[name].items():
                    times[name][way].append(sample())
        self.show(rows, times, timers.late)

    def ready(self, timers: Timers, call: Call) -> dict[str, Callable[[], float]]:
        launch_ms = measure_launch_ms(partial(call, 0), self.device)
        timers.of_pass(call)  # the first pass says how long the host needs
        timers.late = False
        ways: dict[str, Callable[[], float]] = {"pass": partial(timers.of_pass, call)}
        try:
            ways["graph"] = timers.of_graph(call, launch_ms)
        except kbench.Unsupported as error:
            if self.device.accelerated:
                print(f"# no graph: {error}", flush=True)
        return ways | {"flush": timers.of_flushed(call, launch_ms)}

    def show(self, rows: Rows, times: dict[str, dict[str, list[float]]], late: bool) -> None:
        for name, mine in times.items():
            cells, ratios = [], []
            for way in ("pass", "graph", "flush"):
                pairs = list(zip(mine.get(way, []), times.get(HINT, {}).get(way, []), strict=False))
                cells.append(f"{median(us for us, _ in pairs):.1f}" if pairs else "-")
                ratios.append(f"{median(us / hint for us, hint in pairs):.3f}" if pairs else "-")
            where = rows.name + " late" * late
            print(f"| {where} | {name} | {' | '.join([*cells, *ratios])} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda text: text.split(","), help=f"of {', '.join(each.name for each in ROWS)}")
    parser.add_argument("--matrices", type=int, default=12)
    parser.add_argument(
        "--elements", type=int, default=ELEMENTS, help="of a matrix; those of a last part of a row are left out"
    )
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--limit-s", type=float, default=60.0)
    parser.add_argument("--no-compile", action="store_true", help="compile each launch when its turn comes")
    parser.add_argument("--compile-only", action="store_true", help="compile in this process, and end")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 2), help="that compile")
    asked = parser.parse_args()
    if unknown := set(asked.only or ()) - {each.name for each in ROWS}:
        raise SystemExit(f"there is no {min(unknown)}; --only takes {', '.join(each.name for each in ROWS)}")
    tool = Tool(asked)
    if asked.compile_only:
        for rows in tool.rows:
            compile_launches(rows, tool.matrices(1, drawn=False))
    else:
        tool.measure()


if __name__ == "__main__":
    main()

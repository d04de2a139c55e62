"""Prints where the wall time of a case goes: by step of each contender, and by function.

    python tools/measuring_wall.py [--every 7] [--profile]        on the device; on a host also --rows 64 --largest 2048
    python tools/measuring_wall.py --operator rmsnorm --mode backward --rows 13107 --lengths 5120 --providers triton

It measures every seventh row length of the built-in config softmax, or other cases, in this process. Run it twice: the second
run finds the compiled kernels on the disk, as a repeated `kbench run` does. Work of the device is counted in the step and the
function that wait for it. --profile makes Python slower.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import kbench
from kbench.measure.case import CaseRun
from kbench.measure.contender import Contender
from kbench.measure.correctness.expected import keep_bytes
from kbench.measure.launches.recorder import LaunchRecorder
from kbench.measure.machine.device import Device
from kbench.measure.machine.sources import find_telemetry
from kbench.measure.session.ceiling import Ceilings
from kbench.measure.session.measurements import SessionMeasurements
from kbench.measure.tampering.guard import Guard
from kbench.protocol import Configuration, MeasureSettings

FUNCTIONS = """
case.py run
case.py begin
inputs.py draw
expected.py compute
case.py prepare
call.py stage_of
check.py run_checked
check.py judge_call
check.py compared
check.py changed_input
check.py poison
check.py fill
inputs.py restore
timer.py measure_launch_ms
case.py add_controls
case.py make_ready
case.py stage_calls
settling.py settle
rounds.py _take
telemetry_nvidia.py read
guard.py begin
guard.py end
patches.py undone
settings.py read
do_bench.py _samples
graph.py _samples
graph.py _captured
graph.py _replay
testing.py do_bench
device.py drop_kept_lines
cuda_driver.py reset_persisting_cache
rounds.py blame_for_changes
case.py check_again
watch.py before
watch.py _look
watch.py _write
watch.py _restore
salts.py draw
watch.py fault
case.py rows
other_load.py _own
device.py synchronize
device.py release
"""


def observe(run: CaseRun, spent_s: dict[tuple[str, str], float]) -> None:
    """Add up the wall time of each step of each contender of a case."""
    step = run.steps.step

    @contextmanager
    def timed(contender: Contender, name: str, limit_s: float) -> Iterator[None]:
        start = time.perf_counter()
        with step(contender, name, limit_s):
            yield
        spent_s[contender.name, name] += time.perf_counter() - start

    run.steps.step = timed  # type: ignore[method-assign]


def costs_us(device: Device) -> dict[str, float]:
    """What single operations cost, in us: the mean of a hundred."""
    import torch

    telemetry = find_telemetry(device)
    cache = torch.empty(2**26, dtype=torch.int32, device=device.torch_device)
    actions: dict[str, Callable[[], Any]] = {"read the telemetry": telemetry.read, "synchronise": device.synchronize}
    if nvml := getattr(telemetry, "_nvml", None):
        handle = telemetry._handle  # type: ignore[attr-defined]
        actions |= {
            "NVML: throttling": lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(handle),
            "NVML: clock": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
            "NVML: power": lambda: nvml.nvmlDeviceGetPowerUsage(handle),
            "NVML: energy": lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle),
            "NVML: temperature": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        }
    actions |= {
        "drop kept lines of the cache": device.drop_kept_lines,
        "write 256 MB and synchronise": lambda: (cache.zero_(), device.synchronize()),
        "make two events": lambda: [torch.cuda.Event(enable_timing=True) for _ in range(2)],
        "keep the device busy for 0.1 ms": lambda: (device.keep_busy(0.1), device.synchronize()),
        "free memory": device.free_bytes,
        "keep bytes": lambda: keep_bytes(device.free_bytes()),
    }
    found = {}
    for name, action in actions.items():
        if "event" in name and not device.accelerated:
            continue
        action()
        start = time.perf_counter()
        for _ in range(100):
            action()
        found[name] = (time.perf_counter() - start) * 1e4
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operator", default="softmax", help="an operator of kbench with the axes M and N")
    parser.add_argument("--mode", default="forward")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--lengths", nargs="+", type=int, help="row lengths, in place of those of the config softmax")
    parser.add_argument("--timer", default="do_bench")
    parser.add_argument("--every", type=int, default=7)
    parser.add_argument("--largest", type=int, default=12672)
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--providers", nargs="+", default=["triton", "torch-native", "torch-jit", "cuda"])
    parser.add_argument("--warmup-ms", type=float, default=10)
    parser.add_argument("--rep-ms", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--profile", action="store_true", help="also print the time by function")
    options = parser.parse_args()

    start = time.perf_counter()
    device = Device()
    device.set_up()
    device.use_threads(None)
    guard, recorder, telemetry = Guard(), LaunchRecorder(device), find_telemetry(device)
    operator = kbench.operator(options.operator)
    settings = MeasureSettings(
        options.timer,
        "cold",
        False,
        options.warmup_ms,
        options.rep_ms,
        options.rounds,
        0,
        timeout_s=120,
        build_timeout_s=600,
    )
    print(f"device {device.name}; set up in {time.perf_counter() - start:.2f} s")
    start = time.perf_counter()
    ceilings, measured = Ceilings(device), SessionMeasurements(telemetry)
    ceilings.gbps()
    print(f"ceiling_gbps in {time.perf_counter() - start:.2f} s")
    for name, us in costs_us(device).items():
        print(f"{us:10.1f} us  {name}")

    spent_s: dict[tuple[str, str], float] = defaultdict(float)
    profile = cProfile.Profile()
    lengths = options.lengths or list(range(256, options.largest + 1, 128))[:: options.every]
    total = 0.0
    for number, length in enumerate([lengths[0], *lengths]):
        start = time.perf_counter()
        run = CaseRun(
            operator,
            operator.case(M=options.rows, N=length, dtype=options.dtype, mode=options.mode),
            [Configuration(name, {}) for name in options.providers],
            baseline=options.providers.index("torch-native"),
            settings=settings,
            session=0,
            device=device,
            telemetry=telemetry,
            emit=lambda event: None,
            ceilings=ceilings,
            measured=measured,
            guard=guard,
            recorder=recorder,
        )
        if number:
            observe(run, spent_s)
        if number and options.profile:
            profile.enable()
        rows = run.run()
        device.release()
        profile.disable()
        elapsed = time.perf_counter() - start
        print(f"N = {length}: {elapsed * 1e3:.0f} ms" + ("" if number else " (with compiling, not counted)"))
        for row in rows:
            if not number and row.reason:
                print(f"  {row.provider}: {row.status.value} {row.reason}")
        if number:
            total += elapsed
    count = len(lengths)
    print(f"\n{total / count * 1e3:8.1f} ms per case\n\nby step of each contender, ms per case:")
    for (name, step), seconds in sorted(spent_s.items(), key=lambda item: -item[1]):
        print(f"{seconds / count * 1e3:8.1f}  {step:6} {name}")
    print(f"{(total - sum(spent_s.values())) / count * 1e3:8.1f}  outside of all steps")
    if options.profile:
        show(profile, count)


def show(profile: cProfile.Profile, count: int) -> None:
    """The functions above, with the time in each and in what it calls."""
    stats: Any = pstats.Stats(profile)
    found = {(Path(file).name, name): row for (file, _, name), row in stats.stats.items()}
    print("\nby function, ms per case with what it calls (ms by itself, calls per case):")
    for line in FUNCTIONS.split("\n"):
        if line and (row := found.get(tuple(line.split()))):
            print(f"{row[3] / count * 1e3:8.1f} ({row[2] / count * 1e3:7.1f}, {row[1] / count:7.1f})  {line}")
    print("\nby function, the thirty with most time by themselves:")
    for (file, at, name), row in sorted(stats.stats.items(), key=lambda item: -item[1][2])[:30]:
        print(f"{row[2] / count * 1e3:8.1f} ({row[1] / count:8.1f} calls)  {Path(file).name}:{at} {name}")


if __name__ == "__main__":
    main()

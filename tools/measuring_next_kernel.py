"""Shows what the cache policy `evict_last` saves in softmax, and what it costs the kernels that follow.

    python tools/measuring_next_kernel.py                       matrices of 64, 128 and 256 MiB in bfloat16
        --mib 64,128,256 --columns 4096 --repeats 5             other sizes, rows of so many elements, and how often

A benchmark of single calls does not show that a hint to the cache makes the next kernel slower. So this times sequences:
softmax alone, several softmaxes, and softmax followed by copies. Each sequence runs with the policy and without it, in turns,
by do_bench after a flush. The table shows the difference in microseconds: above 0, the policy saves time. Every softmax has
matrices of its own. The kernel is Triton's, whose launch takes the policy as a constant: see `load_policy` in triton_rows.py.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

import torch

from kbench.kernels import triton_rows
from kbench.measure.machine.device import Device
from kbench.measure.timing.do_bench import BenchTimer
from kbench.measure.timing.timer import measure_launch_ms
from kbench.operators.softmax.providers_triton import launch_rows
from kbench.operators.softmax.triton_dispatch import Launch, dispatch

SOFTMAXES = 6
"""In the longest sequence."""

WARMUP_MS, REP_MS = 2.0, 8.0
"""How long a repeat runs a sequence untimed, and timed."""

Step = Callable[[], object]


def launch_of(x: torch.Tensor, policy: bool) -> Launch:
    """The launch of the provider `triton`, with or without the policy. It has the policy if the matrix is much larger than the
    cache, so this gives it a cache of no bytes, or one of infinite size."""
    return dispatch(
        *x.shape,
        x.element_size(),
        warp_size=triton_rows.warp_size(x.device),
        waiting=triton_rows.waiting_multiprocessors(x.device),
        capped=triton_rows.caps_registers(x.device),
        cache_bytes=0 if policy else math.inf,
    )


def sequences(shape: tuple[int, int], device: Device, policy: bool) -> dict[str, list[Step]]:
    """The steps of each sequence."""
    xs = [torch.randn(shape, device=device.torch_device).bfloat16() for _ in range(SOFTMAXES)]
    outs = [torch.empty_like(x) for x in xs]
    source, target = torch.randn(shape, device=device.torch_device).bfloat16(), torch.empty_like(xs[0])
    softmax = [partial(launch_rows, launch_of(x, policy), x, out) for x, out in zip(xs, outs, strict=True)]
    other, own = partial(target.copy_, source), partial(target.copy_, outs[0])
    return {
        "softmax": softmax[:1],
        "two softmaxes": softmax[:2],
        "softmax, copy of another matrix": [softmax[0], other],
        "softmax, copy of its output": [softmax[0], own],
        f"{SOFTMAXES} softmaxes": softmax,
        "softmax and copy, three times": [step for each in softmax[:3] for step in (each, other)],
        "copy": [other],
    }


def run(steps: Sequence[Step]) -> None:
    for step in steps:
        step()


def saved_us(shape: tuple[int, int], device: Device, repeats: int) -> dict[str, float]:
    """Microseconds that the policy saves in each sequence. That of a copy alone shows the noise."""
    bench = BenchTimer(device, "cold")
    samples = {}
    for policy in (False, True):
        for name, steps in sequences(shape, device, policy).items():
            call = partial(run, steps)
            samples[name, policy] = bench.ready([call], measure_launch_ms(call, device))
    times: dict[tuple[str, bool], list[float]] = {key: [] for key in samples}
    for _ in range(repeats):
        for key, sample in samples.items():
            times[key].append(1e3 * median(sample(WARMUP_MS, REP_MS)))
    return {name: median(times[name, False]) - median(times[name, True]) for name, policy in samples if policy}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--mib", type=lambda text: [float(each) for each in text.split(",")], default=[64.0, 128.0, 256.0]
    )
    parser.add_argument("--columns", type=int, default=4096)
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    device = Device()
    device.set_up()
    print(f"{device.name}, bfloat16, rows of {asked.columns}: microseconds saved by the policy\n")
    for number, mib in enumerate(asked.mib):
        rows = max(1, round(mib * 2**20 / (2 * asked.columns)))
        found = saved_us((rows, asked.columns), device, asked.repeats)
        if number == 0:
            print(f"| a matrix has | {' | '.join(found)} |\n|{'---|' * (len(found) + 1)}")
        print(f"| {mib:g} MiB | {' | '.join(f'{us:.1f}' for us in found.values())} |", flush=True)
        device.release()


if __name__ == "__main__":
    main()

"""Prints how fast the CUDA kernels of kbench's row operators are: the share of copy_ that the default reaches, and, for the
norms, each way to share a row. It is how the tables in kernels/rows/dispatch.cuh and gradients/backward.cuh are chosen.

    python tools/measuring_rows.py [--only rmsnorm,rmsnorm-backward] [--shapes 16384x4096,64x4096] [--dtype bfloat16]
                                   [--default] [--seconds 60] [--json FILE]

Calls are timed with a cold cache and a queue that the host has filled ahead. All ways of a shape are timed in turns. --default
leaves out the other ways. --json writes the medians in microseconds, to compare two versions of kbench.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch

import kbench
from kbench.kernels.cuda_source import CudaSource, gradient_buffers

Tensors = list[torch.Tensor]

LENGTHS = (768, 1000, 1024, 2048, 2880, 4096, 5120, 7168, 8192, 12288, 16384, 32768, 65536, 131072)
FEW = [(1, 1024), (64, 1024), (1024, 1024), (1, 4096), (64, 4096), (256, 4096), (1024, 4096), (1, 8192), (64, 8192)]
FEW += [(1024, 8192), (1, 16384), (64, 16384), (256, 16384), (64, 65536), (8, 131072), (2048, 2880)]
ANYWHERE = [(65536, 137), (16384, 4097), (1300, 50257)]
"""Rows that begin at any address."""

GROUPS = ((8, 1), (8, 3), (16, 1), (16, 3), (32, 1), (32, 2), (32, 3))
"""Threads of a warp that share a row, and the accesses of each, for which there are kernels."""


@dataclass(frozen=True)
class Rows:
    """An operator over rows: matrices and vectors that a call reads, and matrices that it writes."""

    operator: str
    reads: int
    vectors: int
    writes: int
    backward: bool = False

    @property
    def source(self) -> CudaSource:
        module = importlib.import_module(f"kbench.operators.{self.operator}.providers_cuda")
        return module.BACKWARD_SOURCE if self.backward else module.SOURCE  # type: ignore[no-any-return]

    def tensors(self, M: int, N: int, dtype: torch.dtype) -> tuple[Tensors, Tensors]:
        """Inputs and outputs."""
        inputs = [torch.randn(M, N, device="cuda").to(dtype) for _ in range(self.reads)]
        inputs += [torch.randn(N, device="cuda").to(dtype) for _ in range(1 if self.backward else self.vectors)]
        outputs = [torch.empty_like(inputs[0]) for _ in range(self.writes)]
        if self.backward:
            outputs += [inputs[0].new_empty(N) for _ in range(self.vectors)]
            outputs += gradient_buffers(inputs[0], self.vectors)
        return inputs, outputs

    def default(self, M: int, N: int, inputs: Tensors, outputs: Tensors) -> Callable[[], object]:
        if self.operator == "softmax":
            case = kbench.operator("softmax").case(str(inputs[0].dtype).removeprefix("torch."), M=M, N=N)
            softmax = kbench.operator("softmax").providers["cuda"].bind(case, {})
            return lambda: softmax(inputs[0])
        return self.way({}, inputs, outputs)

    def way(self, options: dict[str, int], inputs: Tensors, outputs: Tensors) -> Callable[[], object]:
        launch = self.source.kernel(f"{self.operator}{'_backward' * self.backward}", eps=1e-6, **options)
        return lambda: launch(inputs, outputs)

    def ways(self, N: int, itemsize: int) -> Iterator[dict[str, int]]:
        """Ways to share a row that hold it. A softmax has its own: `packs` and `blocks` in a config."""
        accesses = N * itemsize / 16
        if self.operator == "softmax":
            return
        if not self.backward:
            for group, packs in GROUPS:
                if accesses <= group * packs < 4 * accesses:
                    yield {"group": group, "packs": packs}
        for packs, blocks in itertools.product((1, 2) if self.backward else (1, 2, 4, 8), (1, 2, 4, 8, 16)):
            threads = accesses / packs / blocks
            if threads > 1024 or threads < (64 if blocks > 1 else 32) or packs * self.reads > 8:
                continue
            yield {"packs": packs, "blocks": blocks}
            if not self.backward and packs <= 4:
                yield {"packs": packs, "blocks": blocks, "keep": 1}


OPERATORS = {
    "softmax": Rows("softmax", 1, 0, 1),
    "rmsnorm": Rows("rmsnorm", 1, 1, 1),
    "layernorm": Rows("layernorm", 1, 2, 1),
    "add_rmsnorm": Rows("add_rmsnorm", 2, 1, 2),
    "rmsnorm-backward": Rows("rmsnorm", 2, 1, 1, backward=True),
    "layernorm-backward": Rows("layernorm", 2, 2, 1, backward=True),
}


def microseconds(calls: dict[str, Callable[[], object]], rounds: int, each: int) -> dict[str, float]:
    """The median of each call, with a cold cache."""
    flushed = torch.empty(192 * 2**20, dtype=torch.int8, device="cuda")
    for name, call in list(calls.items()):
        try:
            call()
        except kbench.Unsupported:  # this way does not hold the row
            del calls[name]
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        events = {name: [[torch.cuda.Event(enable_timing=True) for _ in "ab"] for _ in range(each)] for name in calls}
        torch.cuda._sleep(400_000)  # the host is ahead from here on
        for name, call in calls.items():
            for before, after in events[name]:
                flushed.zero_()
                before.record()
                call()
                after.record()
        torch.cuda.synchronize()
        for name in calls:
            found[name] += [1000 * before.elapsed_time(after) for before, after in events[name]]
    return {name: median(times) for name, times in found.items()}


def shapes(rows: Rows, itemsize: int) -> Iterator[tuple[int, int]]:
    """The shapes of a whole run: 128 MiB of each operand, few rows, and rows that begin anywhere."""
    yield from ((2**27 // itemsize // N // rows.reads, N) for N in LENGTHS)
    yield from FEW
    yield from ANYWHERE


def measure(rows: Rows, M: int, N: int, dtype: torch.dtype, only_default: bool) -> dict[str, float]:
    inputs, outputs = rows.tensors(M, N, dtype)
    copied = torch.empty((rows.reads + rows.writes) * M * N // 2, dtype=dtype, device="cuda")
    into = torch.empty_like(copied)
    calls: dict[str, Callable[[], object]] = {"copy": lambda: into.copy_(copied)}
    calls["default"] = rows.default(M, N, inputs, outputs)
    for options in () if only_default else rows.ways(N, dtype.itemsize):
        calls[" ".join(f"{name}={value}" for name, value in options.items())] = rows.way(options, inputs, outputs)
    return microseconds(calls, 3, 4 if M * N > 2**22 else 10)


def build_all(names: list[str]) -> None:
    """Build the sources at the same time: each in a process of its own, which measures one small shape."""
    command = [sys.executable, __file__, "--shapes", "1x8", "--default", "--only"]
    processes = [subprocess.Popen([*command, name], stdout=subprocess.DEVNULL) for name in names]
    failed = [name for name, process in zip(names, processes, strict=True) if process.wait(timeout=300)]
    if failed:
        raise SystemExit(f"could not build and run: {', '.join(failed)}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(OPERATORS))
    parser.add_argument("--shapes", type=lambda text: [tuple(map(int, part.split("x"))) for part in text.split(",")])
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--default", action="store_true")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    if missing := CudaSource.missing_tools():
        raise SystemExit(f"cannot measure CUDA kernels here: {missing}")
    chosen, dtype, found = {name: OPERATORS[name] for name in asked.only}, getattr(torch, asked.dtype), {}
    if len(chosen) > 1:
        build_all(asked.only)
    end = time.monotonic() + asked.seconds
    for name, rows in chosen.items():
        for M, N in asked.shapes or shapes(rows, dtype.itemsize):
            if time.monotonic() > end:
                raise SystemExit("stopped: --seconds are over")
            times = measure(rows, M, N, dtype, asked.default)
            found[f"{name} {M}x{N}"] = times
            copy = times["copy"]
            ways = sorted((us, way) for way, us in times.items() if way not in ("copy", "default"))[:5]
            shares = ", ".join(f"{way} {copy / us:.3f}" for us, way in ways)
            print(f"{name} {M}x{N}: copy {copy:.1f} us, default {copy / times['default']:.3f}; {shares}", flush=True)
            if asked.json:
                asked.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()

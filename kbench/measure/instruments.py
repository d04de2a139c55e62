"""What a process measures with: its device, and what it measures of the device and of its timers once for all its cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from statistics import median

import torch
from torch import Tensor

from kbench.measure.machine.device import Device, out_of_memory
from kbench.measure.machine.telemetry import Quantities, find_telemetry
from kbench.measure.timing.do_bench import BenchTimer, clock_samples
from kbench.measure.timing.timer import Timer

EMPTY_ROUNDS = 5
EMPTY_WARMUP_MS, EMPTY_REP_MS = 10.0, 20.0
"""The rounds of the `empty` control, and how long each runs untimed and timed. Their median is known to less than a tick."""

COPY_CACHE_FILLS = 20
"""The copy is this many times as large as the last-level cache, so that the cache cannot serve it."""

LARGEST_BYTES = {"cpu": 2**27}
"""The largest copy by device type, in bytes of both tensors together; 4 GiB for other types."""

SMALLEST_MATRIX, LARGEST_MATRIX = {"cpu": 256}, 16384
"""The rows of the matrices that are multiplied: from the smallest by device type, 2048 for other types, to the largest."""

LONGEST_PRODUCT_MS = {"cpu": 20.0}
"""A product that is expected to take longer than this is left out; 50 ms for other types."""

EmptyRounds = tuple[list[list[float]], list[Quantities]]
"""The samples of some rounds in ms, and telemetry, read before and after each round."""


class Instruments:
    """The device of this process, and its telemetry.

    The ceilings and the cost of a timer are measured when they are first asked for. It is after the providers of a case were
    checked, so one that takes the worker down costs no measurement of them.
    """

    def __init__(self, device: Device) -> None:
        self.device, self.telemetry = device, find_telemetry(device)
        self._tflops: dict[str, float | None] = {}
        self._empty: dict[tuple[str, str], EmptyRounds] = {}

    @cached_property
    def gbps(self) -> float | None:
        """GB/s of a large copy on the device, reads and writes. None with too little memory for it."""
        device = self.device
        device.release()  # what checks have left in torch's cache is free memory, too
        bound = LARGEST_BYTES.get(device.type, 2**32)
        total = min(COPY_CACHE_FILLS * (device.cache_bytes or 2**26), bound, (device.free_bytes() or bound) // 4)
        try:
            source = torch.randn(total // 8, device=device.torch_device)
            target = torch.empty_like(source)
            samples = BenchTimer(device, "cold").ready([lambda: target.copy_(source)], None)(20, 100).ms
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            return None  # rows then have no ceiling
        return 2 * source.nbytes / median(samples) * 1e-6

    def tflops(self, dtype: str) -> float | None:
        """TFLOP/s (1e12 operations per second) of the best large product of two matrices of a dtype, filled with normal values:
        the ceiling of computation. None if torch cannot multiply such matrices on the device.

        The matrices grow until a product takes too long. Each size is tried square and with twice as many terms per sum, and
        with the second matrix by rows and by columns. float32 obeys torch's present setting for TF32.
        """
        if dtype not in self._tflops:
            kind = getattr(torch, dtype)
            speeds = (tflops for form in _forms(self.device, kind) for tflops in _speeds(self.device, kind, form))
            self._tflops[dtype] = max(speeds, default=None)
            self.device.release()
        return self._tflops[dtype]

    def empty(self, timer: Timer) -> EmptyRounds:
        """What the timer adds to a time."""
        key = timer.name, timer.cache
        if key not in self._empty:
            sample, rounds, readings = timer.empty(), list[list[float]](), list[Quantities]()
            for number in range(EMPTY_ROUNDS):
                readings.append(self.telemetry.read())
                rounds.append(sample(0.0 if number else EMPTY_WARMUP_MS, EMPTY_REP_MS).ms)
                readings.append(self.telemetry.read())
            self._empty[key] = rounds, readings
        return self._empty[key]


Form = Callable[[Tensor, Tensor], Tensor]
"""Multiplies two matrices."""


def _by_columns(a: Tensor, b: Tensor) -> Tensor:
    """The memory of `b`, read as a matrix that is stored by columns."""
    return a @ b.view(b.shape[1], b.shape[0]).t()


def _in_float32(a: Tensor, b: Tensor) -> Tensor:
    return (a.float() @ b.float()).to(a.dtype)


def _forms(device: Device, dtype: torch.dtype) -> list[Form]:
    """A host without instructions for a short dtype multiplies it far more slowly than float32."""
    short = dtype.is_floating_point and dtype.itemsize < 4
    return [torch.matmul, _by_columns, *([_in_float32] if short and not device.accelerated else [])]


def _speeds(device: Device, dtype: torch.dtype, form: Form) -> Iterator[float]:
    """TFLOP/s of products of growing size, before the first that takes too long or does not work."""
    timer = BenchTimer(device, "warm")
    longest_ms = LONGEST_PRODUCT_MS.get(device.type, 50.0)
    rows, tflops = SMALLEST_MATRIX.get(device.type, 2048), None
    while rows <= LARGEST_MATRIX:
        for depth in (rows, 2 * rows):
            flops = 2 * rows * rows * depth
            if tflops and flops / tflops * 1e-9 > longest_ms:
                return
            try:
                shapes = (rows, depth), (depth, rows)
                call = partial(form, *(normal_matrix(device, dtype, *shape) for shape in shapes))
                [ms] = clock_samples(device, call, None, 0.0, 0.0, cold=False)  # the first call loads and tunes
                if ms <= longest_ms:
                    ms = median(timer.ready([call], None)(10, 40).ms)
            except (RuntimeError, TypeError):  # no such product on this device, or too little memory
                return
            tflops = flops / ms * 1e-9
            yield tflops
        rows *= 2


def normal_matrix(device: Device, dtype: torch.dtype, rows: int, columns: int) -> Tensor:
    """Normal values. torch draws no 8-bit numbers, so those are rounded from float32."""
    drawn = dtype if dtype.is_floating_point and dtype.itemsize > 1 else torch.float32
    return torch.randn(rows, columns, dtype=drawn, device=device.torch_device).to(dtype)

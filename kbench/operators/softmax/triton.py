"""Softmax in Triton: the textbook kernel, its persistent form, and the best kernel for each row length.

The kernels stand in `triton_kernels.py`; this file chooses among them and launches them. It imports without Triton.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from kbench.operators import triton_rows
from kbench.operators.softmax import softmax
from kbench.registry import Unsupported

if TYPE_CHECKING:
    from torch import Tensor

SOURCES = (Path(__file__).with_name("triton_kernels.py"), Path(triton_rows.__file__))


class Launch(NamedTuple):
    """A kernel of `triton_kernels`, its compile-time constants and the options Triton compiles it with."""

    kernel: str
    constants: dict[str, int]
    options: dict[str, Any]

    def programs(self, rows: int) -> int:
        """The grid that gives every row to one program."""
        return math.ceil(rows / self.constants.get("ROWS", 1))

    def override(self, **options: Any) -> Launch:
        """The same launch with these options; None leaves an option as it is."""
        return self._replace(options=self.options | {k: v for k, v in options.items() if v is not None})


# How `triton` computes a row: the first line whose N is not exceeded. A program of `threads` threads holds `elements` in
# registers, 8 to 32 a thread; for `tile` and `row`, a row takes the power of two that holds N.
DISPATCH: tuple[tuple[float, str, int, int], ...] = (
    # N up to  kernel  elements  threads
    (1024, "tile", 2048, 128),
    (2048, "row", 2048, 128),
    (4096, "row", 4096, 256),
    (8192, "row", 8192, 512),
    (16384, "row", 16384, 512),
    (32768, "row", 32768, 1024),
    (math.inf, "online", 4096, 512),
)


def dispatch(N: int, warp_size: int = 32) -> Launch:
    """The launch of `triton` for rows of N elements. Warps of 64, as on AMD's data-center GPUs, take half as many."""
    _, kernel, elements, threads = next(line for line in DISPATCH if line[0] >= N)
    options = {"num_warps": threads // warp_size}
    if kernel == "online":
        return Launch(kernel, {"BLOCK": elements, "STAGES": 3}, options)
    block = triton_rows.power_of_two(N)
    rows = {"ROWS": elements // block} if kernel == "tile" else {}
    return Launch(kernel, {**rows, "BLOCK": block}, options)


def row_launch(N: int, BLOCK: int | None = None) -> Launch:
    """The launch of `triton-row` for rows of N elements."""
    block = triton_rows.row_block(N, BLOCK)
    return Launch("row", {"BLOCK": block}, {"num_warps": triton_rows.row_warps(block)})


def persistent_launch(N: int, itemsize: int, BLOCK: int | None = None, num_stages: int | None = None) -> Launch:
    """The launch of `triton-persistent` for rows of N elements of `itemsize` bytes."""
    block = triton_rows.row_block(N, BLOCK)
    # the row that is loaded ahead waits in shared memory, of which 64 KiB is what every target has
    stages = num_stages or (2 if block * itemsize <= 64 * 1024 else 1)
    return Launch("persistent", {"BLOCK": block, "STAGES": stages}, {"num_warps": triton_rows.row_warps(block)})


@softmax.provider(
    "triton-row", label="Triton (row)", requires="triton", sources=SOURCES, supports=triton_rows.long_rows
)
def triton_row(
    x: Tensor,
    *,
    BLOCK: int | None = None,
    num_warps: int | None = None,
    num_stages: int | None = None,
    num_ctas: int | None = None,
    maxnreg: int | None = None,
    enable_fp_fusion: bool | None = None,
) -> Tensor:
    """One program per row; BLOCK is the power of two that holds a row; 4 warps, 8 from BLOCK 2048, 16 from 4096."""
    if not x.numel():
        return torch.empty_like(x)
    launch = row_launch(x.shape[1], BLOCK).override(
        num_warps=num_warps,
        num_stages=num_stages,
        num_ctas=num_ctas,
        maxnreg=maxnreg,
        enable_fp_fusion=enable_fp_fusion,
    )
    return _run(launch, x)


@softmax.provider(
    "triton-persistent", label="Triton (persistent)", requires="triton", sources=SOURCES, supports=triton_rows.long_rows
)
def triton_persistent(
    x: Tensor,
    *,
    BLOCK: int | None = None,
    num_warps: int | None = None,
    num_stages: int | None = None,
    num_ctas: int | None = None,
    maxnreg: int | None = None,
    enable_fp_fusion: bool | None = None,
) -> Tensor:
    """As many programs as the device holds at once, each striding over the rows and loading `num_stages` - 1 ahead."""
    if not x.numel():
        return torch.empty_like(x)
    launch = persistent_launch(x.shape[1], x.element_size(), BLOCK, num_stages).override(
        num_warps=num_warps,
        num_ctas=num_ctas,
        maxnreg=maxnreg,
        enable_fp_fusion=enable_fp_fusion,
    )
    return _run(launch, x, persistent=True)


@softmax.provider("triton", label="Triton", requires="triton", sources=SOURCES)
def triton(
    x: Tensor,
    *,
    num_warps: int | None = None,
    num_ctas: int | None = None,
    maxnreg: int | None = None,
    enable_fp_fusion: bool | None = None,
) -> Tensor:
    """The kernel and the launch that `DISPATCH` names for N."""
    if not x.numel():
        return torch.empty_like(x)
    launch = dispatch(x.shape[1], triton_rows.warp_size(x.device)).override(
        num_warps=num_warps,
        num_ctas=num_ctas,
        maxnreg=maxnreg,
        enable_fp_fusion=enable_fp_fusion,
    )
    return _run(launch, x)


def _run(launch: Launch, x: Tensor, persistent: bool = False) -> Tensor:
    """Launch a kernel on the rows of x, with as many programs as the device holds where it is persistent, else with one
    for every row or tile. Raises Unsupported when the elements of a row are not neighbours in memory, or the programs
    are more than a launch can count."""
    from kbench.operators.softmax import triton_kernels

    if x.stride(1) != 1 and x.shape[1] > 1:
        raise Unsupported("the elements of a row are not next to each other in memory (stride(-1) is not 1)")
    kernel = getattr(triton_kernels, launch.kernel)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    arguments = (out, x, x.stride(0), *x.shape)
    programs = launch.programs(x.shape[0])
    if persistent:
        programs = min(programs, _resident_programs(kernel, launch, arguments, x.device))
    if programs > triton_rows.LARGEST_GRID:
        raise Unsupported(f"needs {programs} programs; one launch counts to {triton_rows.LARGEST_GRID}")
    kernel[(programs,)](*arguments, **launch.constants, **launch.options)
    return out


FIXED_PROGRAMS = {"npu": 32, "xpu": 32, "cpu": 4}
"""Programs of the persistent kernel where there is no occupancy to ask for. `cpu` is Triton's interpreter."""


def _resident_programs(kernel: Any, launch: Launch, arguments: tuple[Any, ...], device: torch.device) -> int:
    """How many programs of this launch the device holds at once.

    What one needs is asked of the kernel that Triton will launch. Triton finds that by every property it compiles for
    (dtype, alignment, divisibility, options), so it is asked each time rather than remembered by fewer of them.
    """
    if device.type in FIXED_PROGRAMS:
        return FIXED_PROGRAMS[device.type]
    compiled = kernel.warmup(*arguments, **launch.constants, **launch.options, grid=(1,))
    compiled._init_handles()  # loads the binary; the register count is known only then
    properties: Any = torch.cuda.get_device_properties(device)
    resident = occupancy(properties, launch.options["num_warps"], compiled.n_regs, compiled.metadata.shared)
    programs: int = resident * properties.multi_processor_count
    return programs


def occupancy(properties: Any, num_warps: int, registers: int, shared_bytes: int) -> int:
    """Programs that one multiprocessor holds at once, at least 1.

    `properties` are torch's device properties; a program has `num_warps` warps, each thread `registers` registers, and
    `shared_bytes` of shared memory. From the CUDA C++ Programming Guide, technical specifications per compute
    capability: registers are given out 256 to a warp, and each block takes 1 KiB of shared memory for the system.
    """
    threads = num_warps * properties.warp_size
    resident: int = min(
        32,  # blocks per multiprocessor on sm_80 and sm_90
        properties.max_threads_per_multi_processor // threads,
        properties.regs_per_multiprocessor // (threads * 8 * math.ceil(max(registers, 1) / 8)),
        properties.shared_memory_per_multiprocessor // (shared_bytes + 1024),
    )
    return max(resident, 1)

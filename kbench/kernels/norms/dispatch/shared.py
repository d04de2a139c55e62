"""The launches of gradients whose rows are shared by programs, and of the sums over the parts of the rows."""

from __future__ import annotations

import math
from typing import NamedTuple

from kbench.contract.provider import Unsupported
from kbench.kernels.norms.dispatch.launches import Launches, Processors, Step, even_programs, in_phases, warps_for
from kbench.kernels.triton_launch import power_of_two


class Sharing(NamedTuple):
    """How programs share rows. Each has up to `pieces` blocks of `piece` elements, of `rows` rows at a time. It has `warps`
    warps of 32 threads, and `resident` programs fit on a multiprocessor. With several `stages`, the next rows are on the way to
    shared memory, else one to registers."""

    piece: int
    pieces: int
    warps: int
    resident: int = 1
    stages: int = 1
    rows: int = 1


_VERY_FEW_ROWS = 16
"""Up to this many long rows in 16 bits, programs take several rows of a shorter slice. So fewer sums over the rows are added
up, and programs wait less often."""


def sharing(
    M: int, N: int, itemsize: int, vector: int, inputs: int, sums: int, wide: bool, device: Processors
) -> Sharing:
    """How programs share M rows of N elements, as `backward_plan` describes them. On sm_90, ptxas keeps the kernels for float32
    to as few registers as 384 or 512 threads of a multiprocessor have. Elsewhere there are 256 threads."""
    if not device.chained or (vector * itemsize == 4 and sums == 2):  # a mask for every 4 bytes takes registers, too
        return Sharing(2048, 1, warps=4, resident=2)
    if vector * itemsize == 4:
        return Sharing(2048, 1, warps=8, resident=2)
    if itemsize == 4 and N > 2**16:
        return Sharing(4096, 1, warps=16)
    if itemsize == 4:
        return Sharing(2048, 1, warps=8, resident=2, stages=3 if N % 2048 == 0 and inputs == 2 else 1)
    if M <= _VERY_FEW_ROWS and math.ceil(N / 1024) <= 2 * device.multiprocessors:
        rows = min(power_of_two(M), 2 if M <= 8 else 4)
        return Sharing(1024, 1, warps=4, resident=2, rows=rows)
    # instructions are the limit: there are fewest for an element if a thread has many of a row, as far as registers suffice
    short_of_registers = inputs > 2 or sums > 1
    if wide or (vector < 8 and short_of_registers):
        return Sharing(1024, 3, warps=4, resident=2)
    if not short_of_registers or (inputs == 2 and N > 2**16 and N % 4096 == 0):
        return Sharing(4096, 1, warps=8, resident=2)
    return Sharing(1024, 4, warps=4, resident=2)


def shared_rows_plan(M: int, N: int, itemsize: int, sums: int, device: Processors, way: Sharing) -> Launches:
    """Programs that stay and share rows. Rows of 16-bit elements begin at multiples of 4 bytes. Raises Unsupported if the
    device does not hold all programs of a row at once: they would wait forever."""
    slices = math.ceil(N / (way.piece * way.pieces))
    span = 64 * math.ceil(N / slices / 64)
    slices, pieces = math.ceil(N / span), math.ceil(span / way.piece)
    most = device.multiprocessors * way.resident
    if slices > most and not device.interpreted:
        raise Unsupported(f"a row of N={N} needs {slices} programs; this device holds {most} at once")
    tiles = math.ceil(M / way.rows)
    teams = even_programs(tiles, max(1, most // slices))
    full = N % span == 0 and span == way.piece * pieces and M % way.rows == 0
    constants = {"span": span, "tiles": tiles, "ROWS": way.rows, "BLOCK": way.piece, "PIECES": pieces, "FULL": full}
    constants |= {"WIDTH": power_of_two(slices), "PAIRS": 2 if itemsize == 2 else 1, "PTX": device.shared_bytes > 0}
    constants |= {"STAGES": way.stages, "ONE_TILE": teams == tiles}
    constants |= {"PDL": device.chained, "PHASE": 0}
    options = {"num_warps": max(1, way.warps * 32 // device.warp_size)}
    if device.shared_bytes:  # on NVIDIA; a thread gets registers by eights
        options["maxnreg"] = min(255, 2**16 // (way.resident * way.warps * 32) // 8 * 8)
        options["launch_cooperative_grid"] = True  # no program starts before all fit, also beside other launches
    step = Step("shared_rows.shared_rows", teams * slices, constants, options)
    return Launches((*in_phases(step, device), *adding_up(N, teams, sums, device)), slices, teams, teams=True)


def adding_up(N: int, parts: int, sums: int, device: Processors) -> tuple[Step, ...]:
    """The launch that adds up the parts of the sums over the rows; none if there is one part. A program that adds few parts has
    more columns: many short programs take longer than the work of each."""
    if parts == 1:
        return ()
    step = min(64, power_of_two(parts))
    width = (16 if N <= 2048 else 32) * 64 // step
    chained = {"launch_pdl": True} if device.chained else {}
    constants = {"STEP": step, "BLOCK": width, "PDL": device.chained}
    return (
        Step(
            "backward_kernels.add_up",
            math.ceil(N / width) * sums,
            constants,
            warps_for(step * width, 8, device) | chained,
        ),
    )

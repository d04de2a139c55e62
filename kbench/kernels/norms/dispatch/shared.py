"""The launches of gradients whose rows are shared by programs, and of the sums over the parts of the rows."""

from __future__ import annotations

import math

from kbench.contract.provider import Unsupported
from kbench.kernels.norms.dispatch.launches import Launches, Processors, Step, even_programs, in_phases, warps_for
from kbench.kernels.triton_rows import power_of_two


def shares(
    N: int, itemsize: int, vector: int, inputs: int, sums: int, device: Processors
) -> tuple[int, int, int, int, int]:
    """How `shared_rows_plan` shares a row: `piece`, `pieces`, `warps`, `resident` and `stages`. On sm_90, ptxas keeps these
    kernels to as few registers as 384 or 512 threads of a multiprocessor have. Elsewhere there are 256 threads."""
    if not device.chained or (vector * itemsize == 4 and sums == 2):  # a mask for every 4 bytes takes registers, too
        return 2048, 1, 4, 2, 1
    if vector * itemsize == 4:
        return 2048, 1, 8, 2, 1
    if itemsize == 2:
        return (4096, 1, 8, 2, 1) if sums == 1 else (1024, 3, 4, 2, 1)
    return (4096, 1, 16, 1, 1) if N > 2**16 else (2048, 1, 8, 2, 3 if N % 2048 == 0 and inputs == 2 else 1)


def shared_rows_plan(
    M: int,
    N: int,
    itemsize: int,
    sums: int,
    device: Processors,
    piece: int,
    pieces: int,
    warps: int,
    resident: int = 1,
    stages: int = 1,
    rows: int = 1,
    unroll: int = 1,
    keep: bool = True,
) -> Launches:
    """Programs that stay and share rows. Each has up to `pieces` blocks of `piece` elements of `rows` rows at a time, and
    `resident` programs fit on a multiprocessor. With several `stages`, the next rows are on the way to shared memory, else one
    to registers. `unroll` is how many turns the compiler writes out in a loop, and `keep` whether the weight stays in
    registers. Rows of 16-bit elements begin at multiples of 4 bytes. Raises Unsupported if the device does not hold all
    programs of a row at once: they would wait forever."""
    slices = math.ceil(N / (piece * pieces))
    span = 64 * math.ceil(N / slices / 64)
    slices, pieces = math.ceil(N / span), math.ceil(span / piece)
    most = device.multiprocessors * resident
    if slices > most and not device.interpreted:
        raise Unsupported(f"a row of N={N} needs {slices} programs; this device holds {most} at once")
    tiles = math.ceil(M / rows)
    teams = even_programs(tiles, max(1, most // slices))
    full = N % span == 0 and span == piece * pieces and M % rows == 0
    constants = {"span": span, "BLOCK": piece, "PIECES": pieces, "FULL": full, "WIDTH": power_of_two(slices)}
    constants |= {"PAIRS": 2 if itemsize == 2 else 1, "PTX": device.shared_bytes > 0, "STAGES": stages}
    constants |= {
        "PDL": device.chained,
        "PHASE": 0,
        "ROWS": rows,
        "tiles": tiles,
        "ONE_TILE": teams == tiles,
        "UNROLL": unroll,
        "KEEP": keep,
    }
    options = {"num_warps": max(1, warps * 32 // device.warp_size)}
    if device.shared_bytes:  # on NVIDIA; a thread gets registers by eights
        options["maxnreg"] = min(255, 2**16 // (resident * warps * 32) // 8 * 8)
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

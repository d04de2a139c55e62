"""Trial launches of the norms' forward pass, for rows_candidates.py: launches that are fastest on an H200 for some row lengths,
for row lengths at which they were not measured.

Those lengths are rows of 64 KiB or more, layernorm with float32 rows of 32 to 64 KiB, and layernorm with 16-bit rows of 4 to
16 KiB beside float32 weights. All their names begin with "trial".
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from kbench.kernels.norms.dispatch.launches import Launches, Processors
from kbench.kernels.norms.dispatch.teams import in_slices, teams
from kbench.kernels.norms.dispatch.twice import read_twice_unrolled
from kbench.kernels.norms.dispatch.wide_weights import held_beside_wide_weights
from kbench.kernels.triton_rows import power_of_two

Trials = Iterator[tuple[str, Launches]]

HINT = "evict_last"


def trials(operator: str, M: int, N: int, itemsize: int, wide: bool, device: Processors) -> Trials:
    """Launches that normalise M rows of N elements of `itemsize` bytes, with their names. `wide` is whether weights have more
    bytes than the elements of the rows."""
    if N * itemsize % 16:
        return
    if N > 2**14:
        yield from _shared(M, N, itemsize, device)
    elif operator == "layernorm" and itemsize == 4 and N > 2**13:
        for second in ("evict_first", ""):
            name = f"trial twice, unrolled, 32 warps{', then no hint' * (not second)}"
            yield name, read_twice_unrolled(M, N, 4, 32, (HINT, second, HINT), _limit(32, device))
    elif operator == "layernorm" and wide and 2**10 < N <= 2**13:
        yield from _beside_wide_weights(M, N, device)


def _shared(M: int, N: int, itemsize: int, device: Processors) -> Trials:
    """Programs that share a row: teams that stay, and slices. Four programs with 64 registers are on a multiprocessor, and
    three with up to 80."""
    for span, warps, resident in ((8192, 16, 1), (4096, 8, 2)):
        for stages in (3, 5) if itemsize == 2 else (3,):
            if plan := teams(M, N, itemsize, span, warps, resident, stages, device):
                yield f"trial teams in turn, {span}, {warps} warps, {stages} stages", plan
    if itemsize == 4 and math.ceil(N / 8192) <= device.multiprocessors and (N % 8192 == 0 or device.chained):
        cap = 64 if device.chained else 72  # on sm_80, they would spill with 64
        yield f"trial slices of 8192, 4 pieces, cap {cap}, hint", in_slices(M, N, 2048, 4, cap, HINT, device)


def _beside_wide_weights(M: int, N: int, device: Processors) -> Trials:
    """Rows of 4 to 16 KiB in 16 bits, which the dispatch loads 16 bytes at a time: it uses half of each line of the weights."""
    most = power_of_two(N)
    for rows, each, registers in ((1, 16, 64), (1, 8, 48), (2, 16, 88), (2, 8, 64)):
        warps = most // (each * 32)
        if warps <= 32:
            packed = device.shared_bytes > 0
            limit = _limit(registers, device)
            plan = held_beside_wide_weights(M, N, rows, 1, warps * 32 // device.warp_size, limit, 4, packed)
            yield f"trial {rows} rows, {warps} warps, cap {registers}", plan


def _limit(registers: int, device: Processors) -> int:
    """A limit of registers, which NVIDIA's compiler takes."""
    return registers if device.shared_bytes else 0

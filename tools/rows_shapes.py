"""The rows of measuring_rows.py, the most valuable first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

TALL = 2**26
"""Elements of a matrix with many rows."""

FIRST = (4096, 16384, 1024, 8192, 131072, 32768)
"""Row lengths: powers of two, on both sides of what a program, a block, and a cluster hold."""

LATER = (768, 11008, 65536, 262144, 2048, 1000, 4097, 50257, 128256, 151936, 5120, 7168, 12288, 2880)
"""Hidden and intermediate sizes and vocabularies of models, and rows that begin anywhere."""

FEW = ((64, 4096), (1, 4096), (64, 16384), (16, 8192), (8, 131072), (1024, 4096))
LATER_FEW = ((64, 1024), (1, 16384), (256, 8192), (16, 262144), (64, 131072), (4, 50257), (1, 1024), (2048, 2880))

VOCABULARIES = (128256, 32000, 4096, 262144, 151936, 50257)
FEW_TOKENS = ((64, 128256), (1, 128256), (16, 32000), (256, 128256), (1024, 151936), (64, 4096))


def rows_of(operator: str, mode: str, dtypes: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The rows of an operator in a mode. The first dtype comes first, and the others at the lengths of FIRST after its few
    rows."""
    losses = operator == "cross_entropy"
    first, few = (VOCABULARIES, FEW_TOKENS) if losses else (FIRST, FEW)
    later = [N for N in (*FIRST, *LATER) if N not in first]
    tall = [(max(1, TALL // N), N) for N in first]
    tall_later = [(max(1, TALL // N), N) for N in later]
    main, *others = dtypes
    plan = [(main, tall), (main, few), *((dtype, tall) for dtype in others), (main, tall_later)]
    plan += [(main, LATER_FEW), *((dtype, [*few, *tall_later]) for dtype in others)]
    for dtype, shapes in plan:
        for M, N in shapes:
            yield {"operator": operator, "mode": mode, "dtype": dtype, "M": M, "N": N}

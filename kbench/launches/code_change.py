"""Whether two measurements of a provider ran the same machine code and launched it alike, from the columns of results."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from kbench.launches.launched_call import UNSURE, machine_code_of
from kbench.results.row import Row

CLOCK_MOVED = 0.01
"""Clocks that differ by more than this share are said to have moved."""


class CodeChange(enum.StrEnum):
    """What became of the machine code of a provider's kernels. `SAME_NAMES`: the kernels have the same names, registers and
    versions of packages, and that is all that is known of them. `MIXED`: the code differs between the sessions of a side."""

    SAME = "same"
    SAME_NAMES = "same-names"
    OTHER = "other"
    MIXED = "mixed"


@dataclass(frozen=True)
class RanKernels:
    """What some rows of a provider in one case ran.

    codes    the values of their column `code`, without empty ones
    kernels  those of their column `kernels`
    sm_mhz   the mean clock; None if it is not known
    """

    codes: frozenset[str] = frozenset()
    kernels: frozenset[int] = frozenset()
    sm_mhz: float | None = None

    @classmethod
    def of(cls, rows: Sequence[Row]) -> RanKernels:
        clocks = [row.sm_mhz for row in rows if row.sm_mhz]
        return cls(
            frozenset(row.code for row in rows if row.code),
            frozenset(row.kernels for row in rows if row.kernels is not None),
            fmean(clocks) if clocks else None,
        )

    @property
    def machine_codes(self) -> frozenset[str]:
        return frozenset(map(machine_code_of, self.codes))


def code_change(old: RanKernels, new: RanKernels) -> CodeChange | None:
    """What became of the machine code; None if one side does not say what it ran."""
    before, after = old.machine_codes, new.machine_codes
    if not before or not after:
        return None
    if before == after:
        return CodeChange.SAME_NAMES if any(code.startswith(UNSURE) for code in before) else CodeChange.SAME
    return CodeChange.MIXED if before & after else CodeChange.OTHER


def describe_code_change(old: RanKernels, new: RanKernels, *, changed: bool) -> str:
    """What ran on two sides, in a few words for a reader who asks why a time has changed; empty if there is nothing to say.
    `changed`: the time has changed. Otherwise only another number of kernels is worth a word."""
    parts = []
    if old.kernels and new.kernels and old.kernels != new.kernels:
        new_count, old_count = (" or ".join(map(str, sorted(side.kernels))) for side in (new, old))
        noun = "kernel" if new_count == "1" else "kernels"
        parts.append(f"{new_count} {noun} per call instead of {old_count}")
    if changed:
        match change := code_change(old, new):
            case CodeChange.SAME | CodeChange.SAME_NAMES:
                parts.append(_alike(old, new, by_name=change is CodeChange.SAME_NAMES))
            case CodeChange.OTHER:
                unsure = all(any(code.startswith(UNSURE) for code in side.machine_codes) for side in (old, new))
                parts.append("other kernels, or other versions of their packages" if unsure else "other machine code")
            case CodeChange.MIXED:
                parts.append("the machine code differs between sessions")
    return "; ".join(parts)


def _alike(old: RanKernels, new: RanKernels, *, by_name: bool) -> str:
    """What is the same, and whether it was launched in the same way. `by_name`: only the names of the kernels are known."""
    if old.codes != new.codes:
        text = "kernels with the same names (their machine code is not known)" if by_name else "same machine code"
        return f"{text}, launched differently (grid, block, shared memory, copies or fills)"
    text = "same machine code and grid"
    if by_name:
        text = "kernels with the same names and grids (their machine code is not known)"
    return f"{text}{_clock(old, new)}"


def _clock(old: RanKernels, new: RanKernels) -> str:
    """What to add if the clock has moved."""
    if not old.sm_mhz or not new.sm_mhz or abs(new.sm_mhz / old.sm_mhz - 1) <= CLOCK_MOVED:
        return ""
    return f", but the clock was {new.sm_mhz:.0f} MHz instead of {old.sm_mhz:.0f} MHz"

"""How the code of two kernels differs: how many instructions of each kind they have, and a comparison line by line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from kbench.why.instructions import opcode

CONTEXT = 2
"""Equal lines around a difference."""

_REGISTER = re.compile(r"%\w+|\bU?[RPB]\d+(?:\.reuse)?\b|\.L\d+|\$L\w+")


def opcode_counts(listings: Sequence[Sequence[str]]) -> list[list[str]]:
    """For each kind of instruction how often the listings have it; those with the largest differences first."""
    counts = [Counter(filter(None, map(opcode, lines))) for lines in listings]
    kinds = sorted(set().union(*counts), key=lambda kind: (-_spread([count[kind] for count in counts]), kind))
    return [[kind, *(str(count[kind]) for count in counts)] for kind in kinds]


def changed_lines(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """The differences as `diff -u` writes them. Lines that differ only in the names of registers and labels count as equal:
    compilers rename them with every change."""
    matcher = SequenceMatcher(None, [_plain(line) for line in old], [_plain(line) for line in new], autojunk=False)
    for group in matcher.get_grouped_opcodes(CONTEXT):
        first, last = group[0], group[-1]
        yield f"@@ -{first[1] + 1},{last[2] - first[1]} +{first[3] + 1},{last[4] - first[3]} @@"
        for kind, a, b, c, d in group:
            if kind == "equal":
                yield from (f"  {line}" for line in new[c:d])
                continue
            yield from (f"- {line}" for line in old[a:b])
            yield from (f"+ {line}" for line in new[c:d])


def _plain(line: str) -> str:
    return " ".join(_REGISTER.sub("_", line).split())


def _spread(counts: Sequence[int]) -> int:
    return max(counts) - min(counts)

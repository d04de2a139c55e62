"""Takes the instructions of a kernel out of what cuobjdump prints, or out of a file of PTX, and compares those of two kernels.
Addresses become labels, and what only helps debuggers is left out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher

CONTEXT = 2
"""Equal lines around a difference."""

_FUNCTION = re.compile(r"\s*Function : (\S+)")
_SASS = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(.+?)\s*;\s*/\*")
_ARCHITECTURE = re.compile(r"\s*code for (\S+)")
_JUMP = re.compile(r"(?:@!?U?P\w+ )?(?:BRA|BRX|JMP|BSSY|CALL|RET|WARPSYNC)\b")
_ADDRESS = re.compile(r"0x[0-9a-f]+")
_ENTRY = re.compile(r"(?:\.visible |\.weak )?\.(?:entry|func)\b.*?([\w$]+)\(")
_REGISTER = re.compile(r"%\w+|\bU?[RPB]\d+(?:\.reuse)?\b|\.L\d+|\$L\w+")
_FOR_DEBUGGERS = re.compile(r"\s*(\.loc\b|//|$)|\$L__(tmp|func_begin|func_end)\w*:")


def sass_of(text: str, symbol: str) -> tuple[str, list[str]]:
    """The architecture of a kernel and its instructions, from the output of `cuobjdump --dump-sass`; ("", []) if it is not
    there. A library may have it for several architectures: the last one counts."""
    architecture, kernel_architecture, inside = "", "", False
    instructions: list[tuple[int, str]] = []
    for line in text.splitlines():
        if match := _ARCHITECTURE.match(line):
            architecture, inside = match[1], False
        elif match := _FUNCTION.match(line):
            inside = match[1] == symbol
            if inside:
                kernel_architecture, instructions = architecture, []
        elif inside and (match := _SASS.match(line)):
            instructions.append((int(match[1], 16), match[2]))
    return kernel_architecture, _labelled(instructions)


def ptx_of(text: str, symbol: str) -> list[str]:
    """The lines of a kernel in PTX, from its head to its closing brace; [] if it is not there."""
    lines, inside = [], False
    for line in text.splitlines():
        if not inside and (match := _ENTRY.match(line)):
            inside = match[1] == symbol
        if inside and not _FOR_DEBUGGERS.match(line):
            lines.append(line.partition("//")[0].rstrip().replace("\t", "    "))
        if inside and line.startswith("}"):
            return lines
    return lines


def opcode(instruction: str) -> str:
    """`@!P0 LDG.E.128 R4, desc[UR4][R2.64]` -> `LDG.E.128`; empty for a label or a line without an instruction."""
    words = [word for word in instruction.replace(";", " ").split() if not word.startswith("@")]
    return words[0] if words and re.fullmatch(r"[A-Za-z][\w.:]*(?<!:)", words[0]) else ""


def _labelled(instructions: Iterable[tuple[int, str]]) -> list[str]:
    """The instructions with labels in place of addresses, without the padding at the end."""
    used = list(instructions)
    while used and used[-1][1] == "NOP":
        used.pop()
    if used and _JUMP.match(used[-1][1]) and used[-1][1].endswith(f"{used[-1][0]:#x}"):  # an endless loop after the end
        used.pop()
    places = {f"{address:#x}" for address, _ in used}
    targets = sorted(
        {address for _, text in used if _JUMP.match(text) for address in _ADDRESS.findall(text) if address in places},
        key=lambda address: int(address, 16),
    )
    labels = {target: f".L{number}" for number, target in enumerate(targets, 1)}
    lines = []
    for address, text in used:
        if label := labels.get(f"{address:#x}"):
            lines.append(f"{label}:")
        named = _ADDRESS.sub(lambda match: labels.get(match[0], match[0]), text) if _JUMP.match(text) else text
        lines.append(f"    {' '.join(named.split())}")
    return lines


def opcode_counts(listings: Sequence[Sequence[str]]) -> list[list[str]]:
    """For each kind of instruction how often the listings have it; those with the largest differences first."""
    counts = [Counter(filter(None, map(opcode, lines))) for lines in listings]
    rows = [(kind, [count[kind] for count in counts]) for kind in sorted(set().union(*counts))]
    rows.sort(key=lambda row: min(row[1]) - max(row[1]))
    return [[kind, *map(str, numbers)] for kind, numbers in rows]


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

"""The code of the kernels of a call for people to read: SASS, which is the machine code, and PTX, from which it is made. And
how the code of two kernels differs.

NVIDIA's program cuobjdump shows the code in a cubin or a library. Addresses become labels, and what only helps debuggers is
left out.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from kbench.errors import ExecutionError
from kbench.launches.launched_call import MACHINE_CODE, Kernel, LaunchedCall
from kbench.launches.machine_code import PTX, code_folder, find_code

LANGUAGES = ("sass", "ptx")
"""What a listing may be written in."""

CONTEXT = 2
"""Equal lines around a difference."""

DISASSEMBLE_LIMIT_S = 120.0

_FUNCTION = re.compile(r"\s*Function : (\S+)")
_SASS = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(.+?)\s*;\s*/\*")
_ARCHITECTURE = re.compile(r"\s*code for (\S+)")
_JUMP = re.compile(r"(?:@!?U?P\w+ )?(?:BRA|BRX|JMP|BSSY|CALL|RET|WARPSYNC)\b")
_ADDRESS = re.compile(r"0x[0-9a-f]+")
_ENTRY = re.compile(r"(?:\.visible |\.weak )?\.(?:entry|func)\b.*?([\w$]+)\(")
_REGISTER = re.compile(r"%\w+|\bU?[RPB]\d+(?:\.reuse)?\b|\.L\d+|\$L\w+")
_FOR_DEBUGGERS = re.compile(r"\s*(\.loc\b|//|$)|\$L__(tmp|func_begin|func_end)\w*:")


@dataclass(frozen=True)
class Listing:
    """The code of a kernel.

    lines    of the listing; empty if there is none
    source   the file with the code, and for SASS the architecture
    remark   why there is no listing; "" if there is one
    """

    kernel: Kernel
    lines: tuple[str, ...] = ()
    source: str = ""
    remark: str = ""


def listings_of(call: LaunchedCall, language: str, csv: Path) -> Iterator[Listing]:
    """The listing of each kernel of a call of these results. Raises ExecutionError."""
    for kernel in {launch.kernel.id: launch.kernel for launch in call.launches}.values():
        path = find_code(csv, kernel)
        yield _listing(kernel, path, language) if path else Listing(kernel, remark=_missing(kernel, csv))


def _listing(kernel: Kernel, path: Path, language: str) -> Listing:
    """Raises ExecutionError if the file cannot be read."""
    if language == "sass":
        architecture, sass = sass_of(dump_code(["--dump-sass", "--function", kernel.symbol], path), kernel.symbol)
        if not sass:
            return Listing(kernel, remark=f"cuobjdump finds no such kernel in {path}")
        return Listing(kernel, tuple(sass), f"{path}, {architecture}")
    beside = path.with_suffix(PTX)
    text = beside.read_text(errors="replace") if beside.is_file() else dump_code(["--dump-ptx"], path)
    ptx = tuple(ptx_of(text, kernel.symbol))
    if not ptx:
        return Listing(kernel, remark=f"{path} has no PTX: it was compiled for its device only")
    return Listing(kernel, ptx, str(beside if beside.is_file() else path))


def _missing(kernel: Kernel, csv: Path) -> str:
    """Why there is no listing, and what to do."""
    if kernel.origin.startswith(MACHINE_CODE):
        return (
            f"{code_folder(csv)} has no file {kernel.code}.cubin or .so with its machine code; copy that folder here, or "
            "measure the row again"
        )
    return "kbench knows only its name: its machine code is in a large library, or was compiled in memory"


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
    # an endless loop after the end
    if used and _JUMP.match(used[-1][1]) and used[-1][1].endswith(f"{used[-1][0]:#x}"):
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


def _find_cuobjdump() -> str | None:
    """The path of the program in the first folder that also has nvdisasm, which it needs; None if there is none."""
    for folder in _folders():
        if shutil.which("nvdisasm", path=folder) and (program := shutil.which("cuobjdump", path=folder)):
            return program
    return None


def dump_code(options: Sequence[str], path: Path) -> str:
    """What cuobjdump prints about a file. Raises ExecutionError."""
    program = _find_cuobjdump()
    if not program:
        raise ExecutionError(
            "cuobjdump and nvdisasm, which show machine code, are missing; pip install triton, or install the CUDA toolkit"
        )
    try:
        ended = subprocess.run(
            [program, *options, str(path)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=DISASSEMBLE_LIMIT_S,
            check=False,
        )
    except OSError as error:
        raise ExecutionError(f"{program} cannot be started: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise ExecutionError(f"{program} took longer than {DISASSEMBLE_LIMIT_S:g} s on {path}") from None
    if ended.returncode:
        lines = ended.stderr.strip().splitlines() or ["no message"]
        raise ExecutionError(f"{program} cannot read {path}: {lines[-1]}")
    return ended.stdout


def _folders() -> Iterator[str]:
    yield from os.environ.get("PATH", os.defpath).split(os.pathsep)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if toolkit := os.environ.get(variable):
            yield str(Path(toolkit) / "bin")
    yield "/usr/local/cuda/bin"
    triton = importlib.util.find_spec("triton")  # does not import it
    for folder in triton.submodule_search_locations or [] if triton else []:
        yield str(Path(folder) / "backends" / "nvidia" / "bin")

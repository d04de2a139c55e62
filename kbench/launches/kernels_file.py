"""The file beside a results CSV that says what the rows' calls launch: JSON Lines, each device, kernel and call once.

    {"device": "NVIDIA H200", "multiprocessors": 132, "threads": 2048, "registers": 65536, ...}
    {"kernel": "1f0c...", "name": "softmax_kernel", "symbol": ..., "registers": 40, "local_bytes": 0, ...}
    {"call": "5d3a91b0-77be01d4", "launches": [{"kernel": "1f0c...", "grid": [4096, 1, 1], ...}], "memory": []}

A row's `code` is the name of its call. The name is made from the content, so a line never changes: a run that continues a
file adds lines, and files of several runs can be joined. A file may hold more calls than the CSV has rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from kbench import files
from kbench.launches.device_limits import DeviceLimits
from kbench.launches.launched_call import Kernel, KernelLaunch, LaunchedCall, MemoryOperation

MAX_BYTES = 64 << 20
"""A longer file is not read. This size holds some hundred thousand calls."""


@dataclass
class KernelsFile:
    """The content of a file: devices, kernels and calls by name. `note` says what is wrong with it; empty if nothing is.
    `there` is False if there is no such file."""

    devices: dict[str, DeviceLimits] = field(default_factory=dict)
    kernels: dict[str, Kernel] = field(default_factory=dict)
    calls: dict[str, LaunchedCall] = field(default_factory=dict)
    note: str = ""
    there: bool = True

    def device_lines(self, name: str, limits: DeviceLimits) -> Iterator[str]:
        """The line for a device, unless the file has it already. Adds the device to the content."""
        if name not in self.devices:
            self.devices[name] = limits
            yield json.dumps({"device": name} | asdict(limits))

    def call_lines(self, call: LaunchedCall) -> Iterator[str]:
        """The lines for a call, without those that the file has already. Adds the call to the content."""
        for launch in call.launches:
            if launch.kernel.id not in self.kernels:
                self.kernels[launch.kernel.id] = launch.kernel
                yield json.dumps({"kernel": launch.kernel.id} | asdict(launch.kernel))
        if call.code and call.code not in self.calls:
            self.calls[call.code] = call
            launches = [asdict(launch) | {"kernel": launch.kernel.id} for launch in call.launches]
            yield json.dumps({"call": call.code, "launches": launches, "memory": [asdict(one) for one in call.memory]})


def kernels_path(csv: Path | str) -> Path:
    """`results/softmax.csv` -> `results/softmax.kernels.jsonl`"""
    return Path(csv).with_suffix(".kernels.jsonl")


def read_kernels(csv: Path | str) -> KernelsFile:
    """The file beside a results CSV. A missing file is an empty one. If the file or a line of it cannot be read, the note says
    so: a run that was killed may have left half a line."""
    path = kernels_path(csv)
    found = KernelsFile()
    try:
        text = files.read_bytes(path, MAX_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        found.there = False
        return found
    except OSError as error:
        found.note = f"{path}: cannot be read ({error.strerror}); the kernels of its rows are not known"
        return found
    bad = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                _read_line(json.loads(line), found)
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                bad.append(number)
    if bad:
        found.note = (
            f"{path}:{bad[0]}: the line cannot be read; its kernels are not known"
            if len(bad) == 1
            else f"{path}: {len(bad)} lines cannot be read, the first is line {bad[0]}; their kernels are not known"
        )
    return found


def _read_line(line: Any, found: KernelsFile) -> None:
    """Add a line to the content. Raises ValueError, TypeError, KeyError and AttributeError for a line of another form."""
    if not isinstance(line, dict):
        raise TypeError("not an object")
    if "device" in line:
        found.devices[str(line["device"])] = _made(DeviceLimits, line)
    elif "kernel" in line:
        found.kernels[str(line["kernel"])] = _made(Kernel, line)
    elif "call" in line:
        launches = [_made(KernelLaunch, each | {"kernel": found.kernels[each["kernel"]]}) for each in line["launches"]]
        memory = [_made(MemoryOperation, each) for each in line["memory"]]
        found.calls[str(line["call"])] = LaunchedCall(tuple(launches), tuple(memory))


def _made(kind: Any, data: Mapping[str, Any]) -> Any:
    """A dataclass from JSON. Raises KeyError, TypeError and ValueError for data of another form."""
    values = {}
    for each in fields(kind):
        value = data[each.name]
        if each.type == "str":
            value = str(value)
        elif each.type == "int" or (each.type == "int | None" and value is not None):
            value = _count(value)
        elif each.type == "tuple[int, ...]":
            value = tuple(map(_count, value))
        values[each.name] = value
    return kind(**values)


def _count(value: Any) -> int:
    """A whole number that is not negative. Raises ValueError for another value."""
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError("not a count")
    return value

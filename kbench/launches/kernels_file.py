"""The file beside a results CSV that says what the rows' calls launch: JSON Lines, each device, kernel and call once.

    {"device": "NVIDIA H200", "multiprocessors": 132, "threads": 2048, "registers": 65536, ...}
    {"kernel": "1f0c...", "name": "softmax_kernel", "symbol": ..., "registers": 40, "local_bytes": 0, ...}
    {"call": "5d3a91b0-77be01d4", "launches": [{"kernel": "1f0c...", "grid": [4096, 1, 1], ...}], "memory": []}

A row's `code` is the name of its call. The name is made from the content, so a line never changes: a run that continues a
file adds lines, and files of several runs can be joined. A file may hold more calls than the CSV has rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from kbench.launches.launched_call import DeviceLimits, Kernel, LaunchedCall


@dataclass
class KernelsFile:
    """The content of a file: devices, kernels and calls by name. `note` says what is wrong with it; empty if nothing is."""

    devices: dict[str, DeviceLimits] = field(default_factory=dict)
    kernels: dict[str, Kernel] = field(default_factory=dict)
    calls: dict[str, LaunchedCall] = field(default_factory=dict)
    note: str = ""

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
            memory = [asdict(operation) for operation in call.memory]
            yield json.dumps({"call": call.code, "launches": launches, "memory": memory})


def kernels_path(csv: Path | str) -> Path:
    """`results/softmax.csv` -> `results/softmax.kernels.jsonl`"""
    return Path(csv).with_suffix(".kernels.jsonl")


def read_kernels(csv: Path | str) -> KernelsFile:
    """The file beside a results CSV. A missing file is an empty one. If the file or a line of it cannot be read, the note says
    so: a run that was killed may have left half a line."""
    path, content = kernels_path(csv), KernelsFile()
    try:
        lines = path.read_text("utf-8", "replace").split("\n")
    except FileNotFoundError:
        return content
    except OSError as error:
        content.note = f"{path}: cannot be read ({error.strerror}); the kernels of its rows are not known"
        return content
    bad = []
    for number, line in enumerate(lines, 1):
        try:
            if line.strip():
                _read_line(json.loads(line), content)
        except (ValueError, KeyError, TypeError):
            bad.append(number)
    if bad:
        numbers = ", ".join(map(str, bad))
        content.note = f"{path}:{numbers}: cannot be read; the kernels of such a line are not known"
    return content


def _read_line(line: Any, content: KernelsFile) -> None:
    """Add a line to the content. Raises KeyError, TypeError, and ValueError for a line of another form."""
    if not isinstance(line, dict):
        raise TypeError("not an object")
    if "device" in line:
        content.devices[line["device"]] = _LIMITS.validate_python(line)
    elif "kernel" in line:
        content.kernels[line["kernel"]] = _KERNEL.validate_python(line)
    elif "call" in line:
        launches = [launch | {"kernel": content.kernels[launch["kernel"]]} for launch in line["launches"]]
        content.calls[line["call"]] = _CALL.validate_python({"launches": launches, "memory": line["memory"]})


_LIMITS, _KERNEL, _CALL = TypeAdapter(DeviceLimits), TypeAdapter(Kernel), TypeAdapter(LaunchedCall)

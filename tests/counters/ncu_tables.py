"""Tables as `ncu --csv` prints them. The numbers were recorded on an NVIDIA H200; tests change some of them.

h200.ncu.csv is what Nsight Compute 2025.3 printed about the kernels of tests/measure/test_planted_faults_on_a_device.py on
4096 x 4096 float32, with `ncu --import REPORT --csv --page raw --print-units base --print-kernel-base mangled`. Columns that
kbench does not read are left out, and so are 17 of the 20 launches of `in-twenty`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

COLUMNS = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size", "Device",
    "CC",
)  # fmt: skip

MESSAGES = """==PROF== Connected to process 4711 (/usr/bin/python3.12)
==PROF== Profiling "rows" - 0: 0%....50%....100% - 19 passes
==PROF== Disconnected from process 4711
"""

STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"

_HEADER, _UNITS, *_LAUNCHES = csv.reader(Path(__file__).with_name("h200.ncu.csv").read_text().splitlines())

UNITS = dict(zip(_HEADER, _UNITS, strict=True))

RECORDED: Mapping[str, Mapping[str, str]] = {
    launch[_HEADER.index("Kernel Name")]: {
        name: value for name, value in zip(_HEADER, launch, strict=True) if "__" in name
    }
    for launch in _LAUNCHES
}
"""The metrics of each kernel by its name; of a kernel that was launched twice, those of the second launch."""

GOOD = RECORDED["straight"]
"""A launch of a kernel that reads and writes 64 MiB, and nothing is wrong with it."""


def _launch(number: int, name: str) -> list[str]:
    return [str(number), "4711", "python3.12", "127.0.0.1", name, "1", "7", "(128, 1, 1)", "(2112, 1, 1)", "0", "9.0"]


def _text(rows: Sequence[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return MESSAGES + text.getvalue()


def raw_page(*launches: tuple[str, Mapping[str, str]], units: Mapping[str, str] = UNITS) -> str:
    """`ncu --import REPORT --csv --page raw`: kernels and their metrics."""
    metrics = sorted({name for _, values in launches for name in values})
    rows = [[*COLUMNS, *metrics], ["" for _ in COLUMNS] + [units.get(name, "") for name in metrics]]
    for number, (kernel, values) in enumerate(launches):
        rows.append([*_launch(number, kernel), *(values.get(name, "n/a") for name in metrics)])
    return _text(rows)


def details_page(*launches: tuple[str, Mapping[str, str]], units: Mapping[str, str] = UNITS) -> str:
    """`ncu --import REPORT --csv --metrics ...`: a line for each metric."""
    rows = [[*COLUMNS, "Section Name", "Metric Name", "Metric Unit", "Metric Value"]]
    for number, (kernel, values) in enumerate(launches):
        rows += [
            [*_launch(number, kernel), "Command line profiler metrics", name, units.get(name, ""), value]
            for name, value in values.items()
        ]
    return _text(rows)

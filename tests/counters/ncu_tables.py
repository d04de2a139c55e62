"""Tables as `ncu --csv` prints them, made by hand from its documented format and from tables that others have published: the
columns of a launch come first, then the metrics by name; the second line of the raw page has the units. No such table was
recorded with kbench itself."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

COLUMNS = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size", "Device",
    "CC",
)  # fmt: skip

MESSAGES = """==PROF== Connected to process 4711 (/usr/bin/python3.12)
==PROF== Profiling "rows" - 0: 0%....50%....100% - 19 passes
==PROF== Disconnected from process 4711
"""

STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"

UNITS = {
    "gpu__time_duration.sum": "nsecond",
    "dram__bytes_read.sum": "byte",
    "dram__bytes_write.sum": "byte",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": "sector",
}

GOOD: Mapping[str, str] = {
    "dram__bytes_read.sum": "67,108,864",
    "dram__bytes_write.sum": "66,000,000",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "70.5",
    "gpu__time_duration.sum": "100,000",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": "131,072",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum": "131,072",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": "2,097,152",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_miss.sum": "2,097,152",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": "2,097,152",
    "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum": "0",
    "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum": "0",
    "launch__occupancy_limit_blocks": "32",
    "launch__occupancy_limit_registers": "16",
    "launch__occupancy_limit_shared_mem": "32",
    "launch__occupancy_limit_warps": "16",
    "lts__t_sector_hit_rate.pct": "50.25",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "20",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "85.1",
    STALLED.format("long_scoreboard"): "1.0",
    STALLED.format("long_scoreboard_not_issued"): "9.0",
    STALLED.format("math_pipe_throttle"): "1.0",
    STALLED.format("not_selected"): "2.0",
    STALLED.format("selected"): "1.0",
    STALLED.format("barrier"): "0.5",
    STALLED.format("wait"): "0.5",
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct": "100",
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.pct": "100",
}
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

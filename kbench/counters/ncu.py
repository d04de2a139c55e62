"""Nsight Compute as a program: where it is, and what it is asked to count."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kbench.counters.kernel_counters import NCU_METRICS

SECTIONS = ("SpeedOfLight", "MemoryWorkloadAnalysis", "WarpStateStats", "Occupancy", "LaunchStats")
"""Sections of Nsight Compute: throughputs, caches, why warps wait, and what limits the occupancy."""

READ_REPORT_LIMIT_S = 120.0
"""How long it may take to read a report."""

INSTALL = "install NVIDIA Nsight Compute (it is part of the CUDA toolkit), or put ncu on PATH"

MESSAGE_CHARACTERS = 300


class CountingFailed(Exception):
    """Nothing was counted. The message says why."""


@dataclass(frozen=True)
class NcuEnded:
    """A program that has ended, and what it printed."""

    code: int
    text: str


def find_ncu() -> str | None:
    """The path of the program; None if it is not installed."""
    homes = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    folders = [*(home / "bin" for home in homes), Path("/usr/local/cuda/bin")]
    for place, pattern in (("/opt/nvidia/nsight-compute", "*"), ("/usr/local", "cuda*/nsight-compute*")):
        folders += sorted(Path(place).glob(pattern), reverse=True)
    return shutil.which("ncu") or shutil.which("ncu", path=os.pathsep.join(map(str, folders)))


def count_options(report: str, *, cold: bool) -> list[str]:
    """The options with which Nsight Compute counts, also in the processes that a program starts, and writes a report. `cold`
    empties the caches before each kernel."""
    options = ["--target-processes", "all", "--clock-control", "none"]
    options += ["--cache-control", "all" if cold else "none"]
    for section in SECTIONS:
        options += ["--section", section]
    names = [name for metrics in NCU_METRICS.values() for name in metrics[:1]]
    return [*options, "--metrics", ",".join(names), "--force-overwrite", "--export", report]


def import_options(report: str) -> list[str]:
    """The options with which Nsight Compute prints a report as CSV. This needs no GPU."""
    return ["--import", report, "--csv", "--page", "raw", "--print-units", "base", "--print-kernel-base", "mangled"]


def run_limited(command: Sequence[str], limit_s: float) -> NcuEnded:
    """Run a program. It ends with all processes of its group after the limit. Raises CountingFailed."""
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise CountingFailed(f"{command[0]} cannot be started: {error.strerror}") from None
        try:
            code = process.wait(timeout=limit_s)
        except subprocess.TimeoutExpired:
            raise CountingFailed(f"{Path(command[0]).name} took longer than {limit_s:g} s") from None
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=5.0)
        output.seek(0)
        return NcuEnded(code, output.read(MAX_NCU_BYTES).decode("utf-8", "replace"))


MAX_NCU_BYTES = 64 << 20


def fault_of(ended: NcuEnded) -> str:
    """What went wrong in a run of Nsight Compute: its first error, or its last line."""
    lines = [line.strip() for line in ended.text.splitlines() if line.strip()]
    errors = [line.removeprefix("==ERROR==").strip() for line in lines if line.startswith("==ERROR==")]
    errors += [line for line in lines if line.startswith("error: ")]
    return (errors or lines or [f"it ended with exit code {ended.code} and said nothing"])[0 if errors else -1][
        :MESSAGE_CHARACTERS
    ]

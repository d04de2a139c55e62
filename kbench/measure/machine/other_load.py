"""Other load: how many cores of the host other processes kept busy during a case.

Linux reports how long each core was busy (/proc/stat) and how much CPU time each process used (/proc/PID/stat). Other load is
the busy time of the cores minus the CPU time of this worker, the processes that it started, and its parent. Other systems do
not report these numbers.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

PROC = Path("/proc")

SHORTEST_S = 0.2
"""The shortest time in s over which other load is computed. Linux counts in ticks of 10 ms, which is too coarse for less."""

BUSY = (0, 1, 2, 5, 6, 7)
"""Fields of a cpu line of /proc/stat that count as busy: user, nice, system, irq, softirq and steal. Idle and iowait do not
count. The guest fields do not count either, because `user` and `nice` include them."""


class OtherLoad:
    """The load of other processes since this object was made."""

    def __init__(self) -> None:
        self._start_s, self._busy, self._own = time.monotonic(), _busy(), _own()

    def cores(self) -> float | None:
        """The average number of cores that other processes have kept busy; None if unknown."""
        elapsed_s = time.monotonic() - self._start_s
        busy, own = _busy(), _own()
        if elapsed_s < SHORTEST_S or busy is None or self._busy is None or own is None or self._own is None:
            return None
        if busy <= self._busy:  # a sandbox may have the file without counting
            return None
        ticks = (busy - self._busy) - (own - self._own)
        return round(max(0.0, ticks / os.sysconf("SC_CLK_TCK") / elapsed_s), 2)


def _busy() -> int | None:
    """Ticks during which the cores that this process may use were busy."""
    try:
        lines = (PROC / "stat").read_text().splitlines()
        mine = {f"cpu{core}" for core in os.sched_getaffinity(0)}
        counts = [line.split() for line in lines]
        return sum(int(fields[1 + i]) for fields in counts if fields and fields[0] in mine for i in BUSY)
    except (OSError, AttributeError, IndexError, ValueError):  # not Linux, or a sandbox with another format
        return None


def _own() -> int | None:
    """Ticks that the processes of this worker's session (see getsid) and its parent have used."""
    try:
        session, parent = os.getsid(0), os.getppid()
        processes = [folder for folder in PROC.iterdir() if folder.name.isdecimal()]
        ours = [folder for folder in processes if _may_be_ours(int(folder.name), session, parent)]
        return sum(_ticks(folder, session, parent) for folder in ours)
    except (OSError, AttributeError):
        return None


def _may_be_ours(pid: int, session: int, parent: int) -> bool:
    """Whether a process need be looked at. To ask for its session takes a hundredth of the time of reading its file."""
    try:
        return pid == parent or os.getsid(pid) == session
    except OSError:
        return True


def _ticks(folder: Path, session: int, parent: int) -> int:
    """Ticks of a process and of its ended children. 0 if the process is not ours or has just ended."""
    try:
        fields = (
            (folder / "stat").read_text().rpartition(")")[2].split()
        )  # a process name may contain blanks and brackets
        if int(fields[3]) == session or int(folder.name) == parent:
            own = sum(int(field) for field in fields[11:13])
            return own + (sum(int(field) for field in fields[13:15]) if int(folder.name) != parent else 0)
    except (OSError, IndexError, ValueError):
        pass
    return 0

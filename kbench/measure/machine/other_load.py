"""Other load: how many cores of the host other processes kept busy during a case.

Linux reports how long each core was busy (/proc/stat), and how much of that each process used (/proc/PID/stat). The
difference between the two, without this worker, the processes it started, and its parent, is other load. Other systems
do not report it.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

PROC = Path("/proc")

SHORTEST_S = 0.2
"""The kernel counts in ticks of 10 ms: over less time than this, rounding would decide the result."""

BUSY = (0, 1, 2, 5, 6, 7)
"""Fields of a cpu line of /proc/stat that count as busy: user, nice, system, irq, softirq, steal. Not idle and iowait; not
the guests, which `user` includes already."""


class OtherLoad:
    """Counts from its construction."""

    def __init__(self) -> None:
        self._start_s, self._busy, self._own = time.monotonic(), _busy(), _own()

    def cores(self) -> float | None:
        """How many cores other processes have kept busy since, on average; None if unknown."""
        elapsed_s = time.monotonic() - self._start_s
        busy, own = _busy(), _own()
        if elapsed_s < SHORTEST_S or busy is None or self._busy is None or own is None or self._own is None:
            return None
        if busy <= self._busy:  # a sandbox that has the file, but does not count
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
    except (OSError, AttributeError, IndexError, ValueError):  # not Linux, or a sandbox with a file of its own
        return None


def _own() -> int | None:
    """Ticks that this worker's session of processes and its parent have used."""
    try:
        session, parent, total = os.getsid(0), os.getppid(), 0
        for folder in PROC.iterdir():
            if folder.name.isdecimal() and (ticks := _ticks(folder, session, parent)):
                total += ticks
        return total
    except (OSError, AttributeError):
        return None


def _ticks(folder: Path, session: int, parent: int) -> int:
    """Ticks of a process and its ended children; 0 for a process of others, and for one that has just ended."""
    try:
        fields = (folder / "stat").read_text().rpartition(")")[2].split()  # a name may hold blanks and brackets
        if int(fields[3]) == session or int(folder.name) == parent:
            own = sum(int(field) for field in fields[11:13])
            return own + (sum(int(field) for field in fields[13:15]) if int(folder.name) != parent else 0)
    except (OSError, IndexError, ValueError):
        pass
    return 0

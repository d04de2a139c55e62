"""Other load: how many cores of the host other processes kept busy during a case.

It is the time for which the cores were busy minus the CPU time of this worker, the processes that it started, and its parent.
"""

from __future__ import annotations

import time
from contextlib import suppress

SHORTEST_S = 0.2
"""The shortest time in s over which other load is computed. Linux counts in ticks of 10 ms, which is too coarse for less."""

BUSY = ("user", "nice", "system", "irq", "softirq", "steal")
"""The times of a core that count. The guest times do not, because `user` and `nice` include them."""


class OtherLoad:
    """The load of other processes since this object was made."""

    def __init__(self) -> None:
        self._start_s, self._busy, self._own_start_s = time.monotonic(), _busy_s(), _own_s()

    def cores(self) -> float | None:
        """The average number of cores that other processes have kept busy; None if unknown."""
        elapsed_s, busy = time.monotonic() - self._start_s, _busy_s()
        if elapsed_s < SHORTEST_S or busy is None or self._busy is None or busy <= self._busy:
            return None  # a sandbox may have the file without counting
        return round(max(0.0, ((busy - self._busy) - (_own_s() - self._own_start_s)) / elapsed_s), 2)


def _busy_s() -> float | None:
    """How long the cores that this process may use were busy; None where the system does not say."""
    import psutil

    try:
        cores = psutil.cpu_times(percpu=True)
        return sum(float(getattr(cores[core], name)) for core in psutil.Process().cpu_affinity() for name in BUSY)
    except (AttributeError, IndexError, OSError):  # not Linux, cores that are off, or a sandbox
        return None


def _own_s() -> float:
    """The CPU time of this worker and what it has started, also if ended, and of its parent."""
    import psutil

    worker = psutil.Process()
    total = 0.0
    for process in (worker, *worker.children(recursive=True)):
        with suppress(psutil.Error):  # it has just ended
            total += sum(process.cpu_times()[:4])  # user and system, its own and that of its ended children
    with suppress(psutil.Error):
        total += sum(psutil.Process(worker.ppid()).cpu_times()[:2])
    return total

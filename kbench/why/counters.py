"""The command that reads hardware counters of a row's kernel, for a machine that permits it."""

from __future__ import annotations

import re
import shlex

from kbench.why.facts import RowFacts

SECTIONS = ("SpeedOfLight", "MemoryWorkloadAnalysis", "WarpStateStats", "Occupancy")
"""Sections of NVIDIA Nsight Compute: bytes moved and L2 hit rate, why warps wait, and occupancy."""

SKIPPED = 3
"""Launches of the kernel before the one that is measured: the first ones compile and load."""


def ncu_command(facts: RowFacts) -> str:
    """A shell command that counts in one launch of the row's first kernel; empty if its kernel is not known."""
    if not facts.call or not facts.call.launches:
        return ""
    symbol = facts.call.launches[0].kernel.symbol
    settings = [f"{name}={value}" for name, value in [*facts.case.axes.items(), ("dtype", facts.case.dtype)]]
    run = ["kbench", "run", facts.config or "CONFIG", "--only", facts.name, "--no-plot", "--out", "/tmp/ncu"]
    for each in [*settings, "rounds=1", "kernels=false"]:
        run += ["--set", each]
    ncu = ["ncu", "--target-processes", "all", "--kernel-name-base", "mangled"]
    ncu += ["--kernel-name", f"regex:^{re.escape(symbol)}$", "--launch-skip", str(SKIPPED), "--launch-count", "1"]
    for section in SECTIONS:
        ncu += ["--section", section]
    return shlex.join([*ncu, *run])

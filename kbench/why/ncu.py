"""The command that measures a row again under NVIDIA Nsight Compute, which says how its kernels use the hardware."""

from __future__ import annotations

import re
import shlex

from kbench.why.facts import RowFacts

CALLS_BEFORE = 50
"""So many calls of a run are not counted: they build the provider, check it and warm it up."""


def ncu_command(facts: RowFacts) -> str:
    """The shell command; it counts in the kernels of one call. Empty if it is not known which kernels those are, or which
    config measured the row."""
    if not facts.call or not facts.call.launches or not facts.config:
        return ""
    launches = sum(launch.times for launch in facts.call.launches)
    symbols = sorted({re.escape(launch.kernel.symbol) for launch in facts.call.launches})
    kernels = ["--kernel-name-base", "mangled", "--kernel-name", f"regex:^({'|'.join(symbols)})$"]
    call = ["--launch-skip", str(CALLS_BEFORE * launches), "--launch-count", str(launches)]
    cache = "none" if facts.row.cache == "warm" else "all"
    how = ["--target-processes", "all", "--clock-control", "none", "--cache-control", cache, "--set", "full"]
    case = {"dtype": facts.row.case.dtype, **facts.row.case.axes}
    sets = [word for name, value in case.items() for word in ("--set", f"{name}={value}")]
    run = ["kbench", "run", facts.config, "--only", facts.name, *sets, "--no-plot", "--out", "counted"]
    return shlex.join(["ncu", *kernels, *call, *how, *run])

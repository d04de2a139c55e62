"""The commands that count what the kernels of a row do, with NVIDIA Nsight Compute, and that show the report."""

from __future__ import annotations

import re
import shlex

from kbench.counters.ncu import count_options
from kbench.why.facts import RowFacts

REPORT = "report.ncu-rep"

CALLS_BEFORE = 50
"""So many calls of a run are not counted: they build the provider, check it and warm it up."""


def count_command(facts: RowFacts) -> str:
    """The shell command that measures the row again under Nsight Compute, which counts in the kernels of one call and writes a
    report. Empty if it is not known which kernels those are, or which config measured the row."""
    if not facts.call or not facts.call.launches or not facts.config:
        return ""
    launches = sum(launch.times for launch in facts.call.launches)
    symbols = sorted({re.escape(launch.kernel.symbol) for launch in facts.call.launches})
    kernels = ["--kernel-name-base", "mangled", "--kernel-name", f"regex:^({'|'.join(symbols)})$"]
    call = ["--launch-skip", str(CALLS_BEFORE * launches), "--launch-count", str(launches)]
    case = {"dtype": facts.case.dtype, **facts.case.axes}
    sets = [word for name, value in case.items() for word in ("--set", f"{name}={value}")]
    run = ["kbench", "run", facts.config, "--only", facts.name, *sets, "--no-plot", "--out", "counted"]
    options = count_options(REPORT, cold=facts.cache != "warm")
    return shlex.join(["ncu", *kernels, *call, *options, *run])


def import_command(facts: RowFacts) -> str:
    """The shell command that shows the page of the row with that report."""
    return shlex.join(["kbench", "why", facts.file, "--row", facts.terms, "--import", REPORT])

"""What a plug-in calls to make operators of the plots of a script. `kbench init bench.py` writes such a plug-in."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from kbench.measure.machine.device import Device
from kbench.measure.scripts.script_run import time_plainly
from kbench.measure.tampering import settings
from kbench.sources.loading import load_plots


def load_script(path: str | Path, *arguments: str) -> list[str]:
    """Run a script that uses `triton.testing.perf_report`, with these arguments, and register its plots as operators.

    Returns their names. Raises ValueError for a script that runs no plot, and whatever the script raises.
    """
    sweeps = load_plots(Path(path).absolute(), arguments, partial(time_plainly, Device()), settings)
    return [sweep.operator for sweep in sweeps]

"""The caption: the machine, the method, and the rows that the picture does not show."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from kbench.analysis.files import ResultsFile
from kbench.analysis.metrics import Metric
from kbench.plotting.names import natural, shorten
from kbench.plotting.points import MARKED, VALUE
from kbench.results.vocabulary import Flag, Role, Status
from kbench.text.printable import printable

MOST_NAMES = 8
"""Providers that a list in the caption names."""


def labelled(source: ResultsFile, line: str, sources: Sequence[ResultsFile]) -> str:
    """A line on a file, after the label of the file if there are several."""
    return f"{source.label}: {line}" if len(sources) > 1 else line


def caption(
    sources: Sequence[ResultsFile],
    drawn: pd.DataFrame,
    metric: Metric | None,
    meaning: Sequence[str],
    *,
    bands: bool = True,
) -> str:
    """The lines under a picture.

    `drawn` are the points of all files, as `points` makes them. `metric` is None where the picture shows winners.
    `meaning` are lines of the picture's own. `bands` says whether the picture has bands.
    """
    lines = [labelled(source, machine_line(source), sources) for source in sources]
    lines += [method_line(sources, metric if bands else None), *meaning]
    lost = drawn[(drawn["role"] == Role.PROVIDER) & ~drawn["kind"].isin([VALUE, *MARKED])]
    outcomes = []
    for status, group in lost.groupby("status"):
        outcome = f"without {metric.name if metric else 'ms'}" if status == Status.OK.value else str(status)
        outcomes.append(f"{len(group)} {outcome} ({_list(group['curve'])})")
    if outcomes:
        lines.append(
            f"not drawn: {len(lost)} of {int((drawn['role'] == Role.PROVIDER).sum())} rows: {'; '.join(outcomes)}"
        )
    lines += [warning for source in sources for warning in source.warnings]
    return "\n".join(printable(line) for line in lines if line)


def machine_line(source: ResultsFile) -> str:
    """`NVIDIA H200 · driver 580.159.04 · torch 2.11.0 · triton 3.6.0 · 2026-11-20`, without the parts that are not known."""
    timed = source.frame[source.frame["status"].isin([Status.OK.value, Status.CHECKED.value])]
    devices = natural(set(timed["device"]) - {""}) or [source.environment.device or ""]
    driver, versions = source.environment.driver, source.environment.packages
    dates = sorted({str(moment)[:10] for moment in timed["started_at"] if moment})
    parts = [
        ", ".join(devices),
        f"driver {driver}" if driver else "",
        *(f"{name} {versions[name]}" for name in ("torch", "triton") if versions.get(name)),
        " to ".join(dict.fromkeys([dates[0], dates[-1]])) if dates else "",
    ]
    return " · ".join(part for part in parts if part)


def method_line(sources: Sequence[ResultsFile], metric: Metric | None = None) -> str:
    """`timer do_bench · cache cold · median of 3 sessions`, and how many rows are noisy."""
    timed = pd.concat([source.frame[source.frame["status"] == Status.OK.value] for source in sources])
    sessions = max((int(source.frame["session"].nunique()) for source in sources), default=1)
    parts = [f"{name} {'/'.join(sorted(set(timed[name]) - {''}))}" for name in ("timer", "cache") if any(timed[name])]
    parts += [f"median of {sessions} sessions"] if sessions > 1 else []
    parts += (
        ["band: p20 to p80"] if metric and any(f"{metric.column}_p20" in source.frame for source in sources) else []
    )
    noisy = int(timed["flags"].map(lambda flags: Flag.NOISY in flags.split(";"))[timed["role"] == Role.PROVIDER].sum())
    parts += [f"{noisy} of {int((timed['role'] == Role.PROVIDER).sum())} rows noisy"] if noisy else []
    return " · ".join(parts)


def _list(curves: pd.Series[str]) -> str:
    names = natural(set(curves))
    short = shorten(names)
    shown = ", ".join(short[name] for name in names[:MOST_NAMES])
    return shown + (f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")

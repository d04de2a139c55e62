"""The machine, its software and the method of measurement, with the files side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from kbench.analysis.files import ResultsFile
from kbench.results.row import CONDITION_COLUMNS
from kbench.results.vocabulary import Role, Status

OF_THE_RUN = (
    "config", "command", "measure", "profile", "baseline", "started_at", "finished_at", "interrupted", "env_id",
    "plugin_errors", "places",
)  # fmt: skip
"""Entries of the environment file about the run, not about the machine."""

DATES = ("command", "started_at", "finished_at")
"""Entries that differ between any two runs. The page does not mark their differences."""

BYTES = ("cache_bytes", "total_memory")
MIB = 2**20

DIFFERS = "≠ differs"

SideBySide = tuple[list[str], list[list[str]]]
"""The heads and the rows of a table with a line for each property and a column for each file."""


def machine(sources: Sequence[ResultsFile]) -> SideBySide:
    """The machine of each file, in a single column where all are the same."""
    known = [_machine(source.environment.entries()) for source in sources]
    alike = len(sources) > 1 and all(each == known[0] for each in known)
    return _side_by_side(["all files"], known[:1]) if alike else _side_by_side(_labels(sources), known)


def method(sources: Sequence[ResultsFile]) -> SideBySide:
    """How each file was measured."""
    return _side_by_side(_labels(sources), [_method(source) for source in sources])


def runs(sources: Sequence[ResultsFile]) -> list[dict[str, str]]:
    """What repeats the measurement of each file: the command and the config, where the environment file has them."""
    known = []
    for source in sources:
        environment = source.environment
        path, text = (environment.config.path or "", environment.config.text or "") if environment.config else ("", "")
        known.append({"file": source.label, "command": " ".join(environment.command), "path": path, "text": text})
    return [run for run in known if run["command"] or run["text"]]


def _side_by_side(labels: Sequence[str], known: Sequence[dict[str, str]]) -> SideBySide:
    """A line per property that at least one file has. A missing value is no difference."""
    rows = []
    for name in dict.fromkeys(name for values in known for name in values):
        values = [each.get(name, "") for each in known]
        differs = len(set(values) - {""}) > 1 and name not in DATES
        rows.append([name, *values, DIFFERS if differs else ""])
    return ["", *labels, ""], rows


def _labels(sources: Sequence[ResultsFile]) -> list[str]:
    return [source.label for source in sources]


def _machine(environment: Mapping[str, Any]) -> dict[str, str]:
    return _flat({name: value for name, value in environment.items() if name not in OF_THE_RUN})


def _method(source: ResultsFile) -> dict[str, str]:
    """Device, timer, cache, sessions and medians from the rows; settings from the environment file."""
    frame, environment = source.frame, source.environment.entries()
    timed = frame[(frame["status"] == Status.OK.value) & (frame["role"] == Role.PROVIDER)]
    known = {name: "/".join(sorted(set(timed[name]) - {""})) for name in CONDITION_COLUMNS}
    known |= {"sessions": str(frame["session"].nunique()), "rows": str(len(frame))}
    known |= _flat({name: environment.get(name) for name in ("baseline", "profile")})
    settings = environment.get("measure")
    if isinstance(settings, Mapping):
        known |= {name: value for name, value in _flat(settings).items() if name not in known}
    known |= {
        "large copy (median)": _median(timed["ceiling_gbps"], "GB/s"),
        **_matmuls(timed),
        "SM clock (median)": _median(timed["sm_mhz"], "MHz"),
        "power (median)": _median(timed["power_w"], "W"),
        "temperature (median)": _median(timed["temp_c"], "°C"),
        "throttled by": ", ".join(sorted({word for cell in timed["throttle"] for word in cell.split(";") if word})),
    }
    command, config = environment.get("command"), environment.get("config")
    known["command"] = " ".join(map(str, command)) if isinstance(command, list) else ""
    known["config sha"] = str(config.get("sha", "")) if isinstance(config, Mapping) else ""
    known |= _flat({name: environment.get(name) for name in ("started_at", "finished_at", "plugin_errors")})
    return {name: value for name, value in known.items() if value}


def _matmuls(timed: pd.DataFrame) -> dict[str, str]:
    """The compute ceiling of each dtype that has one."""
    found = timed.groupby("dtype", sort=False)["ceiling_tflops"].median().dropna()
    return {f"large {dtype} matmul (median)": f"{tflops:.3g} TFLOP/s" for dtype, tflops in found.items()}


def _flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested entries under dotted names, without empty values."""
    found: dict[str, str] = {}
    for name, value in data.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping):
            found |= _flat(value, f"{path}.")
        elif name in BYTES and isinstance(value, int):
            found[path] = f"{value / MIB:,.0f} MiB"
        elif isinstance(value, bool):
            found[path] = "yes" if value else "no"
        elif isinstance(value, list):
            found |= {path: ", ".join(map(str, value))} if value else {}
        elif value is not None and value != "":
            found[path] = str(value)
    return found


def _median(values: pd.Series[float], unit: str) -> str:
    median = values.dropna().median()
    return "" if pd.isna(median) else f"{median:,.0f} {unit}"

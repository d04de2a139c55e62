"""Makes histories: the results file of a night, with controls and an environment file, and folders of many nights."""

from __future__ import annotations

import datetime
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from making import failed, row, write_rows

from kbench.history.storage.adding import add_results
from kbench.results.row import Row

SIZES = (256, 512, 1024)
FIRST = datetime.datetime(2026, 9, 1, 2, tzinfo=datetime.UTC)


@dataclass
class Night:
    """What is different in a night. `factors` multiply the times of a provider; `statuses` replace them."""

    factors: Mapping[str, float] = field(default_factory=dict)
    statuses: Mapping[str, str] = field(default_factory=dict)
    machine: float = 1.0
    sources: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)
    absent: tuple[str, ...] = ()
    sessions: int = 1
    copies: bool = True


def moment(night: int) -> str:
    return (FIRST + datetime.timedelta(days=night)).isoformat(timespec="seconds")


def results(path: Path, number: int, night: Night, providers: tuple[str, ...] = ("torch", "mine")) -> Path:
    """The results file of a night. The noise is 0.4 %, the same in every run of the tests."""
    draw = random.Random(number)
    rows: list[Row] = []
    for session in range(night.sessions):
        shared = night.machine * draw.lognormvariate(0, 0.006)
        for n in SIZES:
            common = {
                "session": session,
                "started_at": moment(number),
                "env_id": "e1",
                "device_uuid": "GPU-1",
                **night.fields,
            }
            for provider in providers:
                noise = shared * draw.lognormvariate(0, 0.004)
                if provider in night.absent:
                    continue
                own = {**common, "source_hash": night.sources.get(provider, "aaa")}
                if status := night.statuses.get(provider):
                    rows.append(failed(n, status, provider, **own))
                else:
                    rows.append(row(n, 0.01 * noise * night.factors.get(provider, 1.0), provider, **own))
            if night.copies:
                noise = shared * draw.lognormvariate(0, 0.004)
                rows.append(row(n, 0.01 * noise, "copy", role="control", **common))
    path.unlink(missing_ok=True)
    write_rows(path, rows)
    environment = {
        "env_id": "e1", "device": "NVIDIA H200", "driver": "580.1", "packages": {"torch": "2.9.0", "triton": "3.5.0"},
        "baseline": "torch", "git": {"commit": f"{number:040x}", "dirty": False}, "measure": {"rounds": 5},
        **night.environment,
    }  # fmt: skip
    path.with_suffix(".env.json").write_text(json.dumps(environment))
    return path


def history(folder: Path, nights: int, of: Callable[[int], Night] = lambda night: Night(), first: int = 0) -> Path:
    """A history of so many nights in `folder / "history"`."""
    for number in range(first, first + nights):
        add_results(results(folder / "nightly.csv", number, of(number)), folder / "history")
    return folder / "history"

"""Makes histories: the rows of a night, with controls and an environment, in memory and as files."""

from __future__ import annotations

import datetime
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from making import failed, row, write_rows

from kbench.history.report import HistoryOptions, HistoryReport, judge_runs
from kbench.history.timeline import Run
from kbench.results.environment import Environment
from kbench.results.row import Row

FIRST = datetime.datetime(2026, 9, 1, 2, tzinfo=datetime.UTC)


@dataclass
class Night:
    """What is different in a night. `factors` multiply the times of a provider; `statuses` replace them. `fields` are those of
    all rows, `mine` those of the rows of `mine`. All fail at the size `fails_at`."""

    factors: Mapping[str, float] = field(default_factory=dict)
    statuses: Mapping[str, str] = field(default_factory=dict)
    machine: float = 1.0
    sources: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)
    mine: Mapping[str, Any] = field(default_factory=dict)
    absent: tuple[str, ...] = ()
    sessions: int = 1
    copies: bool = True
    providers: tuple[str, ...] = ("torch", "mine")
    sizes: tuple[int, ...] = (256, 512, 1024)
    fails_at: int | None = None


Of = Callable[[int], Night]


def rows_of(number: int, night: Night) -> list[Row]:
    """The rows of a night. The noise is 0.4 %, the same in every run of the tests."""
    draw = random.Random(number)
    rows: list[Row] = []
    moment = (FIRST + datetime.timedelta(days=number)).isoformat(timespec="seconds")
    for session in range(night.sessions):
        shared = night.machine * draw.lognormvariate(0, 0.006)
        for n in night.sizes:
            common = {
                "session": session, "started_at": moment, "env_id": "e1", "device_uuid": "GPU-1", **night.fields,
            }  # fmt: skip
            for provider in night.providers:
                noise = shared * draw.lognormvariate(0, 0.004)
                own = {**common, "source_hash": night.sources.get(provider, "aaa")}
                own |= night.mine if provider == "mine" else {}
                if provider in night.absent:
                    continue
                if status := night.statuses.get(provider) or ("wrong" if n == night.fails_at else ""):
                    rows.append(failed(n, status, provider, **own))
                else:
                    rows.append(row(n, 0.01 * noise * night.factors.get(provider, 1.0), provider, **own))
            if night.copies:
                noise = shared * draw.lognormvariate(0, 0.004)
                rows.append(row(n, 0.01 * noise, "copy", role="control", **common))
    return rows


def environment_of(number: int, night: Night) -> dict[str, Any]:
    return {
        "env_id": "e1", "device": "NVIDIA H200", "driver": "580.1", "packages": {"torch": "2.9.0", "triton": "3.5.0"},
        "baseline": "torch", "git": {"commit": f"{number:040x}", "dirty": False}, "measure": {"rounds": 5},
        **night.environment,
    }  # fmt: skip


def judged(nights: int, of: Of = lambda number: Night(), **options: Any) -> HistoryReport:
    """A judged history of so many nights."""
    runs = [
        Run(Path("nightly.csv"), rows_of(number, night), Environment.model_validate(environment_of(number, night)))
        for number, night in ((number, of(number)) for number in range(nights))
    ]
    return judge_runs(Path("history"), runs, HistoryOptions(**options))


def history(folder: Path, nights: int, of: Of = lambda number: Night()) -> Path:
    """A history of so many nights in `folder / "history"`, with a folder for each night."""
    for number in range(nights):
        place = folder / "history" / f"night-{number:02d}"
        place.mkdir(parents=True)
        write_rows(place / "nightly.csv", rows_of(number, of(number)))
        (place / "nightly.env.json").write_text(json.dumps(environment_of(number, of(number))))
    return folder / "history"

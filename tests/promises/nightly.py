"""A planted history: the results of eight nights, in which a provider becomes slower."""

from __future__ import annotations

import datetime
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from promises.outside import write_results

Fields = Mapping[str, object]

HISTORY_SIZES = (256, 1024)
NIGHTS = 8
CHANGED = 4
"""The place of the first night after a planted change. It is 2026-09-05."""


@dataclass(frozen=True)
class Run:
    """The results file of a night: its rows, and what its environment file says."""

    rows: Sequence[Fields]
    environment: Mapping[str, object] = field(default_factory=dict)


def make_history(folder: Path, runs: Sequence[Run]) -> Path:
    """A history of runs, in the order of time, as `folder / "history"`. Only this function and `add` know how one is made."""
    for number, run in enumerate(runs):
        add(folder / "history" / f"night-{number}", run)
    return folder / "history"


def add(folder: Path, run: Run) -> None:
    """Write the results file of a run, and its environment file, into a folder below a history."""
    folder.mkdir(parents=True)
    path = write_results(folder / "nightly.csv", run.rows)
    environment = {"env_id": "e1", "device": "NVIDIA H200", **run.environment}
    path.with_suffix(".env.json").write_text(json.dumps(environment))


def night(number: float, factor: float = 1.0, machine: float = 1.0, torch: float = 1.0, **mine: object) -> Run:
    """A night with two providers and the copy control. Times scatter by 0.4 %, the same in every test. Those of `mine` are
    multiplied by `factor`, those of `torch` by `torch`, all by `machine`. `mine` replaces fields of the rows of `mine`."""
    draw = random.Random(number)
    shared = {"started_at": started_at(number), "source_hash": "a1", "env_id": "e1"}
    rows: list[Fields] = []
    for n in HISTORY_SIZES:
        for provider, role, ms in (
            ("torch", "provider", torch),
            ("mine", "provider", 0.5 * factor),
            ("copy", "control", 0.4),
        ):
            noise = draw.lognormvariate(0, 0.004)
            row = {"N": n, "provider": provider, "role": role, "ms": machine * ms * noise * n / 1e4, **shared}
            rows.append(row | mine if provider == "mine" else row)
    return Run(rows)


def started_at(number: float) -> str:
    return (datetime.datetime(2026, 9, 1, 2, tzinfo=datetime.UTC) + datetime.timedelta(days=number)).isoformat()


def nights(of: Callable[[int], Run] = night, count: int = NIGHTS) -> list[Run]:
    return [of(number) for number in range(count)]

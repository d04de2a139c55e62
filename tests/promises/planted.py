"""Results files with planted outcomes: who is fastest where, what ties, what cannot be told, what failed, and what changed."""

from __future__ import annotations

import math
import random
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from promises.outside import write_results

Row = Mapping[str, object]

SIZES = (256, 512, 1024, 2048)
NOISE = "0.4 %"
"""By how much the two timings of the baseline differ in each case."""

QUIET = (1.0, 1.001, 0.999, 1.0005, 0.9995)
"""The times of five rounds over their median."""

REASON = "3 of 1048576 elements differ, all in column 255"


def row(provider: str, us: float, rounds: Sequence[float] = QUIET, **fields: object) -> Row:
    """A row with a time: `us` times the median of the rounds."""
    ms = [us / 1e3 * each for each in rounds]
    measured = {
        "provider": provider, "ms": statistics.median(ms), "ms_p20": min(ms), "ms_p80": max(ms),
        "round_ms": ";".join(map(repr, ms)), "samples": 100, "max_ulp": 1.5,
    }  # fmt: skip
    return {**measured, **fields}


def case(n: int, times_us: Mapping[str, float], rounds: Mapping[str, Sequence[float]], **fields: object) -> list[Row]:
    """The rows of a case. The first provider is the baseline, which the control `repeat` measures again."""
    baseline_us, bytes_moved = next(iter(times_us.values())), 2 * 4 * 4096 * n
    copy_us = baseline_us / 4
    timed = [(name, us, "provider") for name, us in times_us.items()]
    timed += [("repeat", baseline_us * 1.004, "control"), ("copy", copy_us, "control")]
    return [
        row(
            name, us, rounds.get(name, QUIET), N=n, role=role, gbps=bytes_moved / us / 1e3, copy_fraction=copy_us / us,
            speedup=baseline_us / us, **fields,
        )
        for name, us, role in timed
    ]  # fmt: skip


def planted(sessions: int = 1) -> list[Row]:
    """`fast` is the fastest for N=256 and 512, ties with `even` for N=1024, and may be as fast as `even` or not for N=2048.
    `torch` is the baseline and takes N us, twice as long as `fast`. `broken` is wrong, `picky` declines N=256."""
    apart = {"even": (0.97, 1.05, 0.96, 1.0, 1.04), "fast": (1.0, 0.96, 1.05, 1.03, 0.97)}
    rows: list[Row] = []
    for session in range(sessions):
        for n in SIZES:
            even = {256: 0.9 * n, 512: 0.9 * n, 1024: 0.5 * n * 1.002}.get(n, 0.5 * n * 1.015)
            times_us = {"torch": 1.0 * n, "fast": 0.5 * n, "even": even}
            if n > 256:
                times_us["picky"] = 0.8 * n
            rows += case(n, times_us, apart if n == 2048 else {}, session=session)
            rows.append(lost("broken", n, "wrong", REASON, session=session))
        rows.append(lost("picky", 256, "unsupported", "N is too small", session=session))
    return rows


def lost(provider: str, n: int, status: str, reason: str, **fields: object) -> Row:
    """A row without a time."""
    return {"provider": provider, "N": n, "status": status, "reason": reason, **fields}


Times = Mapping[str, Mapping[int, float | str]]
"""Provider -> N -> milliseconds, or a status without a time."""

UNCHANGED, EDITED = {"source_hash": "a1", "env_id": "e1"}, {"source_hash": "b1", "env_id": "e1"}
"""Whether the code of a provider is known to be the same in two files."""


def write_sessions(
    path: Path,
    times: Times,
    *,
    sessions: int = 3,
    noise: float = 0.002,
    stamps: Mapping[str, Row] | None = None,
    **fields: object,
) -> Path:
    """A results file of these times, in which each time of a session has its own deviation. `copy` and `repeat` are controls;
    `stamps` are further columns of a provider, `fields` of all rows."""
    draw = random.Random(path.name)
    rows: list[Row] = []
    for session in range(sessions):
        for provider, by_size in times.items():
            kind = {"provider": provider, "session": session, **fields, **(stamps or {}).get(provider, {})}
            if provider in ("copy", "repeat"):
                kind["role"] = "control"
            for n, value in by_size.items():
                if isinstance(value, str):
                    rows.append(
                        kind | {"N": n, "status": value, "reason": fields.get("reason", f"{provider} is {value} here")}
                    )
                    continue
                ms = value * math.exp(draw.gauss(0, noise))
                rounds = [ms * math.exp(draw.gauss(0, noise / 4)) for _ in range(5)]
                rows.append(
                    kind | {"N": n, "ms": statistics.median(rounds), "round_ms": ";".join(map(repr, rounds)), "samples": 100,
                            "gbps": 2 * 4096 * n * 4 / ms / 1e6}
                )  # fmt: skip
    return write_results(path, rows)


def write_planted(path: Path, sessions: int = 1) -> Path:
    return write_results(path, planted(sessions))


def write_slower(folder: Path) -> tuple[Path, Path]:
    """Two files of three sessions. In the second, `fast` takes 10 % longer."""
    new = [{**each, "ms": 1.1 * float(str(each["ms"]))} if each["provider"] == "fast" else each for each in planted(3)]
    new = [{**each, "started_at": "2026-11-21T10:00:00+00:00"} for each in new]
    return write_planted(folder / "old.csv", 3), write_results(folder / "new.csv", new)


def picture_words(path: Path) -> list[str]:
    """The texts of an SVG. Programs that draw letters as outlines leave each text beside them as a comment."""
    svg = path.read_text(encoding="utf-8")
    found: Iterable[tuple[str, str]] = re.findall(r"<!-- (.*?) -->|<text[^>]*>(.*?)</text>", svg, re.DOTALL)
    return [re.sub(r"<[^>]*>", "", comment or text).strip() for comment, text in found]

"""Makes the history that docs/history.md shows: 36 simulated nights of softmax, with changes at known nights.

    python tools/history_sample.py history
    kbench history check history                     the sample of the page
    kbench history plot history --format png         its picture; the other one with --theme dark

The times are drawn with a fixed seed, so they are the same everywhere. The pictures of the page were reduced to 128 colours.
"""

from __future__ import annotations

import argparse
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

from kbench.history.storage.folder import add_file
from kbench.history.storage.stored_run import STORED_FORMAT, StoredReading, StoredRun
from kbench.results.timers import TICK_MS
from kbench.results.vocabulary import Role, Status

NIGHTS = 36
FIRST = datetime(2026, 9, 1, 2, tzinfo=UTC)
SHARED, OWN = 0.006, 0.004
"""The noise of a night: of all its times together, and of each. A share."""

US = {256: 5.4, 512: 9.1, 1024: 16.3, 2048: 32.6}
"""By N, the time of a copy of 4096 x N in float32 in us."""

SLOWNESS = {"torch-native": 1.3, "triton": 1.0, "cuda": 0.97, "copy": 1.0}
"""The time of each provider, and of the control, relative to a copy."""

NEW_TRITON, NEW_KERNEL, WRONG = 11, 28, 32
"""The nights that change something: triton 3.6, which makes its long rows faster; a commit that makes them slower; a fault."""


def made_run(night: int) -> StoredRun:
    """The run of a night."""
    draw = random.Random(night)
    shared = draw.lognormvariate(0, SHARED)
    readings = [_reading(night, n, name, shared * draw.lognormvariate(0, OWN)) for n in US for name in SLOWNESS]
    packages = {"packages.torch": "2.10.0", "packages.triton": "3.6.0" if night >= NEW_TRITON else "3.5.1"}
    return StoredRun(
        schema=STORED_FORMAT,
        source="softmax.csv",
        added_at=_moment(night),
        baseline="torch-native",
        commit="0a57cb53ba" if night >= NEW_KERNEL else "bc33ea4e26",
        environments={"7d1c": {"device": "NVIDIA H200", "driver": "580.95", **packages}},
        readings=readings,
    )


def _reading(night: int, n: int, provider: str, noise: float) -> StoredReading:
    factor = 1.0
    if provider == "triton" and n > 512:
        factor = (0.94 if night >= NEW_TRITON else 1.0) * (1.045 if night >= NEW_KERNEL else 1.0)
    wrong = provider == "cuda" and n == 256 and night >= WRONG
    ms = round(US[n] * SLOWNESS[provider] * factor * noise / 1000 / TICK_MS) * TICK_MS
    return StoredReading(
        operator="softmax",
        provider=provider,
        axes={"M": 4096, "N": n, "mode": "forward"},
        dtype="float32",
        role=Role.CONTROL if provider == "copy" else Role.PROVIDER,
        session=0,
        status=Status.WRONG if wrong else Status.OK,
        reason="3 of 1048576 elements NaN, all in column 255" if wrong else "",
        ms=None if wrong else ms,
        timer="do_bench",
        cache="cold",
        device="NVIDIA H200",
        device_uuid="GPU-5a8c",
        started_at=_moment(night),
        case_hash="91f6",
        source_hash="c41a" if provider == "triton" and night >= NEW_KERNEL else "3b07",
        env_id="7d1c",
    )


def _moment(night: int) -> str:
    return (FIRST + timedelta(days=night)).isoformat()


def write_sample(folder: Path) -> None:
    for night in range(NIGHTS):
        add_file(folder, made_run(night))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    write_sample(parser.parse_args().folder)

"""Makes the tables of scaling.md on several devices of one host. Needs two devices or more.

    python tools/scaling_devices.py time  CONFIG OUT [OPTIONS OF kbench run]    how much faster the sweep is on all
    python tools/scaling_devices.py share CONFIG OUT [OPTIONS OF kbench run]    what sharing the host costs in accuracy

`time` runs the sweep on device 0, then on all devices. `share` runs it on device 0, in turn alone and while the other
devices are busy with the same sweep. It makes two runs of each kind and compares their means row by row, beside the
difference of two runs of one kind. All results stay in OUT.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pandas as pd

import kbench

KEY = ["provider", "params", "M", "N", "dtype", "role"]

FROM_MS = 0.02
"""Shorter kernels say more about events than about neighbours."""

ROUNDS = 2


def time_all(config: Path, folder: Path, options: list[str]) -> None:
    warm(config, folder, options)
    one_s, all_s = (run(config, folder / which, "--devices", which, *options) for which in ("0", "all"))
    devices = devices_of(folder / "all", config)
    print(f"{devices} devices: {one_s:.1f} s on one, {all_s:.1f} s on all, {all_s / one_s:.3f} of the time")


def share_host(config: Path, folder: Path, options: list[str]) -> None:
    warm(config, folder, options)
    others = ",".join(map(str, range(1, devices_of(folder / "warm", config))))
    for number in range(ROUNDS):
        run(config, folder / f"alone-{number}", "--devices", "0", *options)
        with busy(config, folder / f"neighbours-{number}", "--devices", others, *options):
            run(config, folder / f"shared-{number}", "--devices", "0", *options)
    alone, shared = ([read(folder / f"{kind}-{n}", config) for n in range(ROUNDS)] for kind in ("alone", "shared"))
    print("| rows from 20 us on | compared | median | 95 % within | worst |\n|---|---|---|---|---|")
    show("alone against alone", alone[0]["ms"], alone[1]["ms"])
    show("shared against shared", shared[0]["ms"], shared[1]["ms"])
    show("alone against shared", middle(alone), middle(shared))


def warm(config: Path, folder: Path, options: list[str]) -> None:
    """Compile everything, measure next to nothing."""
    run(config, folder / "warm", "--devices", "all", *options, "--set", "rounds=1", "--set", "rep_ms=1")


def devices_of(out: Path, config: Path) -> int:
    return int(read(out, config)["device_uuid"].nunique())


def run(config: Path, out: Path, *options: str) -> float:
    """Run the sweep. Returns the seconds of measuring, as the environment file has them: starting the workers not included."""
    subprocess.run(command(config, out, *options), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    told = json.loads((out / f"{config.stem}.env.json").read_text())
    begin, end = (datetime.fromisoformat(told[name]) for name in ("started_at", "finished_at"))
    return (end - begin).total_seconds()


def command(config: Path, out: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "kbench", "run", str(config), "--no-plot", "--out", str(out), *options]


@contextmanager
def busy(config: Path, out: Path, *options: str) -> Iterator[None]:
    """Measure meanwhile, from the first finished case on."""
    arguments = command(config, out, *options, "--sessions", "20")
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr
    while not process.stderr.readline().startswith("["):
        if process.poll() is not None:
            raise SystemExit("the neighbours did not start")
    subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)  # nobody reads on
    try:
        yield
        if process.poll() is not None:
            raise SystemExit("the neighbours were done too early")
    finally:
        process.terminate()
        process.wait()
        time.sleep(2)


def read(out: Path, config: Path) -> pd.DataFrame:
    rows = kbench.load(out / f"{config.stem}.csv")
    return rows[rows["ms"].notna()].set_index(KEY)


def middle(frames: list[pd.DataFrame]) -> pd.Series:
    return pd.concat([frame["ms"] for frame in frames], axis=1).mean(axis=1)


def show(what: str, before: pd.Series, after: pd.Series) -> None:
    change = (after / before - 1)[before >= FROM_MS].dropna().abs() * 100
    print(
        f"| {what} | {len(change)} | {change.median():.2f} % | {change.quantile(0.95):.2f} % | {change.max():.2f} % |"
    )


if __name__ == "__main__":
    {"time": time_all, "share": share_host}[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])

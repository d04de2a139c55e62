"""Measures a case several times in two ways, in turns, in one process. The tools that compare two ways of measuring use it.

The two sides take turns, so a clock or a temperature that drifts moves both alike.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import kbench
from kbench.measure.case import CaseRun
from kbench.measure.machine.device import Device
from kbench.measure.machine.telemetry import Nothing
from kbench.measure.session.measurements import SessionMeasurements
from kbench.protocol import Configuration, MeasureSettings
from kbench.results.row import Row
from kbench.results.vocabulary import Status


@dataclass
class Measured:
    """The timed rows of a case by provider, and the wall time of measuring it."""

    rows: dict[str, Row]
    wall_s: float


class Bench:
    """A device and the settings of a comparison."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.device = Device()
        self.device.set_up()
        self.device.use_threads(None)
        self.measured = SessionMeasurements(Nothing())
        self.divide: int = options.divide
        self.settings = MeasureSettings(
            options.timer, options.cache, False, 10, options.rep_ms, 3, 0, timeout_s=120, build_timeout_s=600
        )

    def run(self, name: str, axes: dict[str, int | str], providers: Sequence[str]) -> Measured:
        """Measures the case once. A row without a time is printed with its reason."""
        operator = kbench.operator(name)
        sizes = {axis: x // self.divide if isinstance(x, int) else x for axis, x in axes.items()}
        case = operator.case(**({"dtype": "bfloat16"} | sizes))
        start = time.perf_counter()
        rows = CaseRun(
            operator,
            case,
            [Configuration(provider, {}) for provider in providers],
            baseline=0,
            settings=self.settings,
            session=0,
            device=self.device,
            telemetry=Nothing(),
            emit=lambda event: None,
            measured=self.measured,
        ).run()
        elapsed = time.perf_counter() - start
        for row in rows:
            if row.status not in (Status.OK, Status.CHECKED, Status.UNAVAILABLE):
                print(f"  {row.case.label} {row.provider}: {row.status.value} {row.reason}")
        return Measured({row.provider: row for row in rows if row.ms}, elapsed)


def options(doc: str | None) -> argparse.ArgumentParser:
    """The options that all comparisons have."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--timer", default="do_bench")
    parser.add_argument("--cache", default="cold")
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--rep-ms", type=float, default=20)
    parser.add_argument("--divide", type=int, default=1, help="divide all sizes by this: for a host")
    return parser


class Table:
    """Compares two ways of measuring case by case, and prints a line for each provider that both sides timed."""

    def __init__(self, a: str, b: str, repeats: int) -> None:
        self.repeats = repeats
        self.ratios: dict[str, list[float]] = {"provider": [], "control": []}
        print(f"| case | provider | {a}, us | {b}, us | {b} / {a} | wall s {a} | wall s {b} |")
        print("|---" * 7 + "|")

    def compare(self, a: Callable[[], Measured], b: Callable[[], Measured]) -> None:
        """Calls both functions in turns, after one call of `b` that compiles, and prints the medians."""
        b()
        found: list[tuple[Measured, Measured]] = []
        for repeat in range(self.repeats):
            if repeat % 2:
                second, first = b(), a()
            else:
                first, second = a(), b()
            found.append((first, second))
        walls = [median(pair[side].wall_s for pair in found) for side in (0, 1)]
        for provider, row in found[0][0].rows.items():
            pairs = [
                (first.rows[provider].ms or 0, second.rows[provider].ms or 0)
                for first, second in found
                if provider in first.rows and provider in second.rows
            ]
            if not pairs or provider == "empty":
                continue
            ratio = median(after / before for before, after in pairs)
            self.ratios["control" if provider == "copy" else "provider"].append(ratio)
            us = [median(pair[side] * 1e3 for pair in pairs) for side in (0, 1)]
            print(
                f"| {row.case.label} | {provider} | {us[0]:.2f} | {us[1]:.2f} | {ratio - 1:+.2%} "
                f"| {walls[0]:.2f} | {walls[1]:.2f} |",
                flush=True,
            )

    def summary(self) -> None:
        for kind, ratios in self.ratios.items():
            off = sorted(abs(ratio - 1) for ratio in ratios)
            if off:
                within = sum(each < 0.01 for each in off)
                print(
                    f"\n{kind}: {len(off)} rows, median {median(off):.2%}, {within} within 1 %, largest {off[-1]:.2%}"
                )

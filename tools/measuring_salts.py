"""Prints how far salts move the readings: the same providers with and without them, in turns, in one process.

    python tools/measuring_salts.py [--timer graph] [--cache warm] [--repeats 4] [--moving] [--only OPERATOR]

"Without" means that the inputs neither change before a timed call nor move between rounds, and that no output is kept. The
place of an input in memory alone moves a short kernel by up to 2 %. With --moving the inputs move between rounds on both sides,
so the difference comes from the changed inputs and the kept outputs only.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from unittest.mock import patch

import kbench
from kbench.measure.case import CaseRun
from kbench.measure.machine.device import Device
from kbench.measure.machine.telemetry import Nothing
from kbench.measure.rounds import Rounds
from kbench.measure.salting.watch import Watch
from kbench.measure.session.measurements import SessionMeasurements
from kbench.protocol import Configuration, MeasureSettings
from kbench.results.case import Case
from kbench.results.row import Row
from kbench.results.vocabulary import Status

CASES = [
    *(("softmax", {"M": 4096, "N": n}, ["torch-native", "triton"]) for n in (256, 1024, 4096, 12672)),
    *(("gelu", {"M": 4096, "N": n}, ["torch-native", "triton"]) for n in (256, 4096, 16384)),
    *(("layernorm", {"M": 4096, "N": n}, ["torch-native", "triton"]) for n in (1024, 4096)),
    ("layernorm", {"M": 4096, "N": 4096, "mode": "full"}, ["torch-native"]),
    ("add_rmsnorm", {"M": 4096, "N": 4096}, ["torch-native", "triton"]),
    ("cross_entropy", {"M": 4096, "V": 32000}, ["torch-native", "triton"]),
    ("cross_entropy", {"M": 4096, "V": 32000, "mode": "backward"}, ["torch-native"]),
    ("quantize_fp8", {"M": 4096, "N": 4096}, ["torch-native", "triton"]),
    ("matmul", {"M": 2048, "N": 2048, "K": 2048}, ["torch-native", "triton"]),
    ("matmul", {"M": 2048, "N": 2048, "K": 2048, "mode": "backward"}, ["torch-native"]),
]


@contextmanager
def without_salts(moving: bool) -> Iterator[None]:
    take = Rounds._take

    def still(self: Rounds, *rest: object) -> None:
        self.moves = self.moves and moving
        take(self, *rest)  # type: ignore[arg-type]

    nothing = {name: lambda self: None for name in ("before", "after", "fault")}
    with patch.multiple(Watch, **nothing), patch.object(Rounds, "_take", still):
        yield


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--timer", default="do_bench")
    parser.add_argument("--cache", default="cold")
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--rep-ms", type=float, default=20)
    parser.add_argument("--divide", type=int, default=1, help="divide all sizes by this: for a host")
    parser.add_argument("--moving", action="store_true", help="let the inputs move between rounds on both sides")
    parser.add_argument("--only", default="", help="measure the cases of this operator only")
    options = parser.parse_args()
    device = Device()
    device.set_up()
    device.use_threads(None)
    measured = SessionMeasurements(Nothing())
    settings = MeasureSettings(
        options.timer, options.cache, False, 10, options.rep_ms, 3, 0, timeout_s=120, build_timeout_s=600
    )

    def run(name: str, axes: dict[str, int | str], providers: list[str]) -> tuple[dict[str, Row], float]:
        operator = kbench.operator(name)
        case: Case = operator.case(
            "bfloat16", **{axis: x // options.divide if isinstance(x, int) else x for axis, x in axes.items()}
        )
        start = time.perf_counter()
        rows = CaseRun(
            operator,
            case,
            [Configuration(provider, {}) for provider in providers],
            baseline=0,
            settings=settings,
            session=0,
            device=device,
            telemetry=Nothing(),
            emit=lambda event: None,
            measured=measured,
        ).run()
        elapsed = time.perf_counter() - start
        for row in rows:
            if row.status not in (Status.OK, Status.CHECKED, Status.UNAVAILABLE):
                print(f"  {row.case.label} {row.provider}: {row.status.value} {row.reason}")
        return {row.provider: row for row in rows if row.ms}, elapsed

    print(f"{device.name}, {options.timer}, {options.cache}\n")
    print("| case | provider | without, us | with, us | with / without | wall s without | wall s with |")
    print("|---" * 7 + "|")
    ratios: dict[str, list[float]] = {"provider": [], "control": []}
    for name, axes, providers in CASES:
        if options.only not in ("", name):
            continue
        run(name, axes, providers)  # compiles
        found: list[tuple[dict[str, Row], float, dict[str, Row], float]] = []
        for repeat in range(options.repeats):
            with_first = repeat % 2
            if with_first:
                salted = run(name, axes, providers)
            with without_salts(options.moving):
                plain = run(name, axes, providers)
            if not with_first:
                salted = run(name, axes, providers)
            found.append((*plain, *salted))
        walls = [median(each[at] for each in found) for at in (1, 3)]
        for provider in found[0][0]:
            pairs = [(a[provider].ms, b[provider].ms) for a, _, b, _ in found if provider in b and provider in a]
            if not pairs or provider == "empty":
                continue
            ratio = median(b / a for a, b in pairs if a and b)
            ratios["control" if provider == "copy" else "provider"].append(ratio)
            label = found[0][0][provider].case.label
            us = [median((pair[at] or 0) * 1e3 for pair in pairs) for at in (0, 1)]
            print(
                f"| {label} | {provider} | {us[0]:.2f} | {us[1]:.2f} | {ratio - 1:+.2%} | {walls[0]:.2f} | {walls[1]:.2f} |"
            )
    for kind, values in ratios.items():
        values.sort(key=lambda ratio: abs(ratio - 1))
        if values:
            off = [abs(ratio - 1) for ratio in values]
            within = sum(each < 0.01 for each in off)
            print(f"\n{kind}: {len(off)} rows, median {median(off):.2%}, {within} within 1 %, largest {off[-1]:.2%}")


if __name__ == "__main__":
    main()

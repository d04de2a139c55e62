"""All sessions of a comparison in Go's benchmark format, for a second opinion: `benchstat -col label FILE`.

The format is documented in https://golang.org/design/14313-benchmark-format. The configuration `label` tells the sides
apart, the baseline first. Each session is a line.
"""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import quote

from kbench.comparison.join import Key, Reading, Side
from kbench.comparison.model import Comparison
from kbench.comparison.presentation.wording import plain
from kbench.results.vocabulary import Status

OWN_UNITS = frozenset({"ms", "gbps"})
"""Metrics that every line has already, as ns/op and GB/s."""


def text(comparison: Comparison) -> str:
    metric = comparison.rules.metric
    lines = ["# Read with: benchstat -col label FILE", "Unit ns/op better=lower", "Unit GB/s better=higher"]
    if metric not in OWN_UNITS:
        lines.append(f"Unit {metric} better={'lower' if comparison.rules.compared.lower_is_better else 'higher'}")
    for label, sides in _by_label(comparison).items():
        lines += ["", f"label: {plain(label)}"]
        lines += [
            f"{_name(key)} {_result(reading, metric)}" for key, side in sides.items() for reading in side.readings
        ]
    return "\n".join(lines) + "\n"


def _by_label(comparison: Comparison) -> dict[str, dict[Key, Side]]:
    found: dict[str, dict[Key, Side]] = {label: {} for label in (comparison.baseline, *comparison.contenders)}
    for row in comparison.rows:
        for label, side in ((comparison.baseline, row.old), (row.contender, row.new)):
            if side and side.status is Status.OK and not side.suspect:
                found[label][row.key] = side
    return found


def _result(reading: Reading, metric: str) -> str:
    samples = int(reading.samples) if reading.samples and 1 <= reading.samples < 2**31 else 1
    told = f"{samples} {reading.ms * 1e6:.10g} ns/op"
    if reading.gbps:
        told += f" {reading.gbps:.10g} GB/s"
    return told if metric in OWN_UNITS else f"{told} {reading.value:.10g} {metric}"


def _name(key: Key) -> str:
    """`BenchmarkSoftmax/provider=triton/M=4096/N=8192/dtype=bfloat16`. The dash before a number at its end is escaped, because
    the number would be read as a count of processors."""
    parts = {"provider": key.configuration_name, **dict(key.axes), "dtype": key.dtype}
    told = (f"/{_escape(name)}={_escape(str(value))}" for name, value in parts.items() if value != "")
    operator = _escape(key.operator)
    name = f"Benchmark{operator[:1].upper()}{operator[1:]}{''.join(told)}"
    return re.sub(r"-(?=\d+$)", "%2D", name)


@lru_cache(maxsize=10_000)
def _escape(word: str) -> str:
    """A word with spaces and slashes escaped as in URLs, because they end names and parts of names."""
    return quote(plain(word), safe="[]{}()=,:;+*!?@&|<>'~^.")

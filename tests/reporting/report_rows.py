"""Rows for the tests of the page, and the page in a browser."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kbench.execute.writer import Writer
from kbench.results.case import Case
from kbench.results.row import Row
from kbench.results.vocabulary import Role

SIZES = (256, 512, 1024, 2048)
SCRIPT, IMAGE, BOLD = "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "<b>bold</b>&amp;"
"""Names that have an effect if a browser takes them for markup."""


def report_row(
    provider: str, n: int = 256, ms: float = 1.0, dtype: str = "float32", m: int = 4096, **fields: Any
) -> Row:
    """A row that is ok, at a bandwidth that follows from its time, unless `status` says otherwise."""
    case = Case("softmax", {"M": m, "N": n}, dtype)
    measured: dict[str, Any] = {"reason": "it is so"}
    if fields.get("status", "ok") == "ok":
        speed = case.itemsize * m * n * 2 / ms / 1e6
        measured = {"ms": ms, "ms_p20": ms * 0.9, "ms_p80": ms * 1.2, "max_ulp": 1.5, "copy_fraction": 0.5}
        measured |= {"gbps": speed, "gbps_p20": speed / 1.2, "gbps_p80": speed / 0.9}
    constant = {
        "timer": "do_bench",
        "cache": "cold",
        "device": "NVIDIA H200",
        "started_at": "2026-11-20T10:00:00+00:00",
    }
    return Row(case, provider, **{**constant, **measured, **fields})


def rivals(*providers: str, ns: Iterable[int] = SIZES, **fields: Any) -> list[Row]:
    """Every provider at every size with its controls: the first is the baseline, each next one 10 % faster than it."""
    found = []
    for n in ns:
        for place, provider in enumerate(providers):
            speedup = 1 + place / 10
            found.append(report_row(provider, n, n / 1e4 / speedup, speedup=speedup, **fields))
        found.append(report_row("copy", n, n / 2e4, role=Role.CONTROL, **fields))
        found.append(report_row("repeat", n, n / 1e4 / 1.001, role=Role.CONTROL, speedup=1.001, **fields))
    return found


def save_results(path: Path, rows: Iterable[Row], environment: dict[str, Any] | None = None) -> Path:
    rows = list(rows)
    Writer(path, tuple(rows[0].case.axes) if rows else ("M", "N")).write(rows)
    if environment is not None:
        path.with_suffix(".env.json").write_text(json.dumps(environment))
    return path


ENVIRONMENT = {
    "device": "NVIDIA H200",
    "driver": "580.1",
    "peak_gbps": 4814.3,
    "packages": {"torch": "2.11", "triton": "3.6"},
    "baseline": "first",
    "started_at": "2026-11-20T10:00:00+00:00",
    "measure": {"rounds": 5, "rep_ms": 20.0},
    "command": ["kbench", "run", "sweep.yaml"],
    "config": {"path": "sweep.yaml", "sha": "abc", "text": "operator: softmax  # </pre><script>alert(1)</script>\n"},
}

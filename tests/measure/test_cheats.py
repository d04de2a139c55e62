"""Providers that cheat the clock are wrong or suspect, and never ahead. The graph timer and its refusals."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest
from common import PLUGINS, ROOT, Kbench

pytestmark = pytest.mark.gpu

VALUES, MEMORY = "elements? (wrong|NaN|zero)", "returned the same memory for two calls"
TIMED = "wrong while it was timed"

CORPUS = ROOT / "tests" / "cheats"

CHEATS = {
    "side-stream": VALUES,
    "other_stream": VALUES,
    "by-pointer": f"{VALUES}|{MEMORY}",
    "version_cache": f"{TIMED}|{MEMORY}",
    "skips-work": VALUES,
}

SWEEP = """
operator: softmax
sweep: {{M: 4096, N: [256, 4096], dtype: float32}}
providers: [torch-native, triton, {providers}]
baseline: torch-native
plugins: [{plugins}]
measure: {{warmup_ms: 5, rep_ms: 20, rounds: 2, {measure}}}
"""


def rows(kbench: Kbench, write_config, tmp_path: Path, providers: list[str], measure: str) -> pd.DataFrame:
    files = [PLUGINS / "cheats.py", *(CORPUS / f"{name}.py" for name in ("other_stream", "version_cache"))]
    text = SWEEP.format(providers=", ".join(providers), plugins=", ".join(map(str, files)), measure=measure)
    done = kbench("run", write_config(text), "--no-plot")
    assert "Traceback" not in done.stderr, done.stderr
    return pd.read_csv(tmp_path / "results" / "sweep.csv", dtype={"flags": str, "reason": str})


def test_cheats_are_caught(kbench: Kbench, write_config, tmp_path: Path) -> None:
    found = rows(kbench, write_config, tmp_path, list(CHEATS), "cache: cold")
    for n in (256, 4096):
        at_n = found[n == found.N].set_index("provider")
        for name, reason in CHEATS.items():
            row = at_n.loc[name]
            assert row.status == "wrong" or "suspect" in str(row.flags), f"{name} N={n}: {row.status} {row.ms}"
            if row.status == "wrong":
                assert re.search(reason, row.reason), f"{name} N={n}: {row.reason}"
        assert at_n.loc["torch-native"].status == at_n.loc["triton"].status == "ok"


def test_the_graph_timer_agrees_with_events_on_long_kernels(kbench: Kbench, write_config, tmp_path: Path) -> None:
    events = rows(kbench, write_config, tmp_path, ["not-capturable"], "timer: do_bench")
    graph = rows(kbench, write_config, tmp_path, ["not-capturable"], "timer: graph")
    assert set(graph[graph.status == "ok"].timer) == {"graph"}
    refused = graph[graph.provider == "not-capturable"]
    assert (refused.status == "unsupported").all()
    assert refused.reason.str.contains("cannot be captured in a CUDA graph").all()
    for name in ("torch-native", "triton", "copy"):
        pick = [f[(f.N == 4096) & (f.provider == name)].ms.item() for f in (events, graph)]
        assert pick[0] * 0.8 < pick[1] < pick[0] * 1.05, (name, pick)
    empty = graph[graph.provider == "empty"].ms
    assert (empty < events[events.provider == "empty"].ms.min()).all()

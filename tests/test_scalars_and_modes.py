"""Scalars and modes after a run: a run that goes on and every command that reads results tell its cases apart."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from common import PLUGINS, Kbench, run_kbench
from warm_processes import WarmProcesses

import kbench as api

WriteConfig = Callable[[str], Path]

NORM = f"""
operator: norm
sweep: {{M: 4, N: [64, 128], eps: [1e-6, 0.1, 1.0e-6], centred: [false, true], mode: [forward, backward, full]}}
providers: [torch, library]
plugins: [{PLUGINS / "norms.py"}]
measure: {{warmup_ms: 0.1, rep_ms: 0.5, rounds: 2, timer: do_bench}}
"""
CASES = 2 * 2 * 2 * 3


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, warm: WarmProcesses) -> Path:
    """A real run of NORM: the folder."""
    folder = tmp_path_factory.mktemp("norms")
    (folder / "norm.yaml").write_text(NORM)
    with warm.workers():
        done = run_kbench(["run", "norm.yaml", "--no-plot"], folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_a_finished_run_is_finished_and_takes_more_sessions(
    measured: Path, kbench: Kbench, tmp_path: Path, write_config: WriteConfig
) -> None:
    write_config(NORM).rename(tmp_path / "norm.yaml")
    results = tmp_path / "results"
    results.mkdir()
    lines = (measured / "results" / "norm.csv").read_text().splitlines(keepends=True)
    (results / "norm.csv").write_text("".join(lines[:-1]))  # the last case is incomplete
    (results / "norm.env.json").write_text((measured / "results" / "norm.env.json").read_text())
    done = kbench("run", "norm.yaml", "--resume", "--no-plot")
    assert done.returncode == 0, done.stderr
    assert f"{CASES - 1} of {CASES} cases are in the file" in done.stderr
    assert len((results / "norm.csv").read_text().splitlines()) == len(lines)
    done = kbench("run", "norm.yaml", "--resume", "--no-plot", "--set", "eps=0.1,0.000001")
    assert f"{CASES} of {CASES} cases are in the file" in done.stderr, done.stderr
    done = kbench("run", "norm.yaml", "--resume", "--no-plot", "--set", "eps=0.1,1e-5")
    assert "the case of this row is not in the sweep" in done.stderr


@pytest.mark.slow
def test_commands_tell_the_cases_apart(measured: Path, kbench: Kbench, tmp_path: Path) -> None:
    csv = measured / "results" / "norm.csv"
    shown = kbench("show", csv, "--where", "N=64,centred=false,eps<=1e-5").stdout
    table_lines = [
        line.split()[:1] for line in shown.splitlines() if line.split()[:1] in (["forward"], ["backward"], ["full"])
    ]
    assert table_lines == [["forward"], ["backward"], ["full"]]
    assert "eps=1e-06" in shown and "centred=False" in shown
    done = kbench("compare", csv, f"again={csv}", "--where", "mode=backward", "--export", "json=c.json")
    assert done.returncode == 0, done.stderr
    assert "mode=backward" in done.stdout and "1e-06" in done.stdout
    keys = [row["key"] for row in json.loads((tmp_path / "c.json").read_text())["rows"]]
    assert len(keys) == CASES * 2 // 3
    assert {(type(key["eps"]), type(key["centred"]), key["mode"]) for key in keys} == {(float, bool, "backward")}
    paths = api.plot(csv, x="eps", where="centred=false,N=64", formats="svg", out=tmp_path)
    assert [Path(path).name for path in paths] == ["norm_gbps.svg"]
    text = Path(paths[0]).read_text()
    places = [text.index(f"<!-- mode={mode} -->") for mode in ("forward", "backward", "full")]
    assert places == sorted(places) and "<!-- eps -->" in text and "<!-- 1e-06 -->" in text
    charts = kbench("plot", csv, "--term", "--x", "eps", "--where", "centred=true,N=64,mode=full").stdout
    assert "1e-06" in charts and "mode=full" in charts
    assert kbench("report", csv, "--out", "r.html").returncode == 0

"""Scalars and modes from the config to the last command: real runs of small operators."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from common import PLUGINS, Kbench, run_kbench
from warm_processes import WarmProcesses

import kbench as api
from kbench.results.reader import read_results

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
def test_every_case_is_there_with_its_types(measured: Path) -> None:
    rows = read_results(measured / "results" / "norm.csv").provider_rows
    assert len({row.case for row in rows}) == CASES and len(rows) == 2 * CASES
    assert {row.case.axes["eps"] for row in rows} == {1e-6, 0.1}
    assert {row.case.axes["centred"] for row in rows} == {True, False}
    of = {(row.provider, row.case.axes["centred"]): (row.status, row.reason) for row in rows}
    assert of["torch", True][0] == of["torch", False][0] == of["library", False][0] == "ok"
    assert of["library", True] == ("unsupported", "has no argument centred, so it computes centred=False only")
    assert {row.case.mode for row in rows if row.ms} == {"forward", "backward", "full"}


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


@pytest.mark.slow
def test_the_python_api(kbench: Kbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sweep = {"M": 2, "N": [8], "eps": [1e-6, "1e-5"], "centred": True, "mode": "backward"}
    config = {"operator": "norm", "sweep": sweep, "providers": ["torch"], "measure": {"rep_ms": 0.5, "rounds": 1}}
    frame = api.run(config, plugins=PLUGINS / "norms.py")
    mine = frame[frame["provider"] == "torch"]
    assert mine["eps"].tolist() == [1e-6, 1e-5] and mine["centred"].tolist() == [True, True]
    assert set(mine["mode"]) == {"backward"} and (mine["status"] == "ok").all()
    found = api.compare({"a": mine[mine["eps"] < 5e-6], "b": frame}, where="provider=torch")
    assert "eps" in str(found)


@pytest.mark.slow
def test_list_and_the_plan(kbench: Kbench, write_config: WriteConfig) -> None:
    listed = kbench("list", "norm", "--plugin", PLUGINS / "norms.py").stdout.splitlines()
    head, line = listed[1:3]
    assert head.split() == ["operator", "axes", "scalars", "modes", "dtypes"]
    assert line.split() == [
        "norm", "M", "N", "eps=1e-06", "centred=False", "power=2", "forward", "backward", "full", "float32", "bfloat16",
    ]  # fmt: skip
    config = f"operator: product\nsweep: {{M: 4096, N: 4096, K: 4096}}\nproviders: [torch]\nplugins: [{PLUGINS / 'norms.py'}]\n"
    planned = kbench("run", write_config(config), "--dry-run", "--set", "M=4096,8").stdout.splitlines()
    assert planned[0].split() == ["M", "N", "K", "dtype", "MB", "per", "call", "MB", "needed"]
    assert planned[1].split() == ["4096", "4096", "4096", "float32", "201.3", "1006.6"]
    bad = write_config(
        f"operator: halves\nsweep: {{M: 1, N: [8, 7]}}\nproviders: [torch]\nplugins: [{PLUGINS / 'norms.py'}]\n"
    )
    done = kbench("run", bad)
    assert done.returncode == 2
    assert "sweep.yaml:2:22: sweep: N/2 is not a whole number at N=7, so y has no shape" in done.stderr

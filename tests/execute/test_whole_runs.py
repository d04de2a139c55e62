"""Whole runs with stand-ins for workers: the kernels of calls, the weights of cases and locked clocks reach the files."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path

import nvml_devices
import pandas as pd
import pytest
from common import Kbench
from nvml_devices import device
from stand_in import StandIn

from kbench.contract.tensor import Layout
from kbench.launches.kernels_file import kernels_path
from kbench.launches.launched_call import DeviceLimits, Kernel, KernelLaunch, LaunchedCall
from kbench.protocol import CallRecorded, DeviceInfo, OperatorInfo, ProviderInfo
from kbench.results.reader import read_results

MATRIX = {"t": Layout(("M", "N"))}
PROVIDERS = {"torch-native": ProviderInfo(), "triton": ProviderInfo()}
SHAPES = ({"M": "tokens", "N": "hidden"},)
SOFTMAX = OperatorInfo(("M", "N"), {}, ("float32",), {}, PROVIDERS, inputs=MATRIX, outputs=MATRIX, model_axes=SHAPES)
CARDS = [DeviceInfo("cpu", "stand-in", n, f"GPU-{n}", {"SEEN": str(n)}) for n in range(2)]

START = f"""
CATALOG["operators"] = {{"softmax": {dataclasses.asdict(SOFTMAX)}}}
CATALOG["devices"] = {[dataclasses.asdict(card) for card in CARDS]}
if seen := os.environ.get("SEEN"):
    CATALOG["device"] = CATALOG["devices"][int(seen)]
"""
MEASURE = """
if "task" in request:
    return  # a trial of the operator
launched = json.load(open("launched.json")) if os.path.exists("launched.json") else {}
for number, name in enumerate(names()):
    begin(number)
    say("StepEnded")
    if name in launched:
        say("CallRecorded", **launched[name]["call"])
controls = [row(name, role="control") for name in ("copy", "empty", "repeat")]
say("Rows", rows=[row(name, **launched[name]["columns"] if name in launched else {}) for name in names()] + controls)
"""

CONFIG = "operator: softmax\nsweep: {M: 16, N: [64, 100]}\nproviders: [torch-native, triton]\n"


@pytest.fixture
def run(stand_in: StandIn, kbench: Kbench, write_config: Callable[[str], Path]) -> Kbench:
    """`kbench run sweep.yaml OPTIONS` with stand-ins for its workers."""
    stand_in(MEASURE, START)
    write_config(CONFIG)
    return lambda *options: kbench("run", "sweep.yaml", "--no-plot", *options)


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    return tmp_path / "results" / "sweep.csv"


# -- the kernels of calls


def recorded(code: str) -> CallRecorded:
    launch = KernelLaunch(Kernel("rows", "rows", 32, 0, 0, code, "machine code"), (16, 1, 1), (64, 1, 1), 0, 32)
    return CallRecorded(LaunchedCall((launch,)), DeviceLimits(132, 2048, 65536, 233472, 32, 1024))


def launch(folder: Path, **calls: CallRecorded) -> list[str]:
    """What the calls of each provider launch from now on. Returns the codes."""
    codes = {name: call.launched.code for name, call in calls.items()}
    sent = {name: {"call": dataclasses.asdict(call), "columns": {"code": codes[name]}} for name, call in calls.items()}
    (folder / "launched.json").write_text(json.dumps(sent))
    return [*codes.values()]


def known(csv: Path) -> tuple[set[str], list[str]]:
    """The codes of the rows, and the names of the calls in the file beside the CSV, in its order."""
    codes = {row.code for row in read_results(csv).rows} - {""}
    lines = [json.loads(line) for line in kernels_path(csv).read_text().splitlines()]
    return codes, [line["call"] for line in lines if "call" in line]


def test_every_code_of_a_run_that_is_continued_is_in_the_file_once(run: Kbench, csv: Path, tmp_path: Path) -> None:
    first = recorded("first")
    codes = launch(tmp_path, **{"torch-native": first, "triton": recorded("other")})
    assert run().returncode == 0
    assert known(csv) == (set(codes), codes)

    codes.append(launch(tmp_path, **{"torch-native": first, "triton": recorded("tuned differently")})[-1])
    assert run("--append", "--sessions", 1).returncode == 0
    assert known(csv) == (set(codes), codes)

    lines = csv.read_text().splitlines(keepends=True)
    csv.write_text("".join(lines[:-3]))  # a run that was killed in its last case
    assert run("--resume").returncode == 0
    assert known(csv) == (set(codes), codes)

    (tmp_path / "launched.json").unlink()
    assert run().returncode == 0, "a new file"
    assert not kernels_path(csv).exists(), "the former one has moved with its CSV"
    [aside] = csv.parent.glob("sweep.2*.csv")
    assert known(aside) == (set(codes), codes)


# -- models and weights

TRACE = "model,tokens,weight\nllama-3-8b,1,100\nqwen3-8b,1,50\ngemma-2-9b,8,2.5\n"


def test_rows_have_the_models_and_the_weight_of_their_case_and_other_weights_do_not_continue_a_file(
    run: Kbench, csv: Path, tmp_path: Path
) -> None:
    (tmp_path / "trace.csv").write_text(TRACE)
    done = run("--shapes", "trace.csv")
    assert done.returncode == 0, done.stderr
    rows = pd.read_csv(csv)
    assert set(zip(rows.M, rows.N, rows.model, rows.weight, strict=True)) == {
        (1, 4096, "llama-3-8b;qwen3-8b", 150.0),
        (8, 3584, "gemma-2-9b", 2.5),
    }, "also for the controls of a case"
    assert re.search(r"^1 +4096 +150 +llama-3-8b, qwen3-8b ", done.stdout, re.MULTILINE)
    (tmp_path / "trace.csv").write_text(TRACE.replace("2.5", "3"))
    done = run("--shapes", "trace.csv", "--resume")
    assert done.returncode == 2
    assert "the weight of softmax M=8 N=3584 float32 was 2.5 and is now 3.0" in done.stderr


# -- locked clocks


def test_a_run_locks_each_of_its_devices_and_records_it(
    run: Kbench, csv: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    devices = nvml_devices.install(monkeypatch, tmp_path)
    devices.put(GPU_0=device(), GPU_1=device())
    done = run("--devices", "all", "--lock-clocks", "base")
    assert done.returncode == 0, done.stderr
    assert "clocks of NVIDIA H200 (GPU-0) locked at 1500 MHz" in done.stderr and "(GPU-1) locked" in done.stderr
    assert devices.locked("GPU-0") is None and devices.locked("GPU-1") is None
    clocks = {"sm_mhz": 1500, "memory_mhz": 3201}
    environment = csv.with_suffix(".env.json")
    assert json.loads(environment.read_text())["locked_clocks"] == {"GPU-0": clocks, "GPU-1": clocks}
    again = run("--devices", "all", "--append")
    assert again.returncode == 0, again.stderr
    assert "the clocks are not locked; for the earlier rows they were locked" in again.stderr
    assert json.loads(environment.read_text())["continued"][0]["locked_clocks"] == {}

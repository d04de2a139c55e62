"""The switches of a script are its own: its lines run with them, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from promises.outside import QUICK, MadeOnce, folder_of, kept, providers_of, rows_of, run_kbench

LINES = ["none", "default-dtype", "default-device", "threads", "seed", "deterministic"]
LINES += ["no-grad", "inference", "autocast", "sdpa-kernel"]
SCRIPT = '''
import random

import torch
import triton

torch.set_float32_matmul_precision("high")  # for all lines

def present():
    return {
        "dtype": torch.get_default_dtype(),
        "threads": torch.get_num_threads(),
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "math": torch.backends.cuda.math_sdp_enabled(),
        "device": torch.get_default_device(),
        "autocast": torch.is_autocast_enabled("cpu"),
    }


FIRST = present()


def checked(x, **changed):
    """A closure that works only with its own switches."""

    def closure():
        wanted = FIRST | changed
        assert present() == wanted, f"runs with {present()}, not with {wanted}"
        assert torch.get_float32_matmul_precision() == "high"
        return x + 1

    return closure


def time(closure):
    return triton.testing.do_bench(closure, warmup=1, rep=1)


SETS = {
    "none": (lambda: None, {}),
    "default-dtype": (lambda: torch.set_default_dtype(torch.float64), {"dtype": torch.float64}),
    "default-device": (lambda: torch.set_default_device("meta"), {"device": torch.device("meta")}),
    "threads": (lambda: torch.set_num_threads(FIRST["threads"] + 1), {"threads": FIRST["threads"] + 1}),
    "seed": (lambda: (random.seed(1), torch.manual_seed(1)), {}),
    "deterministic": (lambda: torch.use_deterministic_algorithms(True), {"deterministic": True}),
}
ENTERS = {
    "no-grad": (torch.no_grad, {"grad": False}),
    "autocast": (lambda: torch.autocast("cpu", dtype=torch.bfloat16), {"autocast": True}),
    "sdpa-kernel": (
        lambda: torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION), {"math": False},
    ),
}


def benchmark_of(provider, x):
    if provider in SETS:
        switch, changed = SETS[provider]
        switch()
        return time(checked(x, **changed))
    if provider in ENTERS:
        block, changed = ENTERS[provider]
        with block():
            return time(checked(x, **changed))
    with torch.inference_mode():
        y = torch.zeros(8)  # cannot be changed outside of the mode
        closure = checked(y, grad=False, inference=True)
        return time(lambda: y.add_(closure()))


LINES = @LINES@


def sweep(name, lines):
    return triton.testing.Benchmark(
        x_names=["N"], x_vals=[64], line_arg="provider", line_vals=lines, line_names=lines, plot_name=name, ylabel="ms", args={}
    )


@triton.testing.perf_report(sweep("switches", LINES))
def benchmark(N, provider):
    return benchmark_of(provider, torch.ones(N))


@triton.testing.perf_report(sweep("decorated", ["a"]))
@torch.inference_mode()
def decorated(N, provider):
    y = torch.zeros(N)
    return time(lambda: y.add_(1))


benchmark.run()
decorated.run()
'''


@pytest.fixture(scope="session")
def measured(made_once: MadeOnce) -> Path:
    files = {"bench.py": SCRIPT.replace("@LINES@", repr(LINES))}
    return folder_of(made_once, "script-switches", files, "run", "bench.py", *QUICK, "--no-plot") / "results"


def test_a_line_of_a_script_is_timed_with_its_own_switches_and_modes_and_none_is_noted_as_a_fault(
    measured: Path,
) -> None:
    rows = providers_of(measured / "switches.csv")
    assert [row["provider"] for row in rows] == LINES
    for row in rows:
        assert row["status"] == "ok" and float(row["ms"]) > 0 and row["reason"] == "", row
        assert "altered-state" not in row["flags"]
    assert "changed" not in kept(measured.parent).text
    controls = [row for row in rows_of(measured / "switches.csv") if row["role"] == "control"]
    assert controls and all(row["status"] == "ok" for row in controls)
    (row,) = providers_of(measured / "decorated.csv")
    assert row["status"] == "ok" and float(row["ms"]) > 0, row["reason"]


STREAMS = """
import torch
import triton


@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["N"], x_vals=[1024, 4096], line_arg="provider", line_vals=["torch", "other"], line_names=["torch", "other"],
        plot_name="streams", ylabel="GB/s", args={"M": 4096},
    )
)
def benchmark(M, N, provider):
    x = torch.empty(M, N, device="cuda")
    for _ in range(50):  # still at work on the first stream when the closure is called
        x.normal_()
    stream = torch.cuda.Stream()
    torch.cuda.set_stream(stream)

    def other():
        e = (x - x.amax(-1, keepdim=True)).exp()
        return e / e.sum(-1, keepdim=True)

    def closure():
        assert torch.cuda.current_stream() == stream
        return torch.softmax(x, -1) if provider == "torch" else other()

    ms = triton.testing.do_bench(closure)
    return 2 * x.numel() * x.element_size() * 1e-6 / ms


benchmark.run()
"""

SETS_STREAM = """
import torch

import kbench


@kbench.operator("softmax").provider("sets-stream")
def sets_stream(x):
    torch.cuda.set_stream(torch.cuda.Stream())
    return torch.softmax(x, -1)


@kbench.operator("softmax").provider("in-a-block")
def in_a_block(x):
    stream, present = torch.cuda.Stream(), torch.cuda.current_stream()
    stream.wait_stream(present)
    with torch.cuda.stream(stream):
        y = torch.softmax(x, -1)
    present.wait_stream(stream)
    y.record_stream(present)
    return y
"""

SIZES = ("--set", "M=4096", "--set", "N=1024,4096", "--set", "dtype=fp32")
KERNELS = ("--plugin", "kernels.py", "--only", "sets-stream,in-a-block,torch-native", *SIZES)


@pytest.fixture(scope="session")
def streams(made_once: MadeOnce) -> Path:
    def make(folder: Path) -> None:
        (folder / "bench.py").write_text(STREAMS)
        (folder / "kernels.py").write_text(SETS_STREAM)
        run_kbench("run", "bench.py", "--no-plot", folder=folder)
        run_kbench("run", "softmax", *KERNELS, "--no-plot", folder=folder)

    return made_once("streams", make) / "results"


@pytest.mark.gpu
def test_a_line_that_sets_the_stream_is_timed_on_it(streams: Path) -> None:
    rows = providers_of(streams / "streams.csv")
    assert len(rows) == 4
    for row in rows:
        assert row["status"] == "ok" and row["reason"] == "" and float(row["ms"]) > 0, row["reason"]
    assert [row["agreement"] for row in rows if row["provider"] == "other"] == ["agrees", "agrees"]


@pytest.mark.gpu
def test_the_time_on_a_stream_of_a_script_is_that_of_the_kernel(streams: Path) -> None:
    by_script = {
        row["N"]: float(row["ms"]) for row in providers_of(streams / "streams.csv") if row["provider"] == "torch"
    }
    by_config = {
        row["N"]: float(row["ms"]) for row in providers_of(streams / "softmax.csv") if row["provider"] == "torch-native"
    }
    assert by_script.keys() == by_config.keys()
    for N, ms in by_script.items():
        assert ms == pytest.approx(by_config[N], rel=0.5)  # on another stream it would read almost nothing


@pytest.mark.gpu
def test_a_provider_of_an_operator_that_sets_the_stream_is_at_fault_and_told_what_to_do(streams: Path) -> None:
    rows = {(row["provider"], row["N"]): row for row in providers_of(streams / "softmax.csv")}
    for N in ("1024", "4096"):
        row = rows["sets-stream", N]
        assert row["status"] not in ("ok", "checked") and not row["ms"]
        assert "current stream" in row["reason"] and "with torch.cuda.stream" in row["reason"]
        assert rows["in-a-block", N]["status"] == rows["torch-native", N]["status"] == "ok"

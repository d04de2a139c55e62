"""Benchmarks of Hugging Face kernels: `verify_...` is the reference and the baseline, `benchmark_...` a provider."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import torch
from common import Kbench

from kbench.contract.operator import registered
from kbench.results.case import Case
from kbench.sources.fault import SourceFault
from kbench.sources.huggingface import load

QUICK = ("--set", "rounds=1", "--set", "rep_ms=1", "--set", "warmup_ms=1", "--no-plot")

BENCHMARK = """
import torch
from kernels.benchmark import Benchmark

class AddBenchmark(Benchmark):
    seed = 3

    def make(self, rows, columns):
        self.x = torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16)
        self.weight = torch.rand(columns, device=self.device, dtype=torch.bfloat16) + 1
        self.out = torch.empty_like(self.x)
        self.factor = 1 / rows

    def setup(self):
        self.make(4, 8)

    def setup_large(self):
        self.make(16, 8)

    def benchmark_base(self):
        torch.add(self.x, self.weight, alpha=self.factor, out=self.out)

    def verify_base(self):
        return (self.x.float() + self.factor * self.weight.float()).to(self.x.dtype)

    def benchmark_large(self):
        self.out.copy_(self.x)
        self.out.add_(self.weight, alpha=self.factor)

    def verify_large(self):
        return self.verify_base()

    def benchmark_unverified(self):
        pass

class SumBenchmark(Benchmark):
    def setup(self):
        self.x = torch.rand(5, 3).cuda()
        self.more = {"bias": torch.rand(5, device="cuda"), "none": []}

    def benchmark_rows(self):
        self.out = self.kernel.sum(self.x)

    def verify_rows(self):
        return self.x.sum(-1) + self.more["bias"]

    def benchmark_half(self):
        self.out = self.x.sum(-1) + self.more["bias"]

    def verify_half(self):
        return self.verify_rows()
"""

pytestmark = pytest.mark.usefixtures("no_operators")


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    """The folder of a kernel that was not built."""
    (tmp_path / "kernel/benchmarks").mkdir(parents=True)
    (tmp_path / "kernel/build.toml").write_text("[general]\n")
    (tmp_path / "kernel/benchmarks/benchmark.py").write_text(BENCHMARK)
    return tmp_path / "kernel"


@pytest.mark.slow
def test_every_class_is_a_sweep_and_every_workload_a_case(kbench: Kbench, tmp_path: Path, kernel: Path) -> None:
    done = kbench("run", "kernel", *QUICK)
    rows = pd.read_csv(tmp_path / "results/AddBenchmark.csv").query("role == 'provider'")
    cases = [tuple(each) for each in rows[["x_0", "workload", "dtype"]].drop_duplicates().to_numpy()]
    assert cases == [(4, "base", "bfloat16"), (16, "large", "bfloat16")]
    assert set(rows.provider) == {"reference", "kernel"} and set(rows.status) == {"ok"}, done.stdout
    assert rows.max_ulp.notna().all(), "judged against float64"
    rows = (
        pd.read_csv(tmp_path / "results/SumBenchmark.csv")
        .query("role == 'provider'")
        .set_index(["provider", "workload"])
    )
    assert set(rows.status["reference"]) == {"ok"}
    assert rows.status["kernel", "rows"] == "unavailable" and rows.reason["kernel", "rows"]
    assert "AddBenchmark.benchmark_unverified has no verify_unverified; it is left out" in done.stderr


def test_inputs_are_those_of_the_setup_on_the_device_of_the_run(kernel: Path) -> None:
    from kbench.measure.correctness.inputs import Inputs
    from kbench.measure.definition.definition import Definition
    from kbench.measure.machine.device import Device

    load(kernel)
    operator = registered["AddBenchmark"]
    sizes = {name: each.sizes for name, each in operator.inputs.items()}
    assert sizes == {"x": ("x_0", "8"), "weight": ("8",)} and operator.outputs["out"].sizes == ("x_0", "8")
    case = Case("AddBenchmark", {"x_0": 16, "workload": "large"}, "bfloat16")
    device = Device()
    x, weight = Inputs(Definition(operator, case), device, 0).draw("timed")
    assert x.shape == (16, 8) and x.device.type == device.type and weight.min() >= 1
    exact = operator.reference(x.double(), weight.double(), workload="large")
    assert torch.allclose(exact, x.double() + weight.double() / 16, rtol=1e-15), "with the factor of this workload"


FAULTS = {
    "no class": (BENCHMARK.replace("(Benchmark)", ""), "defines no class derived from kernels.benchmark"),
    "no workload": (
        BENCHMARK.replace("def benchmark_", "def bench_"),
        "with a method benchmark_NAME; define one there",
    ),
    "no reference": (BENCHMARK.replace("def verify", "def verified"), "AddBenchmark.benchmark_base has no verify_base"),
    "a setup that raises": (
        BENCHMARK.replace("randn(rows", "randn(lost"),
        "benchmark.py:9: AddBenchmark: workload base raised",
    ),
    "a setup that exits": (BENCHMARK.replace("self.make(4, 8)", "exit(1)"), "raised SystemExit"),
    "no tensors": (
        BENCHMARK.replace("torch.rand(5, 3).cuda()", "3").replace("self.more =", "more ="),
        "the setup of rows makes no tensor",
    ),
    "no result": (
        BENCHMARK.replace("return self.x.sum(-1)", "self.x.sum(-1)"),
        "verify_rows returns NoneType; it must return a tensor",
    ),
    "a mixed attribute": (
        BENCHMARK.replace('"none": []', '"one": 1'),
        "raised TypeError: the attribute more holds tensors together with other values; put the other values into",
    ),
    "a syntax error": (BENCHMARK.replace("seed = 3", "seed = = 3"), "benchmark.py:6:12: not Python"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_malformed_benchmark_is_one_located_fault(kernel: Path, name: str) -> None:
    text, expected = FAULTS[name]
    (kernel / "benchmarks/benchmark.py").write_text(text)
    with pytest.raises(SourceFault) as raised:
        load(kernel)
    assert expected in f"{raised.value.where}: {raised.value}"


def test_a_workload_whose_reference_calls_the_kernel_is_left_out(
    kernel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = BENCHMARK.replace("return self.verify_base()", "return self.kernel.add(self.x)")
    (kernel / "benchmarks/benchmark.py").write_text(text)
    sweeps = load(kernel)
    assert [point["workload"] for sweep in sweeps for point in sweep.points] == ["base", "rows", "half"]
    assert "AddBenchmark.benchmark_large: its setup or its reference calls the kernel (add)" in capsys.readouterr().err

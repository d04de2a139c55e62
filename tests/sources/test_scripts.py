"""`kbench run script.py`: scripts in other people's styles, run unchanged on the host."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest
from common import Kbench

pytest.importorskip("triton")

SCRIPTS = Path(__file__).parent / "scripts"
QUICK = ("--set", "rounds=1", "--set", "rep_ms=1", "--set", "warmup_ms=0", "--no-plot")

Cells = dict[str, str]


def rows_of(folder: Path, name: str, role: str = "provider") -> list[Cells]:
    with (folder / "results" / f"{name}.csv").open() as file:
        return [row for row in csv.DictReader(file) if row["role"] == role]


@pytest.mark.slow
def test_each_plot_of_a_script_has_a_file_of_its_own_and_flops_give_tflops(kbench: Kbench, tmp_path: Path) -> None:
    run = kbench("run", SCRIPTS / "matmul_tutorial.py", *QUICK)
    assert run.returncode == 0, run.stderr
    for name, dtype in (("matmul-fp32", "float32"), ("matmul-fp64", "float64")):
        rows = rows_of(tmp_path, name)
        assert [(row["M"], row["K"], row["dtype"]) for row in rows] == [("32", "32", dtype)] * 2
        assert [float(row["counted"]) for row in rows] == [2 * int(row["M"]) ** 3 for row in rows]
        assert all(row["tflops"] and not row["gbps"] for row in rows)


CLEARED = """
import triton.testing

class Leaf:
    calls = cleared = 0
    grad = property(lambda self: None, lambda self, value: setattr(self, "cleared", self.cleared + 1))

@triton.testing.perf_report(triton.testing.Benchmark(["N"], [1], "line", ["a"], ["a"], "cleared", {}))
def bench(N, line):
    leaf = Leaf()
    def step():
        leaf.calls += 1
        if leaf.calls > 200 and leaf.calls > 2 * leaf.cleared:
            raise RuntimeError(f"{leaf.calls} calls, but cleared only {leaf.cleared} times")
    return triton.testing.do_bench(step, warmup=0, rep=1, grad_to_none=[leaf])

bench.run()
"""


@pytest.mark.slow
def test_gradients_are_cleared_before_every_timed_call(kbench: Kbench, tmp_path: Path) -> None:
    (tmp_path / "cleared.py").write_text(CLEARED)
    run = kbench("run", "cleared.py", *QUICK, "--set", "cache=warm", "--set", "rep_ms=20")
    assert run.returncode == 0, run.stdout
    [row] = rows_of(tmp_path, "cleared")
    assert int(row["samples"]) > 200


@pytest.mark.slow
def test_a_script_runs_as_it_would_alone(kbench: Kbench, tmp_path: Path) -> None:
    shutil.copy(SCRIPTS / "odd_script.py", tmp_path)
    (tmp_path / "note.txt").write_text("a note\n")
    (tmp_path / "old.csv").write_text("")
    run = kbench("run", "odd_script.py", *QUICK, "--", "--size", "300")
    assert run.returncode == 1, run.stderr
    assert "odd_script.py: the script ended with exit code 3; what it had measured until then is kept" in run.stderr
    rows = rows_of(tmp_path, "odd-plot-1")
    assert [(row["kind"], row["provider"], row["status"]) for row in rows] == [
        ("a b", "abs", "ok"), ("a b", "neg", "ok"), ("None", "abs", "ok"), ("None", "neg", "error")
    ]  # fmt: skip
    assert rows[-1]["reason"].startswith("RuntimeError: no neg for None at odd_script.py:25")
    assert {(row["params_"], row["scale"], row["shape"]) for row in rows} == {("True", "0.5", "2-3")}
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["note.txt", "odd_script.py", "picture.png", "results"]


PLOT = """
import triton.testing
triton.testing.perf_report(triton.testing.Benchmark(["N"], {x_vals}, "line", {line_vals}, {line_vals}, "declared", {{}}))
"""


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("import triton.testing\nimport os\nos._exit(4)\n", "bench.py", "the process exited with code 4"),
        (PLOT.format(x_vals=[4], line_vals=["a"]), "bench.py", "never calls its run()"),
    ],
)
def test_a_script_without_a_benchmark_is_one_located_error(
    kbench: Kbench, tmp_path: Path, text: str, where: str, message: str
) -> None:
    (tmp_path / "bench.py").write_text(text)
    run = kbench("run", "bench.py", *QUICK)
    assert run.returncode in (2, 3)
    assert where in run.stderr and message in run.stderr
    assert not list(tmp_path.glob("results/*"))


FAULTS = (
    "The script counts different amounts of work for its providers in 2 of 2 cases. At N=512 it counts 262,144 bytes per call "
    "for clean, also-clean, clone and 6 more; 393,216 for more-bytes.",
    "other-output returns something else than the baseline in 2 of 2 cases: it differs by",
    "The output of nothing cannot be compared with that of the baseline in 2 of 2 cases: it returns something other than a "
    "tensor or a tuple of tensors. Let its closure return a tensor, or a tuple of tensors only.",
    "clone copies one of its inputs inside the timed call, in 2 of 2 cases.",
    "fallback runs the same kernels as clean in 2 of 2 cases.",
    "random draws random numbers inside the timed call, in 2 of 2 cases.",
    "buffer returns memory that existed before the timed call, in 2 of 2 cases: a buffer, or an input that it changes.",
    "The script times warm with do_bench_cudagraph, which leaves the inputs in the cache: at N=512 it reads",
)


@pytest.mark.slow
def test_the_audit_finds_each_planted_fault_and_says_nothing_of_clean_lines(kbench: Kbench) -> None:
    run = kbench("run", SCRIPTS / "faults.py", *QUICK)
    findings = findings_of(run.stdout)
    for fault in FAULTS:
        assert sum(fault in line for line in findings) == 1, fault
    assert len(findings) == len(FAULTS) + 1, findings  # the output of `random` differs, too
    assert findings_of(kbench("show", "results/faults.csv").stdout) == findings


def findings_of(stdout: str) -> list[str]:
    """The lines of the audit, which stand before the numbers."""
    _, heading, rest = stdout.partition("Before the numbers:\n")
    return [line.strip() for line in rest.partition("\n\n")[0].splitlines()] if heading else []


def test_a_config_takes_no_arguments(kbench: Kbench) -> None:
    run = kbench("run", "softmax", "--", "--size", "3")
    assert run.returncode == 2 and "a config takes no arguments" in run.stderr
    assert "repeat the option: --set N=64 --set M=32" in run.stderr


@pytest.mark.gpu
def test_on_a_device_the_audit_names_a_slow_host_and_a_fallback(kbench: Kbench, tmp_path: Path) -> None:
    run = kbench("run", SCRIPTS / "on_a_device.py", "--set", "rounds=2", "--set", "rep_ms=20", "--no-plot")
    assert run.returncode == 0, run.stderr
    rows = {(row["provider"], row["N"]): row for row in rows_of(tmp_path, "rows")}
    assert rows["triton", "1000"]["agreement"] == rows["triton", "4000"]["agreement"] == "agrees"
    findings = findings_of(run.stdout)
    assert any(
        line.startswith("For slow-host, the script's do_bench times the host, not the device, in 2 of 2 cases.")
        for line in findings
    )
    assert "fallback runs the same kernels as torch in 2 of 2 cases." in " ".join(findings)
    assert not any(line.startswith(("triton ", "torch ")) for line in findings), findings


@pytest.mark.gpu
def test_on_a_device_a_line_that_crashes_costs_its_own_rows_only(kbench: Kbench, tmp_path: Path) -> None:
    arguments = ("--set", "rounds=1", "--set", "rep_ms=5", "--no-plot", "--", "crash")
    run = kbench("run", SCRIPTS / "on_a_device.py", *arguments)
    assert run.returncode == 1
    statuses = {(row["provider"], row["status"] == "ok") for row in rows_of(tmp_path, "rows")}
    assert statuses == {("torch", True), ("triton", True), ("slow-host", True), ("fallback", True), ("crash", False)}

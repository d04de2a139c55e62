"""`kbench run script.py`: scripts in other people's styles, run unchanged on the host."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Sequence
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


def measured(kbench: Kbench, folder: Path, script: str, name: str, arguments: Sequence[str] = ()) -> list[Cells]:
    """The rows of a script that runs to its end."""
    run = kbench("run", SCRIPTS / script, *QUICK, *(["--", *arguments] if arguments else []))
    assert run.returncode == 0, run.stderr
    return rows_of(folder, name)


@pytest.mark.slow
def test_a_plot_over_n_becomes_cases_and_its_lines_become_providers(kbench: Kbench, tmp_path: Path) -> None:
    rows = measured(kbench, tmp_path, "softmax_tutorial.py", "softmax-rows")
    assert [(row["N"], row["M"], row["dtype"], row["provider"]) for row in rows] == [
        (str(128 * i), "256", "float32", line) for i in (2, 3, 4) for line in ("torch", "naive")
    ]
    assert {row["status"] for row in rows} == {"ok"} and all("unchecked" in row["flags"] for row in rows)
    assert [row["agreement"] for row in rows] == ["", "agrees"] * 3
    environment = json.loads((tmp_path / "results" / "softmax-rows.env.json").read_text())
    assert Path(environment["config"]["source"]).name == "softmax_tutorial.py"
    for row in rows:  # the script counts one read and one write of x
        assert float(row["counted"]) == 2 * 4 * 256 * int(row["N"])
        assert float(row["gbps"]) == pytest.approx(float(row["counted"]) / float(row["ms"]) * 1e-6)
    assert [row["provider"] for row in rows_of(tmp_path, "softmax-rows", "control")] == ["copy", "empty", "repeat"] * 3


@pytest.mark.slow
def test_set_and_only_change_what_a_script_measures(kbench: Kbench, tmp_path: Path) -> None:
    kbench("run", SCRIPTS / "softmax_tutorial.py", *QUICK, "--set", "N=200", "--only", "naive")
    [row] = rows_of(tmp_path, "softmax-rows")
    assert (row["provider"], row["N"], float(row["counted"])) == ("naive", "200", pytest.approx(2 * 4 * 256 * 200))
    wrong = kbench("run", SCRIPTS / "softmax_tutorial.py", *QUICK, "--only", "naiv")
    assert wrong.returncode == 2 and 'did you mean "naive"' in wrong.stderr


@pytest.mark.slow
def test_compare_show_and_plot_read_the_results_of_a_script(kbench: Kbench, tmp_path: Path) -> None:
    for out in ("old", "new"):
        kbench("run", SCRIPTS / "softmax_tutorial.py", *QUICK, "--set", "N=200", "--out", out)
    shown = kbench("show", "new/softmax-rows.csv")
    assert shown.returncode == 0 and "unchecked" in shown.stdout
    assert kbench("compare", "old/softmax-rows.csv", "new/softmax-rows.csv").returncode in (
        0,
        3,
    )  # 3: all rows are unclear
    assert kbench("plot", "new/softmax-rows.csv").returncode == 0
    assert kbench("report", "new/softmax-rows.csv").returncode == 0


@pytest.mark.slow
def test_each_plot_of_a_script_has_a_file_of_its_own_and_flops_give_tflops(kbench: Kbench, tmp_path: Path) -> None:
    for name, dtype in (("matmul-fp32", "float32"), ("matmul-fp64", "float64")):
        if name == "matmul-fp32":
            rows = measured(kbench, tmp_path, "matmul_tutorial.py", name)
        rows = rows_of(tmp_path, name)
        assert [(row["M"], row["K"], row["dtype"]) for row in rows] == [
            (m, m, dtype) for m in ("32", "64") for _ in "ab"
        ]
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
def test_a_backward_pass_is_compared_by_its_time_alone(kbench: Kbench, tmp_path: Path) -> None:
    rows = measured(kbench, tmp_path, "layernorm_tutorial.py", "layer-norm-backward")
    assert {(row["dtype"], row["mode_"], row["eps"]) for row in rows} == {("float16", "backward", "1e-05")}
    assert {row["agreement"] for row in rows} == {
        "",
        "not comparable: it returns something other than a tensor or a tuple of tensors",
    }
    assert not list(tmp_path.glob("layer-norm-backward*")), "save_path must not write made-up times"


def test_marks_that_are_made_in_main_behind_argparse(kbench: Kbench, tmp_path: Path) -> None:
    rows = measured(kbench, tmp_path, "marks_in_main.py", "marks_in_main-rmsnorm", ["--dtype", "bfloat16"])
    assert {row["dtype"] for row in rows} == {"bfloat16"} and len(rows) == 4
    moved = [float(row["counted"]) for row in rows]
    expected = [parts * 64 * n * 2 + 4 * n for n in (128, 192) for parts in (2, 3)]
    assert moved == pytest.approx(expected, rel=0.01)  # the script rounds to whole GB/s


def test_a_line_that_fails_does_not_end_a_loop_of_the_script_itself(kbench: Kbench, tmp_path: Path) -> None:
    run = kbench("run", SCRIPTS / "marks_in_main.py", *QUICK, "--", "--dtype", "float32", "--backward")
    assert run.returncode == 1
    rows = rows_of(tmp_path, "marks_in_main-rmsnorm")
    assert [row["status"] for row in rows] == ["ok", "ok", "ok", "error"]
    assert "no backward pass for 192" in rows[3]["reason"] and "ended" not in run.stderr


def test_a_script_that_needs_arguments_says_so(kbench: Kbench) -> None:
    run = kbench("run", SCRIPTS / "marks_in_main.py", *QUICK)
    assert run.returncode == 2
    assert run.stderr.count("\n") == 1 and "marks_in_main.py" in run.stderr
    assert "the following arguments are required: --dtype" in run.stderr


@pytest.mark.slow
def test_times_in_microseconds_count_no_bytes_and_own_files_stay(kbench: Kbench, tmp_path: Path) -> None:
    (tmp_path / "times.csv").write_text("true times\n")
    rows = measured(kbench, tmp_path, "provider_dictionary.py", "add-relu-with-residual")
    assert [row["provider"] for row in rows] == ["torch", "in two steps"] * 2
    assert all(row["ms"] and not row["gbps"] and not row["counted"] for row in rows)
    assert [row["agreement"] for row in rows] == ["", "agrees"] * 2
    assert (tmp_path / "times.csv").read_text() == "true times\n"
    assert not (tmp_path / "plots").exists()


@pytest.mark.slow
def test_a_script_that_checks_its_implementations_first(kbench: Kbench, tmp_path: Path) -> None:
    rows = measured(kbench, tmp_path, "checked_first.py", "silu-and-mul-performance")
    assert [(row["batch"], row["size"]) for row in rows] == [(batch, "256") for batch in ("1", "4") for _ in "ab"]
    assert [row["agreement"] for row in rows] == ["", "agrees"] * 2
    assert not (tmp_path / "configs").exists()


@pytest.mark.slow
def test_a_ratio_of_two_times_becomes_two_configurations(kbench: Kbench, tmp_path: Path) -> None:
    rows = measured(kbench, tmp_path, "speed_up.py", "sort-speed-up")
    assert [(row["provider"], row["params"]) for row in rows] == [("speed-up", "call=1"), ("speed-up", "call=2")]
    assert all(row["ms"] for row in rows)


@pytest.mark.slow
def test_a_script_may_choose_its_sizes_by_the_times_that_it_reads(kbench: Kbench, tmp_path: Path) -> None:
    [*rows] = measured(kbench, tmp_path, "adaptive.py", "adaptive")
    assert rows and all(row["status"] in ("ok", "unsupported") for row in rows)
    assert any(row["ms"] for row in rows)


@pytest.mark.slow
def test_a_script_runs_as_it_would_alone_but_overwrites_nothing(kbench: Kbench, tmp_path: Path) -> None:
    shutil.copy(SCRIPTS / "odd_script.py", tmp_path)
    (tmp_path / "note.txt").write_text("a note\n")
    (tmp_path / "old.csv").write_text("")
    run = kbench("run", "odd_script.py", *QUICK, "--", "--size", "300")
    assert run.returncode == 1, run.stderr
    assert "odd_script.py ended with exit code 3; kbench measures the plots that it had run until then" in run.stderr
    assert "this goes to stdout" not in run.stdout
    rows = rows_of(tmp_path, "odd-plot-1")
    assert [(row["kind"], row["provider"], row["status"]) for row in rows] == [
        ("a b", "abs", "ok"), ("a b", "neg", "ok"), ("None", "abs", "ok"), ("None", "neg", "error")
    ]  # fmt: skip
    assert rows[-1]["reason"].startswith("RuntimeError: no neg for None at odd_script.py:25")
    assert {(row["params_"], row["scale"], row["shape"]) for row in rows} == {("True", "0.5", "2-3")}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["note.txt", "odd_script.py", "old.csv", "results"]
    assert (tmp_path / "note.txt").read_text() == "a note\n"


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("x = 1\n", "bench.py", "calls neither triton.testing.perf_report nor triton.testing.do_bench"),
        ("x = 1\nprint(y)\n", "bench.py:2", "NameError: name 'y' is not defined"),
        ("x = (\n", "bench.py:1", "SyntaxError: '(' was never closed"),
        ("import triton.testing\nimport os\nos._exit(4)\n", "bench.py", "the process exited with code 4"),
    ],
)
def test_a_script_without_a_benchmark_is_one_located_error(
    kbench: Kbench, tmp_path: Path, text: str, where: str, message: str
) -> None:
    (tmp_path / "bench.py").write_text(text)
    run = kbench("run", "bench.py", *QUICK)
    assert run.returncode in (2, 3)
    assert run.stderr.count("\n") == 1 and where in run.stderr and message in run.stderr
    assert not (tmp_path / "results").exists()


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


@pytest.mark.slow
@pytest.mark.parametrize(
    "script", ["softmax_tutorial.py", "matmul_tutorial.py", "provider_dictionary.py", "speed_up.py"]
)
def test_the_audit_says_nothing_of_a_clean_script(kbench: Kbench, script: str) -> None:
    assert findings_of(kbench("run", SCRIPTS / script, *QUICK).stdout) == []


def findings_of(stdout: str) -> list[str]:
    """The lines of the audit, which stand before the numbers."""
    _, heading, rest = stdout.partition("Before the numbers:\n")
    return [line.strip() for line in rest.partition("\n\n")[0].splitlines()] if heading else []


def test_a_config_takes_no_arguments(kbench: Kbench) -> None:
    run = kbench("run", "softmax", "--", "--size", "3")
    assert run.returncode == 2 and "a config takes no arguments" in run.stderr
    assert "repeat the option: --set N=64 --set M=32" in run.stderr


@pytest.mark.slow
def test_a_script_becomes_a_config_and_a_plug_in_for_a_sweep_of_ones_own(kbench: Kbench, tmp_path: Path) -> None:
    shutil.copy(SCRIPTS / "matmul_tutorial.py", tmp_path / "bench.py")
    exported = kbench("init", "bench.py", "--plot", "matmul-fp64")
    assert exported.returncode == 0, exported.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bench.py", "bench_plugin.py", "matmul-fp64.yaml"]
    run = kbench("run", "matmul-fp64.yaml", *QUICK, "--set", "M=16", "--set", "N=16", "--set", "K=16,48")
    assert run.returncode == 0, run.stderr
    rows = rows_of(tmp_path, "matmul-fp64")
    assert [(row["operator"], row["M"], row["K"], row["dtype"]) for row in rows] == [
        ("matmul-fp64", "16", k, "float64") for k in ("16", "48") for _ in "ab"
    ]
    assert all("unchecked" in row["flags"] for row in rows)
    checked = kbench("check", "matmul-fp64.yaml")
    assert "a script has no reference to check it with" in checked.stdout
    again = kbench("init", "bench.py")
    assert again.returncode == 0 and (tmp_path / "bench.yaml").read_text().startswith("# matmul-fp32: "), again.stderr
    assert "for another plot, run the command again with --plot matmul-fp64" in again.stdout
    (tmp_path / "bench_plugin.py").write_text("mine = 1\n")
    changed = kbench("init", "bench.py")
    assert changed.returncode == 2 and "bench_plugin.py: exists already" in changed.stderr
    assert "bench.yaml: exists already" in changed.stderr
    unknown = kbench("init", "bench.py", "--dir", "other", "--plot", "matmul-fp16")
    assert unknown.returncode == 2 and "its plots are matmul-fp32, matmul-fp64" in unknown.stderr


@pytest.mark.slow
def test_init_passes_the_arguments_of_a_script_on(kbench: Kbench, tmp_path: Path) -> None:
    shutil.copy(SCRIPTS / "marks_in_main.py", tmp_path)
    exported = kbench("init", "marks_in_main.py", "--", "--dtype", "bfloat16")
    assert exported.returncode == 0, exported.stderr
    run = kbench("run", "marks_in_main.yaml", *QUICK, "--set", "N=128")
    assert run.returncode == 0, run.stderr
    assert {row["dtype"] for row in rows_of(tmp_path, "marks_in_main")} == {"bfloat16"}


def test_a_script_that_does_not_exist_is_one_line(kbench: Kbench) -> None:
    run = kbench("run", "nosuch.py")
    assert (run.returncode, run.stderr) == (2, "error: nosuch.py: no such file\n")


@pytest.mark.slow
def test_a_run_of_a_script_can_be_continued(kbench: Kbench, tmp_path: Path) -> None:
    arguments = ("run", SCRIPTS / "softmax_tutorial.py", *QUICK, "--set", "N=200,300", "--only", "torch")
    kbench(*arguments)
    path = tmp_path / "results" / "softmax-rows.csv"
    first = path.read_text().splitlines()
    path.write_text("\n".join(first[:5]) + "\n")  # the header, and the four rows of a case
    assert kbench(*arguments, "--resume").returncode == 0
    assert [row["N"] for row in rows_of(tmp_path, "softmax-rows")] == ["200", "300"]


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

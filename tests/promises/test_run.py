"""`kbench run`: what is measured, what is written, and what the numbers mean."""

from __future__ import annotations

import json
import re
import resource
from collections import Counter
from datetime import datetime
from itertools import product
from math import isclose
from pathlib import Path
from statistics import median

import pytest
import torch

from promises.outside import (
    QUICK,
    Kbench,
    MadeOnce,
    Row,
    Rows,
    Write,
    keep,
    kept,
    providers_of,
    rows_of,
    run_kbench,
    run_process,
)

PLUGIN = """
import os

import torch
import kbench

softmax = kbench.operator("softmax")


@softmax.provider("mine")
def mine(x, *, block=0):
    return torch.softmax(x.float(), -1).to(x.dtype)


@softmax.provider("even", supports=lambda case: f"only even rows in {os.getpid()}" if case.N % 2 else None)
def even(x):
    return torch.softmax(x, -1)
"""

SWEEP = """
operator: softmax
sweep: {M: 8, N: [64, 95], dtype: [float32, bf16]}
providers:
  - torch-eager
  - torch-native
  - torch-jit
  - triton-row
  - triton-persistent
  - triton
  - cuda
  - liger
  - mine: {block: [1, 2]}
  - even
baseline: torch-native
measure: {rounds: 2, warmup_ms: 1, rep_ms: 2, cache: warm}
"""
CASES = set(product(("64", "95"), ("float32", "bfloat16")))
CONFIGURATIONS = 11
RUN = ("--no-plot", *QUICK)
SMALL = ("--set", "M=4", "--set", "N=64")


@pytest.fixture
def swept(made_once: MadeOnce) -> Path:
    """The folder of a run of softmax: four cases, eleven configurations, two sessions, with pictures."""

    def make(folder: Path) -> None:
        (folder / "mine.py").write_text(PLUGIN)
        (folder / "sweep.yaml").write_text(SWEEP)
        variables = {"HOME": str(folder), "TORCH_CUDA_TOKEN": "s3cret", "TRITON_PTXAS_PATH": f"{folder}/ptxas"}
        keep(run_process(*command_of(folder), folder=folder, timeout_s=240, **variables), folder)

    return made_once("swept", make)


def command_of(folder: Path) -> tuple[str, ...]:
    """What was typed. The path of the config begins with that of the home folder."""
    return ("run", f"{folder}/sweep.yaml", "--plugin", "mine.py", "--sessions", "2", "--out", "token=abc")


@pytest.fixture
def rows(swept: Path) -> Rows:
    return rows_of(swept / "token=abc" / "sweep.csv")


def timed(rows: Rows) -> Rows:
    """The timed rows of providers."""
    return [row for row in rows if row["role"] == "provider" and row["status"] == "ok"]


def case_of(row: Row) -> tuple[str, ...]:
    return row["N"], row["dtype"], row["session"]


# --- the rows


def test_a_results_file_has_a_line_per_configuration_case_and_session_and_the_columns_of_the_sweep_first(
    rows: Rows, swept: Path
) -> None:
    providers = [row for row in rows if row["role"] == "provider"]
    names = {(row["provider"], row["params"], *case_of(row)) for row in providers}
    assert len(names) == len(providers) == CONFIGURATIONS * len(CASES) * 2
    assert {(row["N"], row["dtype"]) for row in rows} == CASES
    header = (swept / "token=abc" / "sweep.csv").read_text().splitlines()[0].split(",")
    assert header[:8] == ["operator", "provider", "params", "M", "N", "mode", "dtype", "role"]


def test_the_controls_copy_empty_and_repeat_are_added_to_every_case_of_every_session(rows: Rows) -> None:
    controls = Counter((row["provider"], *case_of(row)) for row in rows if row["role"] == "control")
    assert set(controls.values()) == {1}
    assert set(controls) == {
        (name, *case, session) for name in ("copy", "empty", "repeat") for case in CASES for session in "01"
    }


def test_a_session_is_a_pass_over_all_cases_in_a_fresh_process_and_rows_carry_its_number(rows: Rows) -> None:
    sessions = [row["session"] for row in rows]
    assert sessions == sorted(sessions) and set(sessions) == {"0", "1"}
    of_process = {(row["session"], row["reason"]) for row in rows if row["reason"].startswith("only even rows in ")}
    assert len(of_process) == len({reason for _, reason in of_process}) == 2
    first, second = ({row["started_at"] for row in rows if row["session"] == number} for number in "01")
    assert max(first) <= min(second)


def test_a_row_has_a_time_or_a_status_with_its_reason(rows: Rows) -> None:
    for row in rows:
        assert (row["status"] == "ok") == (row["ms"] != "") == (row["round_ms"] != "") == (row["gbps"] != "")
        assert row["reason"] or row["status"] in ("ok", "checked")
    assert {row["status"] for row in rows} == {"ok", "checked", "unavailable", "unsupported"}


# --- the numbers


def test_a_time_is_the_median_of_its_rounds_and_speedup_that_of_the_baseline_of_the_case_divided_by_it(
    rows: Rows,
) -> None:
    baselines = {case_of(row): row for row in rows if row["provider"] == "torch-native"}
    for row in timed(rows):
        baseline = float(baselines[case_of(row)]["ms"])
        assert isclose(float(row["speedup"]), baseline / float(row["ms"]), rel_tol=1e-9)
    for row in timed(rows):
        round_ms = [float(value) for value in row["round_ms"].split(";")]
        assert len(round_ms) == 2 and isclose(float(row["ms"]), median(round_ms), rel_tol=1e-9)
        assert 0 < float(row["ms_min"]) <= float(row["ms_p20"]) <= float(row["ms_p80"])
        assert int(row["samples"]) >= 2


def test_the_cost_of_the_timer_and_the_bandwidth_of_the_memory_are_measured_once_per_session(rows: Rows) -> None:
    for session in "01":
        empty = {row["ms"] for row in rows if row["provider"] == "empty" and row["session"] == session}
        assert len(empty) == 1
        assert float(empty.pop()) < min(float(row["ms"]) for row in timed(rows))
        ceilings = {row["ceiling_gbps"] for row in rows if row["session"] == session}
        assert len(ceilings) == 1 and float(ceilings.pop()) > 0


def test_the_error_of_every_right_row_is_known_in_ulp_and_is_the_same_in_every_session(rows: Rows) -> None:
    for row in rows:
        if row["role"] == "provider" and row["status"] in ("ok", "checked"):
            assert 0 < float(row["max_ulp"]) < 20 and 0 < float(row["max_rel_err"]) < 1e-2
            assert row["deterministic"] == "True"
    errors: dict[tuple[str, ...], set[str]] = {}
    for row in rows:
        if row["max_ulp"]:
            errors.setdefault((row["provider"], row["params"], row["N"], row["dtype"]), set()).add(row["max_ulp"])
    assert all(len(values) == 1 for values in errors.values())


def test_a_row_names_its_timer_cache_device_time_and_machine(swept: Path, rows: Rows) -> None:
    environment = json.loads((swept / "token=abc" / "sweep.env.json").read_text())
    for row in rows:
        assert (row["timer"], row["cache"], row["device"]) == ("do_bench", "warm", environment["device"])
        assert row["env_id"] == environment["env_id"]
        assert datetime.fromisoformat(row["started_at"]).utcoffset() is not None


def test_rows_with_equal_code_have_equal_hashes(rows: Rows) -> None:
    assert len({row["case_hash"] for row in rows}) == len(CASES)
    sources = {(row["provider"], row["source_hash"]) for row in rows if row["role"] == "provider"}
    assert len(sources) == CONFIGURATIONS - 1  # `mine` is there with two parameters
    assert dict(sources)["mine"] == dict(sources)["even"] != dict(sources)["torch-native"]


def test_a_provider_that_runs_the_baseline_under_another_name_is_flagged(rows: Rows) -> None:
    for row in timed(rows):
        renamed = row["provider"] == "even" or (row["provider"] == "mine" and row["dtype"] == "float32")
        assert ("same-ops" in row["flags"].split(";")) == renamed
        assert not renamed or "torch-native" in row["reason"]


# --- files and output


def test_the_environment_file_holds_versions_settings_and_what_was_typed_and_no_secret_of_a_variable(
    swept: Path,
) -> None:
    environment = json.loads((swept / "token=abc" / "sweep.env.json").read_text())
    assert environment["config"] == {"path": f"{swept}/sweep.yaml", "text": SWEEP} | environment["config"]
    assert environment["command"] == ["kbench", *command_of(swept)]
    assert {"torch", "triton", "numpy"} <= set(environment["packages"]) and environment["python"]
    assert environment["baseline"] == "torch-native"
    assert environment["measure"]["rounds"] == 2 and environment["measure"]["seed"] == 0
    assert environment["started_at"] <= environment["finished_at"]

    assert environment["variables"]["TORCH_CUDA_TOKEN"] == "(hidden)"
    assert environment["variables"]["TRITON_PTXAS_PATH"] == f"{swept}/ptxas"
    assert "s3cret" not in json.dumps(environment)


def test_progress_goes_to_stderr_with_times_and_without_a_winner(swept: Path) -> None:
    ended = kept(swept)
    lines = [line for line in ended.err.splitlines() if line.startswith("[")]
    assert [line.split("]")[0] for line in lines] == [f"[{number}/8" for number in range(1, 9)]
    assert all(" us" in line and "fastest" not in line for line in lines)
    assert "token=abc/sweep.csv" in ended.out and "torch-native" in ended.out and "[1/8]" not in ended.out


def test_a_run_draws_pictures_and_prints_their_paths(swept: Path) -> None:
    pictures = [line.split(": ")[1] for line in kept(swept).out.splitlines() if line.startswith("plot: ")]
    assert {Path(picture).suffix for picture in pictures} == {".png", ".svg"}
    for picture in pictures:
        assert (swept / picture).read_bytes()[:4] in (b"\x89PNG", b"<?xm", b"<svg")


def test_show_prints_the_same_summary_as_the_run(swept: Path) -> None:
    shown = run_kbench("show", "token=abc/sweep.csv", folder=swept)
    printed = [line for line in kept(swept).out.splitlines() if not line.startswith("plot: ")]
    assert shown.code == 0 and shown.out.strip().splitlines() == "\n".join(printed).strip().splitlines()


def test_the_summary_says_how_noisy_it_was_and_who_was_not_timed_with_the_reason(swept: Path) -> None:
    lines = kept(swept).out.splitlines()
    assert kept(swept).code == 0, "what cannot run or declines is no failure"
    assert [line for line in lines if re.search(r"(noise floor|too noisy to rank).* \d[\d.]* %", line)]
    reasons = {"triton": "checked (4 cases)", "cuda": "unavailable (4 cases)", "even": "only even"}
    for provider, words in reasons.items():
        assert [line for line in lines if line.strip().startswith(f"{provider}: ") and words in line]


# --- one file, again and again


ONE_CASE = "{operator: softmax, sweep: {M: 4, N: 64}, providers: [torch-native, even], plugins: [mine.py]}"


@pytest.fixture
def repeated(made_once: MadeOnce) -> Path:
    """A file that was measured, measured again with another seed, extended, and refused twice. Copies show each state."""

    def make(folder: Path) -> None:
        (folder / "once.yaml").write_text(ONE_CASE)
        (folder / "mine.py").write_text(PLUGIN)
        results = folder / "results" / "once.csv"

        def step(name: str, *arguments: object) -> None:
            keep(run_kbench("run", "once.yaml", *RUN, *arguments, folder=folder), folder, name)
            (folder / f"{name}.csv").write_bytes(results.read_bytes())

        step("first", "--set", "mode=forward,backward,full")
        step("seeded", "--set", "seed=7", "--only", "torch-native")
        (folder / "aside").write_text("\n".join(path.name for path in (folder / "results").iterdir()))
        step("appended", "--set", "seed=7", "--only", "torch-native", "--append", "--sessions", 1)
        step("other-settings", "--set", "seed=7", "--set", "rounds=3", "--only", "torch-native", "--append")
        results.write_bytes((folder / "first.csv").read_bytes())
        for environment in (folder / "results").glob("once.*.env.json"):
            results.with_suffix(".env.json").write_bytes(environment.read_bytes())
        (folder / "mine.py").write_text(PLUGIN.replace("softmax(x, -1)", "softmax(x, 1)"))
        step("other-code", "--set", "mode=forward,backward,full", "--append")

    return made_once("repeated", make)


def test_modes_are_cases_of_their_own_with_all_their_controls(repeated: Path) -> None:
    found = Counter((row["mode"], row["provider"], row["status"]) for row in rows_of(repeated / "first.csv"))
    names = ("torch-native", "even", "copy", "empty", "repeat")
    assert found == {(mode, name, "ok"): 1 for mode in ("forward", "backward", "full") for name in names}


def test_earlier_results_are_moved_aside_with_their_date_and_never_overwritten(repeated: Path) -> None:
    names = (repeated / "aside").read_text().split()
    [moved] = [name for name in names if re.fullmatch(r"once\.\d{8}-\d{6}\.csv", name)]
    assert moved.replace(".csv", ".env.json") in names
    assert (repeated / "results" / moved).read_bytes() == (repeated / "first.csv").read_bytes()


def test_another_seed_gives_other_inputs(repeated: Path) -> None:
    rows = {(row["provider"], row["mode"]): row for row in providers_of(repeated / "first.csv")}
    first, [seeded] = rows["torch-native", "forward"], providers_of(repeated / "seeded.csv")  # --only left one provider
    assert first["max_ulp"] != seeded["max_ulp"] and first["case_hash"] == seeded["case_hash"]


def test_append_adds_sessions_and_leaves_the_existing_rows_as_they_are(repeated: Path) -> None:
    before, after = (repeated / "seeded.csv").read_bytes(), (repeated / "appended.csv").read_bytes()
    assert kept(repeated, "appended").code == 0 and after.startswith(before)
    assert [row["session"] for row in providers_of(repeated / "appended.csv")] == ["0", "1"]


def test_append_refuses_other_settings_and_names_them(repeated: Path) -> None:
    ended = kept(repeated, "other-settings")
    assert ended.code == 2 and re.search(r"rounds\D+2\D+3\b", ended.err) and "seed" not in ended.err
    assert (repeated / "other-settings.csv").read_bytes() == (repeated / "appended.csv").read_bytes()


def test_append_refuses_changed_code_and_names_the_provider(repeated: Path) -> None:
    ended = kept(repeated, "other-code")
    assert ended.code == 2 and "even" in ended.err and "Traceback" not in ended.err
    assert (repeated / "other-code.csv").read_bytes() == (repeated / "first.csv").read_bytes()


def test_resume_and_append_exclude_each_other(kbench: Kbench, write: Write) -> None:
    write("once.yaml", ONE_CASE)
    ended = kbench("run", "once.yaml", "--resume", "--append")
    assert ended.code == 2 and "--resume" in ended.err and "--append" in ended.err


# --- timers and caches


def test_a_timer_that_this_machine_lacks_is_replaced_by_no_other(kbench: Kbench, folder: Path) -> None:
    ended = kbench("run", "softmax", *SMALL, *RUN, "--only", "torch-native,cuda", "--set", "timer=graph")
    found = {row["provider"]: row for row in rows_of(folder / "results" / "softmax.csv")}
    assert ended.code == 3 and not any(row["ms"] for row in found.values())
    assert found["torch-native"]["status"] == "unsupported" and "graph" in found["torch-native"]["reason"]


@pytest.fixture
def cold(made_once: MadeOnce) -> Path:
    """The folder of a run with a cold cache on a CPU, and the seconds of CPU that it took."""
    if torch.accelerator.is_available():
        pytest.skip("this machine measures an accelerator")

    def make(folder: Path) -> None:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run = ("run", "softmax", *SMALL, *RUN, "--set", "cache=cold", "--only", "torch-native,torch-jit")
        keep(run_kbench(*run, folder=folder), folder)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        (folder / "spent_s").write_text(str(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))

    return made_once("cold", make)


MOST_CPU_S = 12
"""Of a whole run with a cold cache, with the start of two programs and the import of torch. A flush of a last-level cache of
480 MiB alone took 25 s."""


def test_a_case_takes_seconds_also_where_the_cache_of_a_cpu_is_large_and_flushed(cold: Path) -> None:
    assert kept(cold).code == 0 and float((cold / "spent_s").read_text()) < MOST_CPU_S
    assert {row["cache"] for row in rows_of(cold / "results" / "softmax.csv")} == {"cold"}


def test_why_says_that_a_row_was_measured_on_a_cpu(kbench: Kbench, cold: Path) -> None:
    ended = kbench("why", cold / "results" / "softmax.csv", "--row", "provider=torch-jit")
    assert ended.code == 0 and "it was measured on a CPU" in ended.out and "possible reasons" not in ended.out


def test_calls_on_a_cpu_are_warm_unless_the_config_says_cold_and_that_is_no_flag(repeated: Path) -> None:
    if torch.accelerator.is_available():
        pytest.skip("this machine measures an accelerator")
    rows = rows_of(repeated / "appended.csv")
    assert {row["cache"] for row in rows} == {"warm"} and not any("l2-resident" in row["flags"] for row in rows)

"""`kbench run` and `kbench check`: what is measured, what is written, and what the numbers mean."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import datetime
from itertools import product
from math import isclose
from pathlib import Path
from statistics import median

import pandas as pd
import pytest
import yaml

from promises.outside import ROOT, Kbench, MadeOnce, Row, Rows, Write, keep, kept, providers_of, rows_of, run_kbench

PLUGIN = """
import torch
import kbench

softmax = kbench.operator("softmax")


@softmax.provider("mine", moved_bytes=lambda case: 3 * case.M * case.N * 4)
def mine(x, *, block=0):
    return torch.softmax(x.float(), -1).to(x.dtype)


@softmax.provider("even", supports=lambda case: "only even rows" if case.N % 2 else None)
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
TRITON = {"triton", "triton-row", "triton-persistent"}
ITEMSIZE = {"float32": 4, "bfloat16": 2}

QUICK = ("--no-plot", "--set", "rounds=2", "--set", "warmup_ms=1", "--set", "rep_ms=2", "--set", "cache=warm")
SMALL = ("--set", "M=4", "--set", "N=64")


@pytest.fixture
def swept(made_once: MadeOnce) -> Path:
    """The folder of a run of softmax: four cases, eleven configurations, two sessions, with pictures."""

    def make(folder: Path) -> None:
        (folder / "mine.py").write_text(PLUGIN)
        (folder / "sweep.yaml").write_text(SWEEP)
        arguments = ("run", "sweep.yaml", "--plugin", "mine.py", "--sessions", 2, "--out", "out")
        keep(run_kbench(*arguments, folder=folder), folder)

    return made_once("swept", make)


@pytest.fixture
def rows(swept: Path) -> Rows:
    return rows_of(swept / "out" / "sweep.csv")


def timed(rows: Rows) -> Rows:
    """The timed rows of providers."""
    return [row for row in rows if row["role"] == "provider" and row["status"] == "ok"]


def case_of(row: Row) -> tuple[str, ...]:
    return row["N"], row["dtype"], row["session"]


def by_case(rows: Rows, provider: str) -> dict[tuple[str, ...], Row]:
    return {case_of(row): row for row in rows if row["provider"] == provider}


# --- the rows


def test_a_results_file_has_one_line_per_configuration_case_and_session(rows: Rows) -> None:
    providers = [row for row in rows if row["role"] == "provider"]
    names = {(row["provider"], row["params"], *case_of(row)) for row in providers}
    assert len(names) == len(providers) == CONFIGURATIONS * len(CASES) * 2
    assert {(row["N"], row["dtype"]) for row in rows} == CASES


def test_the_controls_copy_empty_and_repeat_are_added_to_every_case_of_every_session(rows: Rows) -> None:
    controls = Counter((row["provider"], *case_of(row)) for row in rows if row["role"] == "control")
    assert set(controls.values()) == {1}
    assert set(controls) == {
        (name, *case, session) for name in ("copy", "empty", "repeat") for case in CASES for session in "01"
    }


def test_a_session_is_a_fresh_pass_over_all_cases_and_rows_carry_its_number(rows: Rows) -> None:
    sessions = [row["session"] for row in rows]
    assert sessions == sorted(sessions) and set(sessions) == {"0", "1"}
    first, second = ({row["started_at"] for row in rows if row["session"] == number} for number in "01")
    assert max(first) <= min(second)


def test_each_value_of_a_parameter_is_a_configuration_of_its_own(rows: Rows) -> None:
    assert Counter(row["params"] for row in rows if row["provider"] == "mine") == {"block=1": 8, "block=2": 8}


def test_the_columns_of_the_sweep_stand_between_params_and_dtype(swept: Path) -> None:
    header = (swept / "out" / "sweep.csv").read_text().splitlines()[0].split(",")
    assert header[:8] == ["operator", "provider", "params", "M", "N", "mode", "dtype", "role"]


def test_a_results_file_has_the_columns_that_its_documentation_names(rows: Rows) -> None:
    documented = re.findall(r"^- ((?:`\w+`(?:, )?)+) \(", (ROOT / "docs/reference/csv.md").read_text(), re.M)
    names = [name for names in documented for name in re.findall(r"\w+", names)]
    assert len(names) >= 30 and set(names) <= set(rows[0])


def test_a_dtype_has_its_full_name_whatever_the_config_calls_it(rows: Rows) -> None:
    assert {row["dtype"] for row in rows} == {"float32", "bfloat16"}


def test_only_ok_rows_have_a_time(rows: Rows) -> None:
    for row in rows:
        assert (row["status"] == "ok") == (row["ms"] != "") == (row["round_ms"] != "") == (row["gbps"] != "")


def test_every_status_but_ok_and_checked_has_a_reason(rows: Rows) -> None:
    assert all(row["reason"] for row in rows if row["status"] not in ("ok", "checked"))
    assert {row["status"] for row in rows} == {"ok", "checked", "unavailable", "unsupported"}


@pytest.mark.parametrize("provider", ["torch-native", "torch-jit", "mine"])
def test_the_providers_of_torch_are_checked_and_timed_in_every_case(rows: Rows, provider: str) -> None:
    assert {row["status"] for row in rows if row["provider"] == provider} == {"ok"}


def test_a_triton_kernel_is_checked_and_never_timed_on_a_host(rows: Rows) -> None:
    found = [row for row in rows if row["provider"] in TRITON]
    assert len(found) == 3 * len(CASES) * 2
    assert {(row["status"], row["ms"], row["speedup"]) for row in found} == {("checked", "", "")}
    assert all(float(row["max_ulp"]) < 20 for row in found)


def test_a_provider_that_needs_another_device_is_unavailable_and_the_reason_names_it(rows: Rows) -> None:
    reasons = {row["reason"] for row in rows if row["provider"] == "cuda" and row["status"] == "unavailable"}
    assert len(reasons) == 1 and "cuda" in reasons.pop()


def test_a_provider_whose_package_is_missing_is_unavailable_and_the_reason_names_it(rows: Rows) -> None:
    for row in rows:
        if row["provider"] == "liger":
            assert row["status"] == "unavailable" and "liger" in row["reason"] and "pip install" in row["reason"]


def test_a_provider_that_declines_a_case_is_unsupported_there_with_its_own_words(rows: Rows) -> None:
    found = {(row["N"], row["status"], row["reason"]) for row in rows if row["provider"] == "even" and row["N"] == "95"}
    assert found == {("95", "unsupported", "only even rows")}


def test_what_cannot_run_or_declines_is_no_failure(swept: Path) -> None:
    assert kept(swept).code == 0


# --- the numbers


def test_gbps_are_the_bytes_read_and_written_once_divided_by_the_time(rows: Rows) -> None:
    for row in timed(rows):
        useful = 2 * int(row["M"]) * int(row["N"]) * ITEMSIZE[row["dtype"]]
        assert isclose(float(row["gbps"]), useful / float(row["ms"]) / 1e6, rel_tol=1e-9)
        assert isclose(float(row["gbps_p20"]), useful / float(row["ms_p80"]) / 1e6, rel_tol=1e-9)


def test_achieved_gbps_are_the_bytes_that_a_provider_says_it_moves(rows: Rows) -> None:
    eager = [row for row in timed(rows) if row["provider"] == "torch-eager"]
    assert len(eager) == 4  # float32
    for row in eager:
        m, n = int(row["M"]), int(row["N"])
        moved = (5 * m * n + 2 * m + 3 * m * n + 2 * m) * 4
        assert isclose(float(row["achieved_gbps"]), moved / float(row["ms"]) / 1e6, rel_tol=1e-9)
    for row in timed(rows):
        if row["provider"] == "mine":
            moved = 3 * int(row["M"]) * int(row["N"]) * 4
            assert isclose(float(row["achieved_gbps"]), moved / float(row["ms"]) / 1e6, rel_tol=1e-9)
        elif row["provider"] != "torch-eager":
            assert row["achieved_gbps"] == ""


def test_copy_fraction_is_the_share_of_the_speed_of_the_copy_in_the_same_case(rows: Rows) -> None:
    copies = by_case(rows, "copy")
    for row in timed(rows):
        copy = float(copies[case_of(row)]["gbps"])
        assert isclose(float(row["copy_fraction"]), float(row["gbps"]) / copy, rel_tol=1e-9)


def test_speedup_is_the_time_of_the_baseline_in_the_same_case_and_session_divided_by_the_time(rows: Rows) -> None:
    baselines = by_case(rows, "torch-native")
    for row in timed(rows):
        baseline = float(baselines[case_of(row)]["ms"])
        assert isclose(float(row["speedup"]), baseline / float(row["ms"]), rel_tol=1e-9)


def test_the_time_of_a_row_is_the_median_of_its_rounds(rows: Rows) -> None:
    for row in timed(rows):
        round_ms = [float(value) for value in row["round_ms"].split(";")]
        assert len(round_ms) == 2 and isclose(float(row["ms"]), median(round_ms), rel_tol=1e-9)
        assert 0 < float(row["ms_min"]) <= float(row["ms_p20"]) <= float(row["ms_p80"])
        assert int(row["samples"]) >= 2


def test_the_cost_of_the_timer_is_measured_once_per_session_and_far_below_a_kernel(rows: Rows) -> None:
    for session in "01":
        empty = {row["ms"] for row in rows if row["provider"] == "empty" and row["session"] == session}
        assert len(empty) == 1
        assert float(empty.pop()) < min(float(row["ms"]) for row in timed(rows))


def test_the_bandwidth_of_the_memory_is_measured_once_per_session(rows: Rows) -> None:
    for session in "01":
        ceilings = {row["ceiling_gbps"] for row in rows if row["session"] == session}
        assert len(ceilings) == 1 and float(ceilings.pop()) > 0


def test_the_share_of_the_speed_of_light_is_the_speed_divided_by_the_bandwidth(rows: Rows) -> None:
    for row in timed(rows):
        assert isclose(float(row["sol"]), float(row["gbps"]) / float(row["ceiling_gbps"]), rel_tol=1e-9)


def test_the_error_of_every_right_row_is_known_in_units_in_the_last_place(rows: Rows) -> None:
    for row in rows:
        if row["role"] == "provider" and row["status"] in ("ok", "checked"):
            assert 0 < float(row["max_ulp"]) < 20 and 0 < float(row["max_rel_err"]) < 1e-2
            assert row["deterministic"] == "True"


def test_every_session_checks_a_provider_on_the_same_inputs(rows: Rows) -> None:
    errors: dict[tuple[str, ...], set[str]] = {}
    for row in rows:
        if row["max_ulp"]:
            errors.setdefault((row["provider"], row["params"], row["N"], row["dtype"]), set()).add(row["max_ulp"])
    assert all(len(values) == 1 for values in errors.values())


def test_a_row_names_its_timer_cache_device_time_and_machine(swept: Path, rows: Rows) -> None:
    environment = json.loads((swept / "out" / "sweep.env.json").read_text())
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


def test_rows_of_a_host_are_not_flagged_l2_resident(rows: Rows) -> None:
    assert not any("l2-resident" in row["flags"].split(";") for row in timed(rows))


# --- files and output


def test_the_environment_file_holds_versions_config_command_and_settings(swept: Path) -> None:
    environment = json.loads((swept / "out" / "sweep.env.json").read_text())
    assert environment["config"]["text"] == SWEEP
    assert environment["command"][1:] == ["run", "sweep.yaml", "--plugin", "mine.py", "--sessions", "2", "--out", "out"]
    assert {"torch", "triton", "numpy"} <= set(environment["packages"]) and environment["python"]
    assert environment["baseline"] == "torch-native"
    assert environment["measure"]["rounds"] == 2 and environment["measure"]["seed"] == 0
    assert environment["started_at"] <= environment["finished_at"]


def test_a_run_draws_pictures_and_prints_their_paths(swept: Path) -> None:
    pictures = [line.split(": ")[1] for line in kept(swept).out.splitlines() if line.startswith("plot: ")]
    assert {Path(picture).suffix for picture in pictures} == {".png", ".svg"}
    for picture in pictures:
        assert (swept / picture).read_bytes()[:4] in (b"\x89PNG", b"<?xm", b"<svg")


def test_results_go_to_stdout_and_progress_to_stderr(swept: Path) -> None:
    ended = kept(swept)
    progress = [f"[{number}/8]" for number in range(1, 9)]
    assert all(step in ended.err and step not in ended.out for step in progress)
    assert "out/sweep.csv" in ended.out and "torch-native" in ended.out


def test_a_run_ends_with_the_number_of_rows_of_each_status(swept: Path, rows: Rows) -> None:
    counts = Counter(row["status"] for row in rows if row["role"] == "provider")
    [line] = [line for line in kept(swept).out.splitlines() if line.endswith("out/sweep.csv")]
    assert all(f"{count} {status}" in line for status, count in counts.items())


def test_show_prints_the_same_summary_as_the_run(swept: Path) -> None:
    shown = run_kbench("show", "out/sweep.csv", folder=swept)
    printed = [line for line in kept(swept).out.splitlines() if not line.startswith("plot: ")]
    assert shown.code == 0 and shown.out.strip().splitlines() == "\n".join(printed).strip().splitlines()


def test_the_summary_says_how_noisy_it_was_and_who_was_not_timed_with_the_reason(swept: Path) -> None:
    lines = kept(swept).out.splitlines()
    assert [line for line in lines if re.search(r"(noise floor|too noisy to rank).* \d[\d.]* %", line)]
    for provider, words in {
        "triton": "checked (4 cases)",
        "cuda": "unavailable (4 cases)",
        "even": "only even",
    }.items():
        assert [line for line in lines if line.strip().startswith(f"{provider}: ") and words in line]


def test_pandas_reads_the_results_and_a_pivot_works(swept: Path) -> None:
    frame = pd.read_csv(swept / "out" / "sweep.csv").query(
        'role == "provider" and session == 0 and params != "block=2"'
    )
    table = frame.pivot(index=["dtype", "N"], columns="provider", values="gbps")
    assert table.shape == (4, 10) and (table["torch-native"] > 0).all() and table["cuda"].isna().all()


# --- one file, again and again


ONE_CASE = "{operator: softmax, sweep: {M: 4, N: 64}, providers: [torch-native, theirs], plugins: [theirs.py]}"
THEIRS = """
import torch
import kbench


@kbench.operator("softmax").provider("theirs")
def theirs(x):
    return torch.softmax(x, 1)
"""


@pytest.fixture
def repeated(made_once: MadeOnce) -> Path:
    """A file that was measured, measured again with another seed, extended, and refused twice. Copies show each state."""

    def make(folder: Path) -> None:
        (folder / "once.yaml").write_text(ONE_CASE)
        (folder / "theirs.py").write_text(THEIRS)
        results = folder / "results" / "once.csv"

        def step(name: str, *arguments: object) -> None:
            keep(run_kbench("run", "once.yaml", *QUICK, *arguments, folder=folder), folder, name)
            (folder / f"{name}.csv").write_bytes(results.read_bytes())

        step("first", "--set", "mode=forward,backward,full")
        step("seeded", "--set", "seed=7", "--only", "torch-native")
        (folder / "aside").write_text("\n".join(path.name for path in (folder / "results").iterdir()))
        step("appended", "--set", "seed=7", "--only", "torch-native", "--append", "--sessions", 2)
        step("other-settings", "--set", "seed=7", "--set", "rounds=3", "--only", "torch-native", "--append")
        results.write_bytes((folder / "first.csv").read_bytes())
        for environment in (folder / "results").glob("once.*.env.json"):
            results.with_suffix(".env.json").write_bytes(environment.read_bytes())
        (folder / "theirs.py").write_text(THEIRS.replace("x, 1)", "x, -1)"))
        step("other-code", "--set", "mode=forward,backward,full", "--append")

    return made_once("repeated", make)


def test_modes_are_cases_of_their_own_with_all_their_controls(repeated: Path) -> None:
    found = Counter((row["mode"], row["provider"], row["status"]) for row in rows_of(repeated / "first.csv"))
    names = ("torch-native", "theirs", "copy", "empty", "repeat")
    assert found == {(mode, name, "ok"): 1 for mode in ("forward", "backward", "full") for name in names}


def test_earlier_results_are_moved_aside_with_their_date_and_never_overwritten(repeated: Path) -> None:
    names = (repeated / "aside").read_text().split()
    [moved] = [name for name in names if re.fullmatch(r"once\.\d{8}-\d{6}\.csv", name)]
    assert moved.replace(".csv", ".env.json") in names
    assert (repeated / "results" / moved).read_bytes() == (repeated / "first.csv").read_bytes()


def test_only_uses_only_these_providers(repeated: Path) -> None:
    assert {row["provider"] for row in providers_of(repeated / "seeded.csv")} == {"torch-native"}


def test_another_seed_gives_other_inputs(repeated: Path) -> None:
    [first] = [
        row
        for row in providers_of(repeated / "first.csv")
        if (row["provider"], row["mode"]) == ("torch-native", "forward")
    ]
    [seeded] = providers_of(repeated / "seeded.csv")
    assert first["max_ulp"] != seeded["max_ulp"] and first["case_hash"] == seeded["case_hash"]


def test_append_adds_sessions_and_leaves_the_existing_rows_as_they_are(repeated: Path) -> None:
    before, after = (repeated / "seeded.csv").read_bytes(), (repeated / "appended.csv").read_bytes()
    assert kept(repeated, "appended").code == 0 and after.startswith(before)
    assert [row["session"] for row in providers_of(repeated / "appended.csv")] == ["0", "1", "2"]


def test_append_refuses_other_settings_and_names_them(repeated: Path) -> None:
    ended = kept(repeated, "other-settings")
    assert ended.code == 2 and re.search(r"rounds\D+2\D+3\b", ended.err) and "seed" not in ended.err
    assert (repeated / "other-settings.csv").read_bytes() == (repeated / "appended.csv").read_bytes()


def test_append_refuses_changed_code_and_names_the_provider(repeated: Path) -> None:
    ended = kept(repeated, "other-code")
    assert ended.code == 2 and "theirs" in ended.err and "Traceback" not in ended.err
    assert (repeated / "other-code.csv").read_bytes() == (repeated / "first.csv").read_bytes()


def test_resume_and_append_exclude_each_other(kbench: Kbench, write: Write) -> None:
    write("once.yaml", ONE_CASE)
    ended = kbench("run", "once.yaml", "--resume", "--append")
    assert ended.code == 2 and "--resume" in ended.err and "--append" in ended.err


# --- the built-in experiments


def test_every_provider_that_kbench_ships_is_listed(made_once: MadeOnce) -> None:
    folder = made_once("listed", lambda folder: keep(run_kbench("list", folder=folder), folder))
    listed = {tuple(line.split()[:2]) for line in kept(folder).out.splitlines()}
    both = ("torch-native", "torch-jit", "torch-compile", "triton-row", "triton", "cuda")
    ladder = ("cuda-naive", "cuda-online", "cuda-shared", "cuda-shuffle")
    softmax = (*both, *ladder, "torch-eager", "triton-persistent", "liger", "quack")
    assert {("softmax", provider) for provider in softmax} | {("gelu", provider) for provider in both} <= listed
    for config in ("softmax", "softmax-ladder", "softmax-persistent", "gelu", "softmax-warps", "softmax-large"):
        assert [line for line in kept(folder).out.splitlines() if line.split()[:1] == [config]]


LONG = {"start": 256, "stop": 12672, "step": 128}


def test_the_experiments_of_the_write_ups_are_built_in() -> None:
    row, ladder = (
        {"M": 4096, "N": LONG, "dtype": "float32"},
        ("cuda-naive", "cuda-online", "cuda-shared", "cuda-shuffle"),
    )
    experiments: dict[str, tuple[object, tuple[str, ...]]] = {
        "softmax": (row, ("triton", "torch-native", "torch-jit", "cuda")),
        "softmax-ladder": ({"M": 1024, "N": 32768, "dtype": "float32"}, (*ladder, "cuda", "torch-native")),
        "softmax-persistent": ([{"M": 1823, "N": 781, "dtype": "float32"}, row], ("triton-row", "triton-persistent")),
        "gelu": (row | {"approximate": "tanh"}, ("triton", "torch-native")),
    }
    for name, (sweep, providers) in experiments.items():
        config = yaml.safe_load((ROOT / "configs" / f"{name}.yaml").read_text())
        assert config["sweep"] == sweep and set(providers) <= set(config["providers"])


def test_dry_run_prints_every_case_and_measures_nothing(kbench: Kbench, folder: Path) -> None:
    ended = kbench("run", "softmax", "--profile", "none", "--dry-run")
    cases = re.findall(r"^4096 +(\d+) +forward +float32", ended.out, re.M)
    assert ended.code == 0 and list(map(int, cases)) == list(range(256, 12673, 128))
    assert "98 cases" in ended.out and not any(folder.iterdir())


def test_every_combination_of_num_warps_and_num_stages_is_a_configuration(kbench: Kbench) -> None:
    ended = kbench("run", "softmax-warps", "--profile", "none", "--dry-run")
    found = set(re.findall(r"triton-row\[num_warps=(\d+),num_stages=(\d+)\]", ended.out))
    assert found == {(str(warps), str(stages)) for warps in (1, 2, 4, 8, 16, 32) for stages in (1, 2, 3, 4)}
    assert re.findall(r"^4096 +(\d+) ", ended.out, re.M) == ["1024", "4096", "8192", "16384"]


def test_the_ladder_runs_on_a_host_and_says_which_steps_it_cannot_climb(kbench: Kbench, folder: Path) -> None:
    """The rows have columns for the stages: allocate, copy to the device, kernel, copy back. A host has none of them."""
    ended = kbench("run", "softmax-ladder", *SMALL, *QUICK)
    found = {row["provider"]: row for row in providers_of(folder / "results" / "softmax-ladder.csv")}
    steps = {"cuda-naive", "cuda-online", "cuda-shared", "cuda-shuffle", "cuda"}
    assert ended.code == 0 and set(found) == steps | {"torch-native"}
    assert {found[step]["status"] for step in steps} == {"unavailable"} and found["torch-native"]["status"] == "ok"
    assert {found["torch-native"][f"{stage}_ms"] for stage in ("alloc", "h2d", "kernel", "d2h")} == {""}
    assert "profile cpu" in ended.err  # applied automatically, and said so


def test_show_prints_the_stages_of_the_ladder(kbench: Kbench) -> None:
    path = ROOT / "results" / "h200" / "softmax-ladder.csv"
    shown = kbench("show", path).out
    for row in providers_of(path):
        [line] = [line for line in shown.splitlines() if row["provider"] in line.split() and row["N"] in line.split()]
        assert all(f"{float(row[f'{stage}_ms']):.3f}" in line for stage in ("alloc", "h2d", "kernel", "d2h"))


def test_a_timer_that_this_machine_lacks_is_unsupported_and_nothing_else_takes_its_place(
    kbench: Kbench, folder: Path
) -> None:
    ended = kbench("run", "softmax", *SMALL, *QUICK, "--only", "torch-native,cuda", "--set", "timer=graph")
    found = {row["provider"]: row for row in rows_of(folder / "results" / "softmax.csv")}
    assert ended.code == 3 and not any(row["ms"] for row in found.values())
    assert found["torch-native"]["status"] == "unsupported" and "graph" in found["torch-native"]["reason"]


# --- check

FAULTY = """
import os
import torch
import kbench

softmax = kbench.operator("softmax")


def right(x):
    return torch.softmax(x, -1)


@softmax.provider("right")
def right_everywhere(x):
    return right(x)


@softmax.provider("odd")
def odd(x):
    y = right(x)
    if x.shape[1] % 2:
        y[:, -1] = 0
    return y


@softmax.provider("strided")
def strided(x):
    return right(x if x.is_contiguous() else torch.as_strided(x, x.shape, (x.shape[1], 1)))


@softmax.provider("empty")
def empty(x):
    return right(x) if x.numel() else x.new_zeros(1, 1)


@softmax.provider("nan")
def nan(x):
    return right(torch.nan_to_num(x, nan=0.0, posinf=float("inf"), neginf=-float("inf")))


@softmax.provider("inf")
def inf(x):
    return right(x.clamp(min=-1e30))


@softmax.provider("large")
def large(x):
    e = torch.exp(x)
    return e / e.sum(-1, keepdim=True)


@softmax.provider("crash")
def crash(x):
    if x.shape[0] == 1:
        os.abort()
    return right(x)
"""


@pytest.fixture
def checked(made_once: MadeOnce) -> Path:
    def make(folder: Path) -> None:
        (folder / "faulty.py").write_text(FAULTY)
        readme = (ROOT / "README.md").read_text()
        [kernel] = [block for block in re.findall(r"```python\n(.*?)```", readme, re.S) if "softmax_rows" in block]
        (folder / "my_kernels.py").write_text(kernel)
        check = ("check", "softmax", *SMALL, "--set", "mode=forward")
        names = "right,odd,strided,empty,nan,inf,large,crash"
        keep(run_kbench(*check, "--plugin", "faulty.py", "--only", names, folder=folder), folder, "faulty")
        keep(run_kbench(*check, "--plugin", "my_kernels.py", "--only", "mine", folder=folder), folder, "right")

    return made_once("checked", make)


def test_the_kernel_of_the_readme_is_right_on_all_edge_inputs(checked: Path) -> None:
    ended = kept(checked, "right")
    cells = [line.split()[-2:] for line in ended.out.splitlines() if re.search(r" ok +[\d.]+$", line)]
    assert ended.code == 0 and "mine" in ended.out and len(cells) >= 8
    for inputs in ("random", "one NaN", "strided rows", "odd columns", "no rows"):
        assert re.search(rf"^{inputs} +ok", ended.out, re.M)


def test_check_finds_a_kernel_that_is_wrong_on_one_kind_of_input_only_and_names_the_input(checked: Path) -> None:
    ended = kept(checked, "faulty")
    faults = {
        "odd": "odd columns",
        "strided": "strided",
        "empty": "no rows",
        "nan": "NaN",
        "inf": "-inf",
        "large": "large offset",
        "crash": "one row",
    }
    for provider, inputs in faults.items():
        assert re.search(rf"^ *{provider}: (wrong|crashed) .*{inputs}", ended.text, re.M), (provider, ended.text)
    assert ended.code == 1


def test_check_blames_no_right_kernel_beside_wrong_ones(checked: Path) -> None:
    ended = kept(checked, "faulty")
    assert not re.search(r"^ *right: ", ended.text, re.M) and "Traceback" not in ended.text


def test_check_writes_no_results(checked: Path) -> None:
    assert not (checked / "results").exists()

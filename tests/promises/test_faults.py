"""A provider that misbehaves costs its own rows: they say what happened, and all others are measured."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from promises.outside import (
    QUICK,
    Ended,
    Kbench,
    MadeOnce,
    Rows,
    Write,
    folder_of,
    keep,
    kept,
    providers_of,
    rows_of,
    run_kbench,
)

PLUGIN = """
import os
import sys
import threading
import time

import torch

import kbench

double = kbench.Operator(
    "double",
    axes=("M", "N"),
    inputs={"x": kbench.Tensor("M", "N")},
    outputs={"y": kbench.Tensor("M", "N")},
    reference=lambda x: 2 * x,
    rows="M",
)
first_case = dict(supports=lambda case: None if case.N == 16 else "tried once, to save time")


@double.provider("honest")
def honest(x):
    return 2 * x


@double.provider("one-element")
def one_element(x):
    y = 2 * x
    y[3, 5] += 1
    return y


@double.provider("nan")
def nan(x):
    y = 2 * x
    y[1, 2] = float("nan")
    return y


@double.provider("second-call", factory=True)
def second_call(case):
    calls = []

    def call(x):
        calls.append(None)
        return 2 * x if len(calls) == 1 else 3 * x

    return call


double.provider("wrong-shape")(lambda x: (2 * x)[:-1])
double.provider("wrong-dtype")(lambda x: (2 * x).double())
double.provider("nothing")(lambda x: None)
double.provider("its-input")(lambda x: x)


@double.provider("changes-input")
def changes_input(x):
    y = 2 * x
    x.zero_()
    return y


@double.provider("raises")
def raises(x):
    x.zero_()
    raise ValueError("no rows like these")


@double.provider("sys-exit")
def sys_exit(x):
    sys.exit(7)


@double.provider("too-large")
def too_large(x):
    return torch.ones(2**50) * x


@double.provider("hangs", **first_case)
def hangs(x):
    while True:
        time.sleep(0.1)


@double.provider("aborts", **first_case)
def aborts(x):
    os.abort()


@double.provider("os-exit")
def os_exit(x):
    os._exit(0)


@double.provider("default-dtype")
def default_dtype(x):
    torch.set_default_dtype(torch.float16)
    return 2 * x


@double.provider("built-in-double", factory=True)
def built_in_double(case):
    torch.set_default_dtype(torch.float64)

    def call(x):
        assert torch.get_default_dtype() == torch.float64
        return 2 * x

    return call


@double.provider("no-grad")
def no_grad(x):
    torch.set_grad_enabled(False)
    return 2 * x


@double.provider("prints")
def prints(x):
    print("double,forged\\n" * 50)
    os.write(1, b"double,forged\\n" * 50)
    return 2 * x


@double.provider("asks-settings")
def asks_settings(x):
    assert torch.get_default_dtype() == torch.float32 and torch.get_num_threads() == 1 and torch.is_grad_enabled()
    return 2 * x
"""

STATUSES = {
    "honest": "ok",
    "one-element": "wrong",
    "nan": "wrong",
    "second-call": "wrong",
    "wrong-shape": "wrong",
    "wrong-dtype": "wrong",
    "nothing": "wrong",
    "its-input": "wrong",
    "changes-input": "wrong",
    "raises": "error",
    "sys-exit": "error",
    "too-large": "oom",
    "hangs": "timeout",
    "aborts": "crashed",
    "os-exit": "crashed",
    "default-dtype": "ok",
    "built-in-double": "ok",
    "no-grad": "ok",
    "prints": "ok",
    "asks-settings": "ok",
}
ONLY_IN_THE_FIRST_CASE = ("hangs", "aborts")
FIRST, SECOND, THIRD = "16", "24", "32"

CONFIG = f"""
operator: double
plugins: [faults.py]
sweep: {{M: 8, N: [{FIRST}, {SECOND}, {THIRD}]}}
providers: [{", ".join(STATUSES)}]
baseline: honest
measure: {{rounds: 2, warmup_ms: 1, rep_ms: 2, cache: warm, build_timeout_s: 3}}
"""


@pytest.fixture
def faults(made_once: MadeOnce) -> Path:
    """The folder of one run of all these providers in three small cases."""
    files = {"faults.py": PLUGIN, "faults.yaml": CONFIG}
    return folder_of(made_once, "faults", files, "run", "faults.yaml", "--no-plot")


@pytest.fixture
def rows(faults: Path) -> Rows:
    return rows_of(faults / "results" / "faults.csv")


def rows_with(rows: Rows, provider: str) -> Rows:
    """The rows of a provider in the cases that it did not decline."""
    return [row for row in rows if row["provider"] == provider and row["status"] != "unsupported"]


def line_of(text: str) -> int:
    """The line of the plug-in that begins with this text, counted from 1."""
    return next(number for number, line in enumerate(PLUGIN.splitlines(), 1) if line.strip().startswith(text))


def test_every_provider_has_a_row_in_every_case_and_an_honest_one_a_time_whatever_the_others_do(rows: Rows) -> None:
    assert Counter(row["provider"] for row in rows if row["role"] == "provider") == dict.fromkeys(STATUSES, 3)
    for name in ("honest", "copy", "empty", "repeat"):
        assert [row["status"] for row in rows if row["provider"] == name] == ["ok"] * 3


def test_each_fault_has_its_status_in_every_case_a_reason_and_no_time(rows: Rows) -> None:
    found = {provider: [row["status"] for row in rows_with(rows, provider)] for provider in STATUSES}
    assert found == {
        provider: [status] * (1 if provider in ONLY_IN_THE_FIRST_CASE else 3) for provider, status in STATUSES.items()
    }
    for row in rows:
        if row["status"] != "ok":
            assert row["ms"] == row["gbps"] == row["speedup"] == "" and row["reason"]


REASONS = {
    "one-element": ["1 of 128", "[3, 5]"],
    "nan": ["1 of 128", "NaN", "[1, 2]"],
    "second-call": ["first call"],
    "wrong-shape": ["(7, 16)", "(8, 16)"],
    "wrong-dtype": ["float64", "float32"],
    "nothing": ["NoneType"],
    "its-input": ["input"],
    "changes-input": ["input x", "mutates="],
    "raises": ["ValueError", "no rows like these", f"faults.py:{line_of('raise ValueError')}"],
    "sys-exit": ["7", f"faults.py:{line_of('sys.exit')}"],
    "too-large": ["memory", f"faults.py:{line_of('return torch.ones')}"],
    "hangs": ["3 s"],
    "aborts": ["SIGABRT", f"faults.py:{line_of('os.abort')}"],
    "os-exit": ["code 0"],
}


def test_the_reason_says_in_one_line_what_happened_and_where(rows: Rows) -> None:
    reasons = {provider: rows_with(rows, provider)[0]["reason"] for provider in REASONS}
    missing = {
        provider: (words, reasons[provider])
        for provider, words in REASONS.items()
        if not all(word in reasons[provider] for word in words)
    }
    assert missing == {} and not [row for row in rows if "\n" in row["reason"]]


def test_a_provider_that_takes_its_process_down_in_two_cases_in_a_row_is_not_tried_again(rows: Rows) -> None:
    reasons = {row["N"]: row["reason"] for row in rows_with(rows, "os-exit")}
    assert all(not reasons[case].startswith("not tried again") for case in (FIRST, SECOND))
    assert reasons[THIRD].startswith("not tried again") and f"N={FIRST}" in reasons[THIRD]
    assert f"N={SECOND}" in reasons[THIRD]


def test_a_setting_that_a_provider_changes_is_its_own_flagged_named_and_put_back_for_others(rows: Rows) -> None:
    settings = {"default-dtype": "default_dtype", "built-in-double": "default_dtype", "no-grad": "grad_enabled"}
    for provider, setting in settings.items():
        for row in rows_with(rows, provider):
            assert "altered-state" in row["flags"].split(";") and setting in row["reason"]
    for row in rows_with(rows, "asks-settings"):
        assert row["status"] == "ok" and "altered-state" not in row["flags"]


def test_what_a_provider_prints_gets_neither_into_the_results_nor_into_stdout(faults: Path) -> None:
    assert "forged" not in (faults / "results" / "faults.csv").read_text()
    assert "forged" not in kept(faults).out


def test_the_summary_counts_failed_rows_and_names_each_provider_with_its_reason_and_none_as_winner(
    faults: Path,
) -> None:
    out = kept(faults).out
    assert kept(faults).code == 1 and "Traceback" not in kept(faults).text
    counts = Counter(row["status"] for row in providers_of(faults / "results" / "faults.csv"))
    assert all(f"{count} {status}" in out for status, count in counts.items())
    for provider, status in STATUSES.items():
        if status != "ok":
            assert re.search(rf"^ *{provider}: {status}\b", out, re.M), provider
    shown: Ended = run_kbench("show", faults / "results" / "faults.csv", folder=faults)
    timed = {provider for provider, status in STATUSES.items() if status == "ok"}
    [header] = [line for line in shown.out.splitlines() if re.match(r" *N ", line)]
    assert shown.code == 0 and set(header.split()) == {"N"} | timed


@pytest.mark.slow
def test_a_provider_that_hangs_is_named_before_its_limit_ends_it(kbench: Kbench, write: Write, folder: Path) -> None:
    write("faults.py", PLUGIN)
    write("hangs.yaml", CONFIG.replace("build_timeout_s: 3", "build_timeout_s: 22"))
    ended = kbench("run", "hangs.yaml", "--only", "hangs", "--set", f"N={FIRST}", "--no-plot")
    (row,) = providers_of(folder / "results" / "hangs.csv")
    assert row["status"] == "timeout"
    lines = [line for line in ended.err.splitlines() if "hangs" in line and "build_timeout_s" in line]
    assert len(lines) == 1, ended.err
    assert "20 s" in lines[0] and "22 s" in lines[0]
    assert ended.err.index(lines[0]) < ended.err.index("timeout: ")


# -- a kernel that breaks the device

BREAKS_DEVICE = """
import torch
import triton
import triton.language as tl

import kbench


@triton.jit
def store_far_away(x, y, N, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK).to(tl.int64)
    tl.store(y + i + (1 << 38), tl.load(x + i, mask=i < N), mask=i < N)


@triton.jit
def load_between_two(x, y, N, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    odd = (x.to(tl.pointer_type(tl.int8)) + 1).to(tl.pointer_type(tl.float32))
    tl.store(y + i, tl.load(odd + i, mask=i < N - 1), mask=i < N)


def launched(kernel, x):
    y = torch.empty_like(x)
    kernel[(1,)](x, y, x.numel(), BLOCK=1024)
    return y


@kbench.operator("softmax").provider("far", requires="triton")
def far(x):
    return launched(store_far_away, x)


@kbench.operator("softmax").provider("misaligned", requires="triton")
def misaligned(x):
    return launched(load_between_two, x)
"""
BREAKING = """
operator: softmax
plugins: [broken.py]
sweep: {M: 4, N: [128, 256], dtype: float32}
providers: [far, torch-native, misaligned]
baseline: torch-native
"""


@pytest.fixture
def broken(made_once: MadeOnce) -> Path:
    """The folder in which `kbench run` and `kbench check` have met the kernels that break the device."""

    def make(folder: Path) -> None:
        (folder / "broken.py").write_text(BREAKS_DEVICE)
        (folder / "broken.yaml").write_text(BREAKING)
        for command in (("run", "broken.yaml", *QUICK, "--no-plot"), ("check", "broken.yaml")):
            keep(run_kbench(*command, folder=folder), folder, command[0])

    return made_once("broken-device", make)


@pytest.mark.gpu
def test_the_reason_of_a_kernel_that_breaks_the_device_has_the_words_of_the_driver(broken: Path) -> None:
    for provider, words in {"far": "illegal memory access", "misaligned": "misaligned address"}.items():
        rows = rows_with(rows_of(broken / "results" / "broken.csv"), provider)
        assert len(rows) == 2
        for row in rows:
            assert row["status"] not in ("ok", "checked") and not row["ms"]
            assert words in row["reason"], row["reason"]
        assert kept(broken, "check").code == 1 and words in kept(broken, "check").text


@pytest.mark.gpu
def test_the_other_providers_are_measured_in_a_new_process(broken: Path) -> None:
    rows = rows_with(rows_of(broken / "results" / "broken.csv"), "torch-native")
    assert [row["status"] for row in rows] == ["ok", "ok"] and all(float(row["ms"]) > 0 for row in rows)
    assert kept(broken, "run").code == 1

"""A provider that misbehaves costs its own rows: they say what happened, and all others are measured."""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path

import pytest

from promises.outside import Ended, MadeOnce, Rows, keep, kept, providers_of, rows_of, run_kbench, run_process

PLUGIN = """
import os
import signal
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


@double.provider("all-wrong")
def all_wrong(x):
    return 2.001 * x


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


@double.provider("uneven", factory=True)
def uneven(case):
    calls = []

    def call(x):
        calls.append(None)
        return 2 * x if len(calls) < 8 else 2 * torch.zeros_like(x)

    return call


@double.provider("wrong-shape")
def wrong_shape(x):
    return (2 * x)[:-1]


@double.provider("wrong-dtype")
def wrong_dtype(x):
    return (2 * x).double()


@double.provider("nothing")
def nothing(x):
    return None


@double.provider("its-input")
def its_input(x):
    return x


@double.provider("changes-input")
def changes_input(x):
    y = 2 * x
    x.zero_()
    return y


@double.provider("late")
def late(x):
    y = torch.empty_like(x)

    def fill():
        time.sleep(0.3)
        y.copy_(2 * x)

    threading.Thread(target=fill, daemon=True).start()
    return y


@double.provider("raises")
def raises(x):
    raise ValueError("no rows like these")


@double.provider("raises-in-factory", factory=True)
def raises_in_factory(case):
    raise KeyError("no such table")


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


@double.provider("killed", **first_case)
def killed(x):
    os.kill(os.getpid(), signal.SIGKILL)


@double.provider("os-exit")
def os_exit(x):
    os._exit(7)


@double.provider("default-dtype")
def default_dtype(x):
    torch.set_default_dtype(torch.float16)
    return 2 * x


@double.provider("threads")
def threads(x):
    torch.set_num_threads(2)
    return 2 * x


@double.provider("no-grad")
def no_grad(x):
    torch.set_grad_enabled(False)
    return 2 * x


@double.provider("prints")
def prints(x):
    print("double,forged\\n" * 50)
    os.write(1, b"double,forged\\n" * 50)
    return 2 * x


@double.provider("idle-thread", factory=True)
def idle_thread(case):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    return lambda x: 2 * x


@double.provider("asks-settings")
def asks_settings(x):
    assert torch.get_default_dtype() == torch.float32 and torch.get_num_threads() == 1 and torch.is_grad_enabled()
    return 2 * x
"""

STATUSES = {
    "honest": "ok",
    "all-wrong": "wrong",
    "one-element": "wrong",
    "nan": "wrong",
    "second-call": "wrong",
    "uneven": "wrong",
    "wrong-shape": "wrong",
    "wrong-dtype": "wrong",
    "nothing": "wrong",
    "its-input": "wrong",
    "changes-input": "wrong",
    "late": "wrong",
    "raises": "error",
    "raises-in-factory": "error",
    "sys-exit": "error",
    "too-large": "oom",
    "hangs": "timeout",
    "aborts": "crashed",
    "killed": "crashed",
    "os-exit": "crashed",
    "default-dtype": "ok",
    "threads": "ok",
    "no-grad": "ok",
    "prints": "ok",
    "idle-thread": "ok",
    "asks-settings": "ok",
}
ONLY_IN_THE_FIRST_CASE = ("hangs", "aborts", "killed")
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

    def make(folder: Path) -> None:
        (folder / "faults.py").write_text(PLUGIN)
        (folder / "faults.yaml").write_text(CONFIG)
        keep(run_process("run", "faults.yaml", "--no-plot", folder=folder), folder)

    return made_once("faults", make)


@pytest.fixture
def rows(faults: Path) -> Rows:
    return rows_of(faults / "results" / "faults.csv")


def rows_with(rows: Rows, provider: str) -> Rows:
    """The rows of a provider in the cases that it did not decline."""
    return [row for row in rows if row["provider"] == provider and row["status"] != "unsupported"]


def line_of(text: str) -> int:
    """The line of the plug-in that begins with this text, counted from 1."""
    return next(number for number, line in enumerate(PLUGIN.splitlines(), 1) if line.strip().startswith(text))


def test_every_provider_has_a_row_in_every_case_whatever_the_others_do(rows: Rows) -> None:
    assert len(rows) == 3 * (len(STATUSES) + 3)
    assert Counter(row["provider"] for row in rows if row["role"] == "provider") == dict.fromkeys(STATUSES, 3)


def test_an_honest_provider_beside_them_is_measured_in_every_case(rows: Rows) -> None:
    for name in ("honest", "copy", "empty", "repeat"):
        assert [row["status"] for row in rows if row["provider"] == name] == ["ok"] * 3


def test_each_fault_has_its_status_in_every_case(rows: Rows) -> None:
    found = {provider: [row["status"] for row in rows_with(rows, provider)] for provider in STATUSES}
    assert found == {
        provider: [status] * (1 if provider in ONLY_IN_THE_FIRST_CASE else 3) for provider, status in STATUSES.items()
    }


def test_a_faulty_provider_has_no_time_and_a_reason(rows: Rows) -> None:
    for row in rows:
        if row["status"] != "ok":
            assert row["ms"] == row["gbps"] == row["speedup"] == "" and row["reason"]


REASONS = {
    "all-wrong": ["every element", "[0, 0]"],
    "one-element": ["1 of 128", "[3, 5]"],
    "nan": ["1 of 128", "NaN", "[1, 2]"],
    "second-call": ["first call"],
    "wrong-shape": ["(7, 16)", "(8, 16)"],
    "wrong-dtype": ["float64", "float32"],
    "nothing": ["NoneType"],
    "its-input": ["input"],
    "changes-input": ["input x", "mutates="],
    "raises": ["ValueError", "no rows like these", f"faults.py:{line_of('raise ValueError')}"],
    "raises-in-factory": ["KeyError", "no such table", f"faults.py:{line_of('raise KeyError')}"],
    "sys-exit": ["7", f"faults.py:{line_of('sys.exit')}"],
    "too-large": ["memory", f"faults.py:{line_of('return torch.ones')}"],
    "hangs": ["3 s"],
    "aborts": ["SIGABRT"],
    "killed": ["SIGKILL"],
    "os-exit": ["7"],
}


def test_the_reason_says_what_happened_and_where(rows: Rows) -> None:
    reasons = {provider: rows_with(rows, provider)[0]["reason"] for provider in REASONS}
    missing = {
        provider: (words, reasons[provider])
        for provider, words in REASONS.items()
        if not all(word in reasons[provider] for word in words)
    }
    assert missing == {}


def test_a_reason_is_one_line(rows: Rows) -> None:
    assert not [row for row in rows if "\n" in row["reason"]]


def test_a_provider_that_takes_its_process_down_in_two_cases_in_a_row_is_not_tried_again(rows: Rows) -> None:
    reasons = {row["N"]: row["reason"] for row in rows_with(rows, "os-exit")}
    assert all(not reasons[case].startswith("not tried again") for case in (FIRST, SECOND))
    assert reasons[THIRD].startswith("not tried again") and f"N={FIRST}" in reasons[THIRD]
    assert f"N={SECOND}" in reasons[THIRD]


def test_a_setting_that_a_provider_leaves_changed_is_flagged_and_named(rows: Rows) -> None:
    settings = {"default-dtype": "default_dtype", "threads": "num_threads", "no-grad": "grad_enabled"}
    for provider, setting in settings.items():
        for row in rows_with(rows, provider):
            assert "altered-state" in row["flags"].split(";") and setting in row["reason"]


def test_a_changed_setting_is_put_back_before_another_provider_runs(rows: Rows) -> None:
    for row in rows_with(rows, "asks-settings"):
        assert row["status"] == "ok" and "altered-state" not in row["flags"]


def test_what_a_provider_prints_gets_neither_into_the_results_nor_into_stdout(faults: Path) -> None:
    assert "forged" not in (faults / "results" / "faults.csv").read_text()
    assert "forged" not in kept(faults).out


def test_a_results_file_with_faults_is_a_plain_csv(faults: Path) -> None:
    with (faults / "results" / "faults.csv").open(newline="") as file:
        lines = list(csv.reader(file))
    assert {len(line) for line in lines} == {len(lines[0])}


def test_a_run_with_a_failed_row_ends_with_exit_code_1(faults: Path) -> None:
    ended = kept(faults)
    assert ended.code == 1 and "Traceback" not in ended.text


def test_the_summary_counts_the_failed_rows_and_names_each_provider_with_its_reason(faults: Path) -> None:
    out = kept(faults).out
    counts = Counter(row["status"] for row in providers_of(faults / "results" / "faults.csv"))
    assert all(f"{count} {status}" in out for status, count in counts.items())
    for provider, status in STATUSES.items():
        if status != "ok":
            assert re.search(rf"^ *{provider}: {status}\b", out, re.M), provider


def test_a_faulty_provider_is_never_the_winner(faults: Path) -> None:
    shown: Ended = run_kbench("show", faults / "results" / "faults.csv", folder=faults)
    timed = {provider for provider, status in STATUSES.items() if status == "ok"}
    [header] = [line for line in shown.out.splitlines() if re.match(r" *N ", line)]
    assert shown.code == 0 and set(header.split()) == {"N"} | timed

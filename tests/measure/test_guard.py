"""The guard around a provider's steps: what is honest is not named, and what was changed is as before for the next provider."""

from __future__ import annotations

import collections
import inspect
import logging
import os
import sys
import threading
import time
import traceback
from pathlib import Path

import pytest
import torch
from in_process import checked_edges, matrices, measured, said

from kbench.contract.operator import Operator
from kbench.measure.tampering.guard import Guard, ProviderChanges

POOL = Path(torch.__file__).parent / "_inductor" / "compile_worker" / "subproc_pool.py"
"""A thread of torch's compiler works in it after the first compilation, with more than one core."""


def operator(name: str) -> Operator:
    return matrices(name, lambda x: x * 2)


def test_looks_at_frames_that_libraries_take_are_no_fault() -> None:
    twice = operator("guard-frames")

    @twice.provider("logs")
    def logs(x: torch.Tensor) -> torch.Tensor:
        logging.getLogger("provider").warning("a call")  # finds its caller
        collections.namedtuple("Sizes", "m n")
        try:
            raise LookupError
        except LookupError:
            traceback.format_exc()
        return x * 2

    @twice.provider("inspects")
    def inspects(x: torch.Tensor) -> torch.Tensor:
        inspect.stack()
        return x * 2

    rows = measured(twice, M=4, N=8)
    assert said(rows["logs"]) == "ok"
    assert said(rows["inspects"]).startswith("tampered inspected its callers with sys._getframe at test_guard.py:")


def test_random_numbers_and_threads_at_rest_are_no_fault() -> None:
    twice = operator("guard-honest")
    rest = threading.Event()
    threading.Thread(target=rest.wait, daemon=True).start()
    assert POOL.exists()
    compiler = compile("while not rest.is_set(): sleep(1e-3)", POOL, "exec")

    @twice.provider("draws")
    def draws(x: torch.Tensor) -> torch.Tensor:
        torch.rand(3)
        torch.manual_seed(5)
        return x * 2

    @twice.provider("torch-compiles", factory=True)
    def build(case: object) -> object:
        started: list[threading.Thread] = []

        def call(x: torch.Tensor) -> torch.Tensor:
            if not started:
                names = {"rest": rest, "sleep": time.sleep}
                started.append(threading.Thread(target=exec, args=(compiler, names), daemon=True))
                started[0].start()
            return x * 2

        return call

    checked = checked_edges(twice, "torch-compiles", M=4, N=8)
    assert set(checked.values()) == {"checked"}
    rows = measured(twice, M=4, N=8)
    rest.set()
    assert {name: said(row) for name, row in rows.items()} == dict.fromkeys(twice.providers, "ok")


def test_streams_that_were_closed_or_redirected_are_open_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    output = os.fdopen(os.dup(1), "w")
    monkeypatch.setattr(sys, "stdout", output)
    guard, changes = Guard(), ProviderChanges()
    guard.begin(changes, "while timing")
    output.close()
    os.close(1)
    opened = {os.dup(0), os.open(tmp_path / "opened.txt", os.O_WRONLY | os.O_CREAT)}
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    guard.end()
    assert 1 in opened and not sys.stdout.closed
    os.write(1, b"written to 1\n")
    os.write(2, b"written to 2\n")
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("written to 1\n", "written to 2\n") and changes.tampering == []
    assert [change.split(",")[0] for change in changes.altered] == [
        "file descriptor 1 (stdout)",
        "file descriptor 2 (stderr)",
        "sys.stdout",
    ]

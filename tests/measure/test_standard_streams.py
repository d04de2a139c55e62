"""A provider that closes or redirects the streams of its worker does not harm the providers after it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pandas as pd
import pytest
from common import Kbench

from kbench.measure.tampering.guard import Guard, ProviderChanges
from kbench.measure.tampering.streams import high_copy

PROVIDERS = """
import os
import sys
from contextlib import suppress

import torch

import kbench

softmax = kbench.operator("softmax")


@softmax.provider("closes")
def closes(x):
    for number in (1, 2):
        with suppress(OSError):  # closed by an earlier call of this step
            os.close(number)
    return torch.softmax(x, -1)


@softmax.provider("redirects", factory=True)
def redirects(case):
    file = os.open("redirected.txt", os.O_WRONLY | os.O_CREAT)
    for number in (1, 2):
        os.dup2(file, number)
    return lambda x: torch.softmax(x, -1)


@softmax.provider("closes-object")
def closes_object(x):
    sys.stderr.close()
    return torch.softmax(x, -1)


@softmax.provider("closes-all")
def closes_all(x):
    os.closerange(0, 1 << 16)
    return torch.softmax(x, -1)


@softmax.provider("prints", factory=True)
def prints(case):
    file = open("opened.txt", "w")  # with the number of a stream, if one is closed
    print("kbench: printed", flush=True)
    os.write(1, b"kbench: written to 1\\n")
    return lambda x: (torch.softmax(x, -1), file)[0]
"""

CONFIG = """
operator: softmax
plugins: [streams.py]
sweep: {M: 8, N: 64, dtype: float32}
providers: [torch-native, closes, redirects, closes-object, prints, closes-all]
measure: {rounds: 1, rep_ms: 1, warmup_ms: 1}
"""


@pytest.mark.slow
def test_the_next_provider_finds_the_streams_open(kbench: Kbench, write_config, tmp_path: Path) -> None:
    (tmp_path / "streams.py").write_text(PROVIDERS)
    done = kbench("run", write_config(CONFIG), "--no-plot")
    found = pd.read_csv(tmp_path / "results" / "sweep.csv", dtype=str, keep_default_na=False).set_index("provider")
    reasons = {
        "closes": "changed file descriptor 1 (stdout) from open to closed, file descriptor 2 (stderr) from open to closed",
        "redirects": "changed file descriptor 1 (stdout) from open to redirected, file descriptor 2 (stderr) from open",
        "closes-object": "changed sys.stdout from open to closed, sys.stderr from open to closed",
    }
    for provider, reason in reasons.items():
        row = found.loc[provider]
        assert row.status == "ok" and reason in row.reason and "altered-state" in row["flags"], row
    assert found.loc["prints"].status == found.loc["torch-native"].status == "ok"
    assert "altered-state" not in found.loc["prints"]["flags"]
    assert found.loc["closes-all"].status == "crashed"  # it closed the pipe to the parent, too
    assert "\nprinted\n" in done.stderr and "\nwritten to 1\n" in done.stderr
    assert (tmp_path / "opened.txt").read_text() == ""
    assert (tmp_path / "redirected.txt").read_text() == ""


def test_streams_that_a_thread_closes_between_two_steps_are_nobodys_fault(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    guard, changes = Guard(), ProviderChanges()
    os.close(1)
    kept = os.dup(0), os.open(tmp_path / "opened.txt", os.O_WRONLY | os.O_CREAT)
    assert 1 in kept
    guard.begin(changes, "while timing")
    os.write(1, b"again\n")
    guard.end()
    said = capfd.readouterr()
    assert changes == ProviderChanges() and said.out == "again\n"
    assert "something closed or redirected file descriptor 1 (stdout) between the calls of providers" in said.err
    for number in {*kept} - {1}:
        os.close(number)


def test_a_stream_that_is_redirected_for_a_call_only_is_no_fault(capfd: pytest.CaptureFixture[str]) -> None:
    guard, changes = Guard(), ProviderChanges()
    guard.begin(changes, "while timing")
    kept, nothing = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.write(1, b"silent\n")
    os.dup2(kept, 1)
    guard.end()
    os.close(kept)
    os.close(nothing)
    assert changes == ProviderChanges() and capfd.readouterr().out == ""


@pytest.mark.skipif(sys.platform == "win32", reason="no limits there")
def test_a_low_limit_of_open_files_leaves_room_for_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    monkeypatch.setattr(resource, "getrlimit", lambda which: (1 << 40, 1 << 40))
    made = [high_copy(1)]
    monkeypatch.setattr(resource, "getrlimit", lambda which: (8, 8))
    made.append(high_copy(1))
    for copy in made:
        assert os.path.samestat(os.fstat(copy), os.fstat(1)) and not os.get_inheritable(copy)
        os.close(copy)

"""What tools/kernels_update.py takes from results of a machine, and which sentences it prints."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from common import ROOT

COMMITTED = ROOT / "results/h200"


@pytest.fixture
def update(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An update of rmsnorm whose results go into another folder."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    import kernels_results

    monkeypatch.setattr(kernels_results, "RESULTS", tmp_path / "h200")
    monkeypatch.setattr(kernels_results, "tracked", lambda path: [path])
    monkeypatch.setattr(kernels_results, "described_here", lambda update, environment, name: environment)
    return kernels_results.Update(COMMITTED, ["rmsnorm"])


def test_committed_results_are_taken_unchanged(update: Any, tmp_path: Path) -> None:
    import kernels_results

    kernels_results.take(update, "rmsnorm")
    for path in (tmp_path / "h200").iterdir():
        assert path.read_bytes() == (COMMITTED / path.name).read_bytes(), path.name
    assert [look for look in update.looks if "is not in this repository" not in look] == [], "a clone may be shallow"


def test_folders_and_uuids_of_a_machine_are_left_out(update: Any, tmp_path: Path) -> None:
    import kernels_results

    update.folder = folder = tmp_path / "new"
    folder.mkdir()
    rows = list(csv.DictReader((COMMITTED / "rmsnorm.csv").open(newline="")))
    for row in rows:
        row["device_uuid"] = "GPU-1234"
    rows[0] |= {"status": "error", "reason": "ImportError: x (/opt/lib/python3/quack/reduce.py:3)", "ms": ""}
    rows[1] |= {"reason": "see /somewhere/else.log"}
    with (folder / "rmsnorm.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    environment = json.loads((COMMITTED / "rmsnorm.env.json").read_text())
    (folder / "rmsnorm.env.json").write_text(json.dumps(environment | {"interrupted": True}))
    kernels_results.take(update, "rmsnorm")
    taken = (tmp_path / "h200/rmsnorm.csv").read_text()
    assert "GPU-1234" not in taken and "/opt/lib" not in taken and "x (quack/reduce.py:3)" in taken
    for odd in ("contains the path /somewhere/else.log", "ImportError: x (quack/reduce.py:3)", "did not finish"):
        assert any(odd in look for look in update.looks), odd


def test_sentences_have_the_line_where_they_begin(update: Any) -> None:
    from kernels_sentences import sentences

    lines = ["# Head", "", "One is 3 %", "ahead. Two", "is behind.", "", "| 1 |", "```", "code 1.", "```", "Last"]
    assert list(sentences(lines, 1, len(lines))) == [(3, "One is 3 % ahead."), (4, "Two is behind."), (11, "Last")]


def test_commands_name_the_folder_of_the_results(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also those that resumed an interrupted run."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    import kernels_results

    first = {"command": ["/usr/bin/kbench", "run", "gelu", "--out", "/tmp/new"]}
    again = {"command": ["kbench", "run", "gelu", "--out=/tmp/new", "--resume"]}
    update = kernels_results.Update(tmp_path, ["gelu"])
    found = kernels_results.described_here(update, {**first, "continued": [again]}, "gelu")
    assert found["command"] == ["kbench", "run", "gelu", "--out", "results/h200"]
    assert found["continued"][0]["command"] == ["kbench", "run", "gelu", "--out=results/h200", "--resume"]

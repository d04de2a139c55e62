"""The environment file beside a CSV: read as it was written, and left out with a note if it is damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from common import ROOT

from kbench.results.environment import Environment, read_environment

GOOD = {
    "env_id": "4a064d602fd4",
    "device": "NVIDIA H200",
    "cache_bytes": 62914560,
    "limits": {"power_limit_w": 700.0, "bus_bits": None},
    "hip": None,
    "packages": {"torch": "2.11.0"},
    "command": ["kbench", "run", "s.yaml"],
    "git": {"commit": "2f689fe", "dirty": True},
    "config": {"path": "s.yaml", "sha": "97a9", "text": "operator: softmax\n"},
    "measure": {"sessions": 1, "rep_ms": 15.0},
    "environments": {"ab": {"device": "NVIDIA H100", "packages": {"torch": "2"}}},
}


def read(folder: Path, content: bytes) -> tuple[Environment, str]:
    (folder / "s.env.json").write_bytes(content)
    return read_environment(folder / "s.csv")


def test_it_comes_back_as_it_was_without_entries_of_others(tmp_path: Path) -> None:
    environment, note = read(tmp_path, json.dumps(GOOD | {"future": 3}).encode())
    assert (environment.entries(), note) == (GOOD, "") and environment.known


def test_committed_ones_come_back_without_a_note() -> None:
    files = sorted((ROOT / "results").rglob("*.csv"))
    assert files and {note for _, note in map(read_environment, files)} == {""}


def test_a_missing_one_is_empty_with_a_note(tmp_path: Path) -> None:
    environment, note = read_environment(tmp_path / "s.csv")
    assert not environment.known and note.startswith(f"{tmp_path}/s.env.json: no such file; ")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "Invalid JSON"),
        (json.dumps(GOOD).encode()[:200], "Invalid JSON"),
        (json.dumps(GOOD | {"cache_bytes": "many"}).encode(), "(cache_bytes"),
        (json.dumps(GOOD | {"packages": {"torch": []}}).encode(), "(packages.torch: "),
    ],
)
def test_a_damaged_one_is_empty_with_a_note(tmp_path: Path, content: bytes, what: str) -> None:
    environment, note = read(tmp_path, content)
    assert (
        not environment.known and note.startswith(f"{tmp_path}/s.env.json: not an environment file (") and what in note
    )

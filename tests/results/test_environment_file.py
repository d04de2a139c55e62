"""Whatever lies beside a CSV, it is read or left out with a note: in bounded time and memory, never a traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from common import NO_FILES, make_no_file

from kbench.results import environment_file

GOOD: dict[str, Any] = {
    "env_id": "4a064d602fd4",
    "device": "NVIDIA H200",
    "cache_bytes": 62914560,
    "driver": "580.1",
    "limits": {"power_limit_w": 700.0, "bus_bits": None},
    "peak_gbps": 4814.304,
    "hip": None,
    "triton_interpreter": False,
    "packages": {"torch": "2.11.0"},
    "variables": {"OMP_NUM_THREADS": "1"},
    "total_memory": 150109880320,
    "command": ["kbench", "run", "s.yaml"],
    "git": {"commit": "2f689fe", "dirty": True},
    "config": {"path": "s.yaml", "sha": "97a9", "text": "operator: softmax\nsweep: {N: [1, 2]}\n"},
    "measure": {"sessions": 1, "rep_ms": 15.0},
    "continued": [{"date": "x", "command": ["kbench"], "git": None, "env_id": "4a"}],
    "environments": {"ab": {"device": "NVIDIA H100", "packages": {"torch": "2"}}},
}


def read(folder: Path, content: str | bytes) -> environment_file.Sidecar:
    path = folder / "s.env.json"
    path.write_bytes(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)
    found = environment_file.read_environment(folder / "s.csv")
    assert found.there and found.note.isprintable() and len(found.note) < 2100
    return found


def changed(folder: Path, **entries: object) -> environment_file.Sidecar:
    return read(folder, json.dumps(GOOD | entries))


def test_a_good_one_comes_back_as_it_was(tmp_path: Path) -> None:
    assert read(tmp_path, json.dumps(GOOD)) == (GOOD, "", True)


def test_committed_ones_come_back_without_a_note() -> None:
    files = sorted((Path(__file__).parents[2] / "results").rglob("*.csv"))
    assert files and [found.note for found in map(environment_file.read_environment, files) if found.note] == []


def test_a_missing_one(tmp_path: Path) -> None:
    found = environment_file.read_environment(tmp_path / "s.csv")
    assert found.environment == {} and not found.there and "no such file" in found.note


WRONG = {
    "cache_bytes": [10**400, -1, 1e300, "many", True, [], {}],
    "peak_gbps": [float("inf"), float("nan"), -1, 1e9, 10**400],
    "total_memory": [10**400, "all"],
    "packages": [[], "torch", 3, True],
    "measure": ["fast", [1]],
    "scope": [["device"], 3],
    "continued": [3, "yes", {}],
    "config": [3, "text", []],
    "device": [3, [], {"name": "x"}],
    "command": ["kbench run", 3],
    "interrupted": ["no", 1],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_what_cannot_be_is_left_out_and_named(tmp_path: Path, name: str, value: object) -> None:
    found = changed(tmp_path, **{name: value})
    assert name not in found.environment and found.note.endswith(f"kbench ignores these invalid entries: {name}")
    assert {key: found.environment.get(key) for key in GOOD if key != name} == {
        k: v for k, v in GOOD.items() if k != name
    }


def test_entries_of_entries(tmp_path: Path) -> None:
    found = changed(tmp_path, packages={"torch": 2, "triton": "3"}, git={"commit": [], "dirty": "yes"})
    assert found.environment["packages"] == {"triton": "3"} and found.environment["git"] == {}
    assert "packages.torch, git.commit, git.dirty" in found.note
    found = changed(tmp_path, environments={"ab": 3}, continued=["x"], limits={"mhz": float("nan")})
    assert "limits.mhz, continued.0, environments.ab" in found.note


UGLY = "\x1b]0;owned\x07\x1b[2J\u202e\ud800\r\n"


def printable(data: Any) -> bool:
    if isinstance(data, dict):
        return all(printable(part) for pair in data.items() for part in pair)
    if isinstance(data, list):
        return all(map(printable, data))
    return not isinstance(data, str) or data.replace("\n", "").isprintable()


def test_text_is_printable_and_short(tmp_path: Path) -> None:
    found = changed(tmp_path, device=UGLY, driver="5" * 5_000_000, packages={UGLY: UGLY}, config={"text": UGLY})
    assert printable(found.environment) and found.environment["driver"].startswith("555")
    assert len(found.environment["driver"]) < 300
    assert found.environment["config"]["text"].startswith("\\x1b]0;owned")
    [(name, version)] = found.environment["packages"].items()
    assert name == version == "\\x1b]0;owned\\x07\\x1b[2J\\u202e\\ud800"


FILES: dict[str, bytes] = {
    "nothing": b"",
    "a list": b"[]",
    "brackets": 200_000 * b"[",
    "objects": 200_000 * b'{"a":',
    "a number of 5,000 digits": b'{"cache_bytes": ' + 5000 * b"9" + b"}",
    "bytes": bytes(range(256)),
    "half a file": json.dumps(GOOD).encode()[:200],
    "many values": b"[" + 100_000 * b"1," + b"1]",
    "many entries": json.dumps({str(n): n for n in range(100_000)}).encode(),
    "many packages": json.dumps({"packages": {str(n): "1" for n in range(100_000)}}).encode(),
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_no_environment(tmp_path: Path, name: str) -> None:
    found = read(tmp_path, FILES[name])
    assert found.environment == {} and str(tmp_path / "s.env.json") in found.note


@pytest.mark.parametrize("kind", NO_FILES)
def test_what_is_no_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "s.env.json"
    make_no_file(path, kind)
    found = environment_file.read_environment(tmp_path / "s.csv")
    assert found.environment == {} and found.there and "cannot be read (" in found.note

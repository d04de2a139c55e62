"""Results files with content that no run wrote: `--resume` continues them, or refuses them in one printable line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from common import NO_FILES, make_no_file
from fake_executor import machine_info
from test_continue import CATALOG, MACHINE, plan_in, write_finished

from kbench.errors import ResultsError
from kbench.execute import existing_results
from kbench.execute.environment_record import EnvironmentRecord, continue_run, describe_run
from kbench.execute.plan import Plan

UGLY = "\x1b]0;owned\x07\x1b[2J\ud800\r\n"

MACHINE_NOW = machine_info("Another host")


def outcome(path: Path, layout: Plan) -> str:
    """The error, which is one line; "" when the file and its environment file can be continued."""
    try:
        past = existing_results.read_existing(path, layout, MACHINE, "resume")
    except ResultsError as error:
        line = str(error)
        assert line.isprintable() and len(line) < 2100 and line.startswith(str(path.parent))
        return line
    assert past.environment is not None and all(note.isprintable() for note in past.notes)
    written: list[Any] = []
    entries = continue_run(past.environment, describe_run(layout, CATALOG, "device"), 2)
    name = EnvironmentRecord(entries, written.append).add_machine(MACHINE_NOW)
    assert written[0]["environments"][name]["device"] == "Another host"
    json.dumps(written, allow_nan=False).encode()
    return ""


MISSING = object()

NONSENSE = [
    ("env_id", MISSING), ("env_id", 3), ("env_id", None), ("env_id", []),
    ("measure", {"sessions": 10**9}), ("measure", {"sessions": -1}), ("measure", {"sessions": True}), ("measure", []),
    ("measure", {"sessions": 1.5}), ("measure", {"sessions": 10**400}), ("measure", MISSING), ("measure", None),
    ("packages", []), ("packages", "torch"), ("packages", {"torch": []}), ("packages", {UGLY: UGLY}),
    ("scope", ["device"]), ("scope", UGLY), ("scope", {}), ("scope", 10**400),
    ("continued", 3), ("continued", "yes"), ("continued", [3]), ("continued", {}),
    ("environments", 3), ("environments", []), ("environments", {"ab": 3}),
    ("config", MISSING), ("config", None), ("config", []), ("config", {"sha": 3}), ("config", {}),
    ("device", UGLY), ("device", 1_000_000 * "x"), ("device", []), ("driver", 10**400),
    ("baseline", []), ("baseline", UGLY), ("cuda", float("nan")), ("triton_interpreter", "no"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), NONSENSE)
def test_nonsense_in_the_sidecar(tmp_path: Path, name: str, value: object) -> None:
    layout = plan_in(tmp_path)
    path, _ = write_finished(layout, tmp_path)
    beside = path.with_suffix(".env.json")
    data = json.loads(beside.read_text())
    data.pop(name, None)
    beside.write_text(json.dumps(data if value is MISSING else {**data, name: value}))
    line = outcome(path, layout)
    if name in ("env_id", "measure", "scope", "device", "baseline", "config") and value is not None:
        assert "continue" in line or "does not say how" in line or "may be at most" in line


def test_sound_ones_are_continued(tmp_path: Path) -> None:
    layout = plan_in(tmp_path)
    path, _ = write_finished(layout, tmp_path)
    assert outcome(path, layout) == ""


@pytest.mark.parametrize("which", ["csv", "env.json"])
@pytest.mark.parametrize("kind", NO_FILES)
def test_what_is_no_file(tmp_path: Path, which: str, kind: str) -> None:
    layout = plan_in(tmp_path)
    path, _ = write_finished(layout, tmp_path)
    file = path if which == "csv" else path.with_suffix(".env.json")
    file.unlink()
    make_no_file(file, kind)
    assert str(file) in outcome(path, layout)


def test_names_with_escapes(tmp_path: Path) -> None:
    layout = plan_in(tmp_path)
    path, _ = write_finished(layout, tmp_path)
    text = path.read_text()
    path.write_text(text.replace("torch-eager", "\x1b]0;owned", 1))
    assert "\\x1b]0;owned, expected torch-eager" in outcome(path, layout)

"""What is said about machines and settings that are not the same on both sides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from making import Write, row

from kbench.comparison.compare import compare_results
from kbench.comparison.model import CompareOptions

MACHINE = {
    "driver": "570.86",
    "packages": {"torch": "2.11.0", "triton": "3.6.0"},
    "limits": {"power_limit_w": 700.0},
    "measure": {"rounds": 5, "sessions": 1, "timer": "do_bench"},
    "command": ["kbench", "run", "a.yaml"],
    "started_at": "2026-11-20T10:00:00+00:00",
    "git": {"commit": "aaaa", "dirty": False},
}


def beside(path: Path, **changes: object) -> Path:
    path.with_suffix(".env.json").write_text(json.dumps({**MACHINE, **changes}))
    return path


def differences_between(old: Path, new: Path, **options: object) -> list[tuple[str, str, str, str]]:
    differences = compare_results(old, new, options=CompareOptions(**options)).differences  # type: ignore[arg-type]
    return [(d.name, d.old, d.new, d.severity.value) for d in differences]


@pytest.fixture
def old(write: Write) -> Path:
    return beside(write("old", [row()]))


@pytest.fixture
def new(write: Write) -> Path:
    return beside(write("new", [row()]))


def test_a_difference_that_is_the_point(old: Path, new: Path) -> None:
    beside(new, driver="575.51", packages={"torch": "2.12.0", "triton": "3.6.0"})
    assert differences_between(old, new, vary=["torch"]) == [
        ("driver", "570.86", "575.51", "warn"),
        ("packages.torch", "2.11.0", "2.12.0", "varied"),
    ]


def test_settings_limits_and_uncommitted_changes(old: Path, new: Path) -> None:
    beside(
        new,
        limits={"power_limit_w": 500.0},
        measure={"rounds": 3, "sessions": 9, "timer": "do_bench"},
        git={"commit": "aaaa", "dirty": True},
    )
    names = [name for name, *_ in differences_between(old, new)]
    assert names == ["limits.power_limit_w", "measure.rounds", "uncommitted changes"]


def test_clocks_throttling_and_sessions_are_read_from_the_rows(write: Write) -> None:
    old = beside(write("old", [row(n, sm_mhz=1980.0) for n in (1, 2)]))
    new = beside(write("new", [row(1, sm_mhz=1700.0, throttle="power cap", session=s) for s in (0, 1)]))
    assert differences_between(old, new) == [
        ("sessions", "1", "2", "warn"),
        ("SM clock (median)", "1980 MHz", "1700 MHz", "warn"),
        ("throttled by", "nothing", "power cap", "warn"),
    ]
    near = beside(write("near", [row(n, sm_mhz=1965.0) for n in (1, 2)]))
    assert differences_between(old, near) == []

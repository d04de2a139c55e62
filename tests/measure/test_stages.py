"""The stages of a case are measured once: they are the same for all its providers."""

from __future__ import annotations

from typing import Any

import pytest
from in_process import case_run

import kbench
from kbench.measure import case


def test_stages_are_measured_once_for_all_providers_of_a_case(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[int] = []

    def measure_stages(*arguments: Any) -> dict[str, float]:
        measured.append(1)
        return {"alloc_ms": 1.0, "h2d_ms": 2.0, "d2h_ms": 3.0}

    monkeypatch.setattr(case, "measure_stages", measure_stages)
    run = case_run(kbench.operator("softmax"), ["torch-native", "torch-eager"], dtype="float32", M=8, N=64)
    run.settings = run.settings.model_copy(update={"stages": True})
    rows = [row for row in run.run() if row.role == "provider"]
    assert len(measured) == 1 and [row.h2d_ms for row in rows] == [2.0, 2.0]

"""What a run records about its machine and its user."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from test_continue import CATALOG, plan_in

from kbench.execute.environment_record import describe_run
from kbench.measure import catalog
from kbench.measure.machine.device import Device
from kbench.measure.machine.telemetry import Nothing
from kbench.protocol import PluginError


@pytest.mark.parametrize(
    "name", ["TORCH_CUDA_TOKEN", "TRITON_OVERRIDE_PASSWORD", "TORCH_COMPILE_SECRET", "TORCH_NCCL_KEY"]
)
def test_the_value_of_a_variable_that_may_hold_a_secret_is_hidden(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "s3cret")
    monkeypatch.setenv("TRITON_PTXAS_PATH", "/home/mallory/ptxas")
    variables = catalog.describe_machine(Device(), Nothing()).variables
    assert variables[name] == "(hidden)" and variables["TRITON_PTXAS_PATH"] == "/home/mallory/ptxas"


def test_paths_and_the_command_line_are_as_they_were_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "mallory"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("LOGNAME", "mallory")
    words = ["kbench", "run", str(home / "s.yaml"), "--set", "tokens=4096", "--scheduler", "tls://mallory:pw@host:8786"]
    monkeypatch.setattr("sys.argv", words)
    failure = PluginError(f"{home}/p.py", f"{home}/p.py:3", f"no {home}/x")
    recorded = describe_run(plan_in(home), replace(CATALOG, plugin_errors=(failure,)), "device")
    assert recorded["command"] == words
    assert recorded["config"]["path"] == str(home / "sweep.yaml")
    assert recorded["plugin_errors"] == [vars(failure)]

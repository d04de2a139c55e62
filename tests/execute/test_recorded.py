"""What a run records about its machine and its user."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from test_continue import CATALOG, plan_in

from kbench.execute.environment_record import describe_run, find_revision
from kbench.measure import catalog
from kbench.measure.machine.device import Device
from kbench.measure.machine.telemetry import Telemetry
from kbench.protocol import PluginError
from kbench.results.environment import Git


@pytest.mark.parametrize(
    "name", ["TORCH_CUDA_TOKEN", "TRITON_OVERRIDE_PASSWORD", "TORCH_COMPILE_SECRET", "TORCH_NCCL_KEY"]
)
def test_the_value_of_a_variable_that_may_hold_a_secret_is_hidden(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "s3cret")
    monkeypatch.setenv("TRITON_PTXAS_PATH", "/home/mallory/ptxas")
    variables = catalog.describe_machine(Device(), Telemetry()).variables
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
    assert recorded.command == words
    assert recorded.config and recorded.config.path == str(home / "sweep.yaml")
    assert recorded.plugin_errors == [vars(failure)]


def test_the_revision_is_that_of_the_folder_of_the_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(*words: str) -> str:
        identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        return subprocess.run(
            ["git", *identity, "-C", tmp_path, *words], check=True, capture_output=True, text=True
        ).stdout

    assert find_revision(tmp_path) is None
    ask("init", "-q")
    (tmp_path / "s.yaml").write_text("operator: softmax")
    ask("add", ".")
    ask("commit", "-q", "-m", "one")
    commit = ask("rev-parse", "HEAD").strip()
    assert find_revision(tmp_path) == Git(commit=commit, dirty=False)
    (tmp_path / "s.yaml").write_text("operator: gelu")
    assert find_revision(tmp_path) == Git(commit=commit, dirty=True)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_revision(tmp_path) is None

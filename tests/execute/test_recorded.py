"""What a run records about its machine and its user."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from test_continue import CATALOG, plan_in

from kbench.execute.environment_record import describe_run
from kbench.measure import catalog
from kbench.measure.machine.device import Device
from kbench.measure.machine.telemetry import Nothing
from kbench.protocol import PluginError
from kbench.text import redact


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "home" / "mallory"
    folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("LOGNAME", "mallory")
    redact._places.cache_clear()
    yield folder
    redact._places.cache_clear()


SECRETS = ("TORCH_HUB_TOKEN", "TRITON_CACHE_REDIS_PASSWORD", "PYTORCH_CI_SECRET", "TORCHX_API_KEY", "TORCH_CUDA_KEY")


def test_secrets_and_names_do_not_reach_the_environment_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SECRETS:
        monkeypatch.setenv(name, "s3cret")
    monkeypatch.setenv("TRITON_PTXAS_PATH", str(home / "ptxas"))
    monkeypatch.setattr(
        "sys.argv", ["kbench", "run", str(home / "s.yaml"), "--scheduler", "tls://mallory:s3cret@host:8786"]
    )
    machine = catalog.describe_machine(Device(), Nothing())
    assert machine.variables["TRITON_PTXAS_PATH"] == "~/ptxas"
    failure = PluginError(f"{home}/p.py", f"{home}/p.py:3", f"no {home}/x")
    seen = replace(CATALOG, machine=machine, plugin_errors=(failure,))
    sidecar = describe_run(plan_in(home), seen, "device")
    written = json.dumps(sidecar)
    assert "s3cret" not in written and "mallory" not in written
    assert sidecar["config"]["path"] == "~/sweep.yaml" and sidecar["plugin_errors"][0]["where"] == "~/p.py:3"
    assert sidecar["command"] == ["kbench", "run", "~/s.yaml", "--scheduler", "tls://(hidden)@host:8786"]

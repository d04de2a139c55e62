"""What a run writes down about its machine and its user."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_continue import CATALOG, MACHINE, make_plan

from kbench.execute import environment
from kbench.measure import catalog
from kbench.measure.machine.device import Device
from kbench.measure.machine.telemetry import Nothing
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
    machine = catalog.environment(Device(), Nothing())
    assert machine["variables"]["TRITON_PTXAS_PATH"] == "~/ptxas"
    failure = {"plugin": f"{home}/p.py", "where": f"{home}/p.py:3", "message": f"no {home}/x"}
    seen = CATALOG | {"environment": MACHINE | machine, "plugin_errors": []}
    sidecar = environment.fresh(make_plan(home), seen | {"plugin_errors": [failure]}, "device")
    written = json.dumps(sidecar)
    assert "s3cret" not in written and "mallory" not in written
    assert sidecar["config"]["path"] == "~/sweep.yaml" and sidecar["plugin_errors"][0]["where"] == "~/p.py:3"
    assert sidecar["command"] == ["kbench", "run", "~/s.yaml", "--scheduler", "tls://(hidden)@host:8786"]

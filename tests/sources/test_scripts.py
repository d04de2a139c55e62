"""`kbench run script.py` on a device. tests/promises/test_scripts.py has what a host shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from common import Kbench
from promises.outside import providers_of

pytest.importorskip("triton")

SCRIPTS = Path(__file__).parent / "scripts"


@pytest.mark.gpu
def test_on_a_device_the_audit_names_a_slow_host_and_a_fallback(kbench: Kbench, tmp_path: Path) -> None:
    run = kbench("run", SCRIPTS / "on_a_device.py", "--set", "rounds=2", "--set", "rep_ms=20", "--no-plot")
    assert run.returncode == 0, run.stderr
    rows = {(row["provider"], row["N"]): row for row in providers_of(tmp_path / "results" / "rows.csv")}
    assert rows["triton", "1000"]["agreement"] == rows["triton", "4000"]["agreement"] == "agrees"
    assert rows["host", "1000"]["status"] == "unsupported" and "on the host" in rows["host", "1000"]["reason"]
    audit = run.stdout.partition("Before the numbers:\n")[2].partition("\n\n")[0]
    findings = [line.strip() for line in audit.splitlines()]
    # on a device that other tests share, the device can be slower than this host in one of the two cases
    assert "For slow-host, the script's timer times the host, not the device, in " in " ".join(findings)
    assert "fallback runs the same kernels as torch in 2 of 2 cases." in " ".join(findings)
    [nothing] = [line for line in findings if "runs nothing on the device" in line]
    assert nothing.startswith("last ") and not any("times the bytes" in line for line in findings), findings
    assert not any(line.startswith(("triton ", "torch ")) for line in findings), findings

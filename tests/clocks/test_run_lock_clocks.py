"""`kbench run --lock-clocks`: it locks each of its devices, records it, and unlocks at its end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from common import Kbench
from fake_executor import FakeMachine
from nvml_devices import Devices

TDP = 0xFFFFFF01

CONFIG = """
operator: softmax
sweep: {M: 16, N: [64, 100], dtype: float32}
providers: [torch-native]
"""


def run(kbench: Kbench, fake_machine: FakeMachine, *arguments: str) -> tuple[int, str]:
    """The exit code of `kbench run sweep.yaml` on two made-up cards, and its stderr."""
    fake_machine.cards = 2
    outcome = kbench("run", "sweep.yaml", "--devices", "all", "--no-plot", *arguments)
    return outcome.returncode, outcome.stderr


def environment(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / "results" / "sweep.env.json").read_text())
    return found


def test_a_run_locks_each_of_its_devices_and_records_it(
    kbench: Kbench, fake_machine: FakeMachine, write_config: Callable[[str], Path], devices: Devices, tmp_path: Path
) -> None:
    write_config(CONFIG)
    seen = []
    fake_machine.before = lambda task: seen.append((devices.locked("GPU-0"), devices.locked("GPU-1")))
    code, said = run(kbench, fake_machine, "--lock-clocks", "base")
    assert code == 0, said
    assert seen == [(TDP, TDP)] * 2
    assert devices.locked("GPU-0") is None and devices.locked("GPU-1") is None
    clocks = {"sm_mhz": 1500, "memory_mhz": 3201}
    assert environment(tmp_path)["locked_clocks"] == {"GPU-0": clocks, "GPU-1": clocks}
    again, said = run(kbench, fake_machine, "--append")
    assert again == 0, said
    assert "the clocks are not locked; for the earlier rows they were locked" in said
    assert environment(tmp_path)["continued"][0]["locked_clocks"] == {}  # type: ignore[index]


def test_a_run_that_is_interrupted_unlocks(
    kbench: Kbench, fake_machine: FakeMachine, write_config: Callable[[str], Path], devices: Devices
) -> None:
    write_config(CONFIG)

    def interrupt(task: object) -> None:
        assert devices.locked("GPU-0") == 1500
        raise KeyboardInterrupt

    fake_machine.before = interrupt
    code, said = run(kbench, fake_machine, "--lock-clocks", "1500")
    assert code == 130, said
    assert devices.locked("GPU-0") is None


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--lock-clocks", "base", "sweep.yaml", "--dry-run"], 0, ""),
        (["sweep.yaml", "--lock-clocks=fast"], 2, "--lock-clocks 'fast' is not a clock; write 1500 for 1500 MHz"),
        (["sweep.yaml", "--lock-clocks", "base"], 2, "error: --lock-clocks: there is no NVIDIA device here"),
        (["sweep.yaml", "--lock-clocks", "base", "--scheduler", "tcp://a:1"], 2, "cannot be combined with --scheduler"),
    ],
)
def test_the_clock_is_a_number_of_mhz_or_base(
    kbench: Kbench,
    fake_machine: FakeMachine,
    write_config: Callable[[str], Path],
    arguments: list[str],
    code: int,
    says: str,
) -> None:
    write_config(CONFIG)
    outcome = kbench("run", *arguments)
    assert outcome.returncode == code, outcome.stderr
    assert says in outcome.stderr

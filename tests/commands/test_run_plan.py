"""What `kbench run --dry-run` says about the plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from common import Kbench
from fake_executor import FakeMachine

CONFIG = """
operator: softmax
sweep: {M: 16, N: [64, 100], dtype: float32}
providers: [torch-native, triton: {num_warps: [4, 8]}]
profiles: {cpu: {sweep: {M: 8}}}
"""


def test_configurations_are_not_counted_as_providers(
    kbench: Kbench, fake_machine: FakeMachine, write_config: Callable[[str], Path]
) -> None:
    write_config(CONFIG)
    assert "2 cases x 3 configurations x " in kbench("run", "sweep.yaml", "--dry-run").stdout
    write_config(CONFIG.replace("[4, 8]", "4"))
    assert "2 cases x 2 providers x " in kbench("run", "sweep.yaml", "--dry-run").stdout


def test_the_machine_without_an_accelerator_is_named(
    kbench: Kbench, fake_machine: FakeMachine, write_config: Callable[[str], Path]
) -> None:
    write_config(CONFIG)
    here = kbench("run", "sweep.yaml", "--dry-run").stderr
    assert "no accelerator here: profile cpu of sweep.yaml applies" in here
    there = kbench("run", "sweep.yaml", "--dry-run", "--scheduler", "tcp://cluster:8786").stderr
    assert (
        "the first worker of the cluster has no accelerator: profile cpu of sweep.yaml applies; choose another" in there
    )

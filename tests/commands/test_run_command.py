"""What `kbench run --dry-run` says about the plan, and the exit code of a run that is continued."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from common import Kbench
from fake_executor import FakeMachine

CONFIG = """
operator: softmax
sweep: {M: 16, N: [64, 100], dtype: float32}
providers: [torch-native, triton: {num_warps: [4, 8]}]
profiles: {cpu: {sweep: {M: 8}}}
"""


def test_the_worker_of_a_cluster_without_an_accelerator_is_named(
    kbench: Kbench, fake_machine: FakeMachine, write_config: Callable[[str], Path]
) -> None:
    write_config(CONFIG)
    there = kbench("run", "sweep.yaml", "--dry-run", "--scheduler", "tcp://cluster:8786").stderr
    assert (
        "the first worker of the cluster has no accelerator: profile cpu of sweep.yaml applies; choose another" in there
    )


def test_cases_that_need_more_memory_than_the_device_has_are_named(
    kbench: Kbench, fake_machine: FakeMachine, write_config: Callable[[str], Path]
) -> None:
    write_config(CONFIG.replace("N: [64, 100]", "N: [64, 1000000, 2000000, 3000000, 4000000, 5000000]"))
    assert "more memory" not in kbench("run", "sweep.yaml", "--dry-run").stdout, "the memory is not known"
    fake_machine.memory_bytes = 10**8
    [line] = [line for line in kbench("run", "sweep.yaml", "--dry-run").stdout.splitlines() if "more memory" in line]
    assert line == (
        "5 of 6 cases need more memory than the device has (0.1 GB), and will probably be oom: softmax M=8 N=1000000 float32, "
        "softmax M=8 N=2000000 float32, softmax M=8 N=3000000 float32 and 2 more"
    )
    fake_machine.memory_bytes = 10**12
    assert "more memory" not in kbench("run", "sweep.yaml", "--dry-run").stdout


@pytest.mark.slow
def test_the_memory_of_this_machine_is_known(kbench: Kbench, write_config: Callable[[str], Path]) -> None:
    write_config("{operator: gelu, sweep: {M: 1000000, N: [4, 1000000000], dtype: float32}, providers: [torch-native]}")
    said = kbench("run", "sweep.yaml", "--dry-run").stdout
    assert "1 of 2 cases needs more memory than the device has" in said and "N=1000000000" in said


def test_the_exit_code_of_a_resumed_run_counts_what_was_there(
    kbench: Kbench, fake_machine: FakeMachine, write_config: Callable[[str], Path]
) -> None:
    write_config(CONFIG.replace("torch-native,", "torch-native, zeros,"))
    assert kbench("run", "sweep.yaml", "--no-plot").returncode == 1
    finished = fake_machine.finished
    done = kbench("run", "sweep.yaml", "--no-plot", "--resume")
    assert done.returncode == 1 and "zeros: wrong" in done.stdout and fake_machine.finished == finished

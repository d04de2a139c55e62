"""The trial launches of tools/rows_norms.py compile for the GPUs of TARGETS without spills.

This file is also a program, because Triton cannot compile in a process that interprets: run by itself it compiles them and
prints the bytes of registers in memory as JSON.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

import pytest
import torch
from ahead_of_time import compile_for, compiled_by, spilled_bytes
from common import ROOT

from kbench.kernels.norms import launch
from kbench.kernels.norms.dispatch.launches import Launches, Processors

sys.path.append(str(ROOT / "tools"))
import rows_norms  # a tool is not in a package

pytest.importorskip("triton")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # numpy, where a kernel works on the padding of a block
]

PROCESSORS = {
    "sm_90": Processors(132, 32, 227 * 1024, True),
    "sm_80": Processors(108, 32, 163 * 1024, False),
    "gfx942": Processors(304, 64, 0, False),
}

CASES = {
    "layernorm float32 5461 x 12288": ("layernorm", 5461, 12288, torch.float32, torch.float32),
    "layernorm float32 512 x 131072": ("layernorm", 512, 131072, torch.float32, torch.float32),
    "layernorm bfloat16 256 x 262144, weights float32": ("layernorm", 256, 262144, torch.bfloat16, torch.float32),
    "add_rmsnorm bfloat16 512 x 65536": ("add_rmsnorm", 512, 65536, torch.bfloat16, torch.bfloat16),
    "layernorm bfloat16 32768 x 2048, weights float32": ("layernorm", 32768, 2048, torch.bfloat16, torch.float32),
    "layernorm bfloat16 8192 x 8192, weights float32": ("layernorm", 8192, 8192, torch.bfloat16, torch.float32),
}
BUILDS = [(target, case) for target in PROCESSORS for case in CASES]
MATRICES = {"rmsnorm": (1, 1), "add_rmsnorm": (2, 1), "layernorm": (1, 2)}
"""Those that go in and out, and weights."""


@pytest.fixture(scope="module")
def spilled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, int]]:
    """Bytes of registers in memory, by target and case, and by the name of the launch."""
    found: dict[str, dict[str, int]] = compiled_by(__file__, tmp_path_factory)
    return found


@pytest.mark.parametrize("target, case", BUILDS)
def test_no_trial_spills(spilled: dict[str, dict[str, int]], target: str, case: str) -> None:
    trials = spilled[f"{target} {case}"]
    assert trials
    if target != "gfx942":  # there, no limit of registers holds
        assert {name: found for name, found in trials.items() if found} == {}


def compile_trial(target: str, case: str, plan: Launches) -> int:
    from triton.runtime.jit import JITFunction

    operator, _, N, dtype, weight_dtype = CASES[case]
    maths = getattr(importlib.import_module(f"kbench.operators.{operator}.triton_mathematics"), operator.upper())
    made: list[tuple[Any, dict[str, Any]]] = []

    def run(kernel: Any, *, grid: Any, warmup: bool, **arguments: Any) -> None:
        made.append((kernel, arguments))

    JITFunction.run = run
    matrices, vectors = MATRICES[operator]
    rows = [tuple(torch.empty(1, N, dtype=dtype) for _ in range(matrices)) for _ in range(2)]
    weights = tuple(torch.empty(N, dtype=weight_dtype) for _ in range(vectors))
    launch.normalise(maths, rows[0], weights, rows[1], (), 1e-6, plan)
    return sum(spilled_bytes(target, compile_for(target, kernel, (), given)) for kernel, given in made)


def compile_all() -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for target, case in BUILDS:
        operator, M, N, dtype, weight_dtype = CASES[case]
        wide = weight_dtype.itemsize > dtype.itemsize
        trials = rows_norms.trials(operator, M, N, dtype.itemsize, wide, PROCESSORS[target])
        found[f"{target} {case}"] = {name: compile_trial(target, case, plan) for name, plan in trials}
    return found


if __name__ == "__main__":
    print(json.dumps(compile_all()))

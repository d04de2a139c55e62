"""The trial launches of tools/rows_norms.py: their kernels are right, and compile for the GPUs of TARGETS without spills.

This file is also a program, because Triton cannot compile in a process that interprets: run by itself it compiles them and
prints the bytes of registers in memory as JSON.
"""

from __future__ import annotations

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

HOST = Processors(8, 32, 0, False, True, True)
PROCESSORS = {
    "sm_90": Processors(132, 32, 227 * 1024, True),
    "sm_80": Processors(108, 32, 163 * 1024, False),
    "gfx942": Processors(304, 64, 0, False),
}

FORMS = {
    "twice, unrolled": lambda M, N, size: rows_norms.twice_unrolled(M, N, size, 1, ("", "", ""), 0, HOST),
    "a row": lambda M, N, size: rows_norms.held(M, N, 1, 1, 1, 0, HOST),
    "two rows, two blocks, four neighbours": lambda M, N, size: rows_norms.held(M, N, 2, 2, 1, 0, HOST, 4),
    "four rows, past L1": lambda M, N, size: rows_norms.held(M, N, 4, 1, 1, 0, HOST, 4, True),
    "in turn": lambda M, N, size: rows_norms.in_turn(M, N, size, 1, 1, 1, 3, HOST),
    "tiles of two in turn": lambda M, N, size: rows_norms.in_turn(M, N, size, 2, 1, 1, 3, HOST),
    "slices": lambda M, N, size: rows_norms.shared(M, N, (32, 2, 1), 0, "", HOST),
    "teams in turn": lambda M, N, size: rows_norms.teams(M, N, size, 64, 1, 1, 3, HOST),
    "teams of all in turn": lambda M, N, size: rows_norms.teams(M, N, size, 32, 1, 1, 1, HOST),
}
"""For M rows of N elements of `size` bytes, on a host that has 8 multiprocessors: each team or program has several rows."""


@pytest.fixture
def takes(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have the norms take a plan that a function makes for M, N and the bytes of an element."""

    def replace(form: Any) -> None:
        monkeypatch.setattr(launch, "_kernel", rows_norms.kernel)
        monkeypatch.setattr(launch, "forward_plan", lambda M, N, size, *rest: form(M, N, size))

    return replace


@pytest.mark.parametrize("N", [200, 256])
@pytest.mark.parametrize("name, dtype, weights", [
    ("layernorm", "float32", "same"), ("layernorm", "bfloat16", "float32"), ("rmsnorm", "float32", "same"),
    ("add_rmsnorm", "bfloat16", "same"),
])  # fmt: skip
@pytest.mark.parametrize("form", FORMS)
def test_trial_kernels_are_right(form: str, name: str, dtype: str, weights: str, N: int, takes: Any) -> None:
    """Of rows that fill their blocks and of rows that do not; also the statistics that they save for the backward pass."""
    from test_triton_norms import judged

    takes(FORMS[form])
    assert judged(name, 11, N, "full", dtype, weights) is None


@pytest.mark.parametrize("form", FORMS)
def test_a_large_mean_costs_no_digits(form: str, takes: Any) -> None:
    from test_triton_norms import judged

    takes(FORMS[form])
    assert judged("layernorm", 5, 200, "forward", mean=5000.0) is None


CASES = {
    "layernorm float32 4096 x 16384": ("layernorm", 4096, 16384, torch.float32, torch.float32),
    "layernorm float32 256 x 262144": ("layernorm", 256, 262144, torch.float32, torch.float32),
    "rmsnorm bfloat16 512 x 262144": ("rmsnorm", 512, 262144, torch.bfloat16, torch.bfloat16),
    "layernorm bfloat16 4096 x 16384, weights float32": ("layernorm", 4096, 16384, torch.bfloat16, torch.float32),
    "layernorm bfloat16 65536 x 1024, weights float32": ("layernorm", 65536, 1024, torch.bfloat16, torch.float32),
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
    assert len(trials) == 6
    if target != "gfx942":  # there, no limit of registers holds
        assert {name: found for name, found in trials.items() if found} == {}


def compile_trial(target: str, case: str, plan: Launches) -> int:
    from triton.runtime.jit import JITFunction

    operator, _, N, dtype, weight_dtype = CASES[case]
    maths = getattr(
        rows_norms.importlib.import_module(f"kbench.operators.{operator}.triton_mathematics"), operator.upper()
    )
    made: list[tuple[Any, dict[str, Any]]] = []

    def run(kernel: Any, *, grid: Any, warmup: bool, **arguments: Any) -> None:
        made.append((kernel, arguments))

    JITFunction.run = run
    launch._kernel = rows_norms.kernel
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

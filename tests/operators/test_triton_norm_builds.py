"""The kernels of the norms, as the table launches them, compile for the GPUs of TARGETS, and none spills its registers.

This file is also a program, because Triton cannot compile in a process that interprets: run by itself it compiles everything
and prints what it found as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest
import torch
from ahead_of_time import compile_for, compiled_by, spilled_bytes

from kbench.kernels.norms import launch
from kbench.kernels.triton_launch import KeptLaunch, Launch, Launcher, Processors

pytestmark = pytest.mark.slow

pytest.importorskip("triton")

PROCESSORS = {
    "sm_90": Processors(),
    "sm_80": Processors(multiprocessors=108, waiting=108, caps=False, shared_bytes=163 * 1024, chains=False),
    "gfx942": Processors(64, 304, 304, packs=False, caps=False, shared_bytes=0, chains=False),
}
SHAPES = [
    (16384, 1), (65536, 64), (16384, 768), (65536, 1024), (16384, 2880), (16384, 4096), (16384, 4097), (16384, 5120),
    (8192, 3584), (8192, 7168), (8192, 8191), (8192, 8192), (16384, 11008), (4096, 16384), (64, 4096), (1, 16384),
    (1024, 65536),
]  # fmt: skip
ELSEWHERE = [(16384, 1024), (16384, 4097), (16384, 5120), (64, 4096), (16384, 16384), (1024, 65536)]
DTYPES = {"bfloat16": (torch.bfloat16, torch.bfloat16), "float32": (torch.float32, torch.float32)}
DTYPES["bfloat16 beside float32"] = (torch.bfloat16, torch.float32)
"""Of the matrices and of the weights."""


def builds() -> Iterator[tuple[str, str, int, int, str]]:
    for M, N in SHAPES:
        for name in ("rmsnorm", "add_rmsnorm", "layernorm"):
            # rmsnorm needs fewer registers than both others, in the same forms
            several = name == "layernorm" or (name == "add_rmsnorm" and N in (1024, 4096, 5120, 8191, 8192, 16384))
            dtypes = DTYPES if several else ("bfloat16",)
            yield from (("sm_90", name, M, N, dtype) for dtype in dtypes)
    for target in ("sm_80", "gfx942"):
        for M, N in ELSEWHERE:
            yield from ((target, "layernorm", M, N, dtype) for dtype in ("bfloat16", "float32"))


BUILDS = {f"{name} {M} x {N} {dtype} {target}": (target, name, M, N, dtype) for target, name, M, N, dtype in builds()}


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, int]]:
    """Bytes of registers in memory of every kernel of every build, by their names."""
    spilled: dict[str, dict[str, int]] = compiled_by(__file__, tmp_path_factory)
    return spilled


@pytest.mark.parametrize("name", BUILDS)
def test_no_kernel_spills(kernels: dict[str, dict[str, int]], name: str) -> None:
    assert len(kernels[name]) >= 2, "forward and backward"
    assert {kernel: spilled for kernel, spilled in kernels[name].items() if spilled} == {}


def compile_one(name: str) -> dict[str, int]:
    """Make the calls of a provider, and compile what they would launch. The rows of a matrix are one row in memory."""
    target, operator, M, N, dtype = BUILDS[name]
    made: list[tuple[Launch, tuple[Any, ...]]] = []
    rows, weights = DTYPES[dtype]
    x, weight = torch.empty(1, N, dtype=rows).expand(M, N), torch.empty(N, dtype=weights)
    statistics = torch.empty((2, M) if operator == "layernorm" else M)

    def record(self: KeptLaunch, *tensors: Any) -> None:
        made.append((self._launch, tensors))

    launch._forward = Launcher(launch.forward_launch)
    launch._backward.clear()
    KeptLaunch.__call__ = record  # type: ignore[method-assign]
    launch.processors_of = lambda device: PROCESSORS[target]  # type: ignore[assignment]
    further: dict[str, Any] = {"rmsnorm": {}, "add_rmsnorm": {"residual": x, "h": x}, "layernorm": {"bias": weight}}[
        operator
    ]
    launch.normalise(x, weight, 1e-6, statistics=statistics, **further)
    dh = x if operator == "add_rmsnorm" else None
    launch.gradients(x, x, statistics, weight, layernorm=operator == "layernorm", dh=dh)
    spilled = {}
    for one, tensors in made:
        words = () if one.words is None else (torch.empty(1, dtype=torch.int64),)
        waits = {"launch_cooperative_grid": True} if one.waits else {}
        compiled = compile_for(
            target, one.kernel, (*tensors, *words, *one.numbers), {**one.constants, **one.options, **waits}
        )
        spilled[one.kernel.fn.__name__] = spilled_bytes(target, compiled)
    return spilled


if __name__ == "__main__":
    import triton.compiler  # noqa: F401 once, not in every process

    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
        print(json.dumps(dict(zip(BUILDS, pool.map(compile_one, BUILDS, chunksize=1), strict=True))))

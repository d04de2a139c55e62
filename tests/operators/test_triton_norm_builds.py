"""The kernels of the norms, as the dispatch launches them, compile for the GPUs of TARGETS, and none spills its registers.

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
from kbench.kernels.norms.dispatch.backward import backward_plan
from kbench.kernels.norms.dispatch.forward import forward_plan
from kbench.kernels.norms.dispatch.launches import Processors

pytestmark = pytest.mark.slow

pytest.importorskip("triton")

PROCESSORS = {
    "sm_90": Processors(132, 32, 227 * 1024, True),
    "sm_80": Processors(108, 32, 163 * 1024, False),
    "gfx942": Processors(304, 64, 0, False),
}
SHAPES = {
    "sm_90": [
        *(
            (16384, N)
            for N in (
                1,
                64,
                128,
                768,
                781,
                1000,
                8191,
                1024,
                2880,
                4096,
                1501,
                2049,
                4097,
                6001,
                12001,
                50257,
                8190,
                20002,
                5120,
                7168,
                8192,
                11008,
                12288,
                16384,
                32768,
                262144,
            )
        ),
        *((64, N) for N in (1000, 4096, 16384, 131072)),
        (1024, 11008),
        (1024, 4096),
        (8, 131072),
        (16, 262144),
        (1, 16384),
        (1, 40000),
        (16384, 2048),
        (1, 262144),
        (65536, 1024),
        (131072, 776),
        (500, 151936),
        (32768, 2048),
        (43000, 1544),
        (1024, 65536),
        (512, 131072),
        (300, 200704),
        (256, 262144),
    ],
    "sm_80": [(16384, 1024), (16384, 4097), (16384, 5120), (64, 4096), (16384, 16384), (16384, 65536)],
    "gfx942": [(16384, 1024), (16384, 4097), (16384, 5120), (64, 4096), (16384, 16384), (16384, 65536)],
}
INPUTS = {"rmsnorm": (1, 1, 1, 2), "add_rmsnorm": (2, 2, 1, 3), "layernorm": (1, 1, 2, 2)}
"""Matrices that go in and out, weights, and matrices that go into the backward pass."""


def builds() -> Iterator[tuple[str, str, int, int, torch.dtype]]:
    for target, shapes in SHAPES.items():
        for M, N in shapes:
            for name in (
                INPUTS
                if target == "sm_90"
                and N in (1024, 1501, 2049, 4097, 8192, 11008, 16384, 32768, 65536, 131072, 200704, 262144)
                else ["layernorm"]
            ):
                for dtype in (
                    (torch.bfloat16, torch.float32)
                    if N
                    in (
                        1024,
                        4096,
                        131072,
                        4097,
                        5120,
                        11008,
                        12001,
                        20002,
                        16384,
                        50257,
                        65536,
                        151936,
                        200704,
                        262144,
                    )
                    else (torch.bfloat16,)
                ):
                    yield target, name, M, N, dtype


BUILDS = {f"{name} {M} x {N} {dtype} {target}": (target, name, M, N, dtype) for target, name, M, N, dtype in builds()}


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, int]]:
    """Bytes of registers in memory of every kernel of every build, by their names."""
    found: dict[str, dict[str, int]] = compiled_by(__file__, tmp_path_factory)
    return found


@pytest.mark.parametrize("name", BUILDS)
def test_no_kernel_spills(kernels: dict[str, dict[str, int]], name: str) -> None:
    assert {"forward", "backward"} <= {kernel.split()[0] for kernel in kernels[name]}
    assert {kernel: spilled for kernel, spilled in kernels[name].items() if spilled} == {}


def compile_one(name: str) -> dict[str, int]:
    from triton.runtime.jit import JITFunction

    target, operator, M, N, dtype = BUILDS[name]
    mathematics = __import__(f"kbench.operators.{operator}.triton_mathematics", fromlist=["_"])
    maths = getattr(mathematics, operator.upper())
    made: list[tuple[str, Any, dict[str, Any]]] = []
    inputs, outputs, weights, further = INPUTS[operator]
    itemsize, here = dtype.itemsize, PROCESSORS[target]

    def run(kernel: Any, *, grid: Any, warmup: bool, **arguments: Any) -> None:
        made.append((f"{direction} {kernel.fn.__name__}", kernel, arguments))

    def tensors(count: int, *shape: int) -> tuple[torch.Tensor, ...]:
        return tuple(torch.empty(*shape, dtype=dtype) for _ in range(count))

    JITFunction.run = run
    statistics = tuple(torch.empty(1) for _ in range(2 if maths.pivot else 1))
    direction = "forward"
    anywhere = N % 4 == 1 and N > 64
    plan = forward_plan(M, N, itemsize, maths.pivot, here, anywhere, inputs)
    launch.normalise(maths, tensors(inputs, 1, N), tensors(weights, N), tensors(outputs, 1, N), statistics, 1e-6, plan)
    if dtype.itemsize == 2 and target == "sm_90" and N in (776, 1024, 1544, 2048, 4096, 8192, 12288, 16384):
        direction = "wide"
        plan = forward_plan(M, N, itemsize, maths.pivot, here, anywhere, inputs, True)
        wide = tuple(torch.empty(N) for _ in range(weights))
        launch.normalise(maths, tensors(inputs, 1, N), wide, tensors(outputs, 1, N), statistics, 1e-6, plan)
    shape = (M, N, itemsize, min(16 // itemsize, N & -N), further, maths.column_sums, here, anywhere)
    if N == 32768:
        direction = "wide backward"
        launch.gradients(maths, tensors(further, 1, N), statistics, torch.empty(N), backward_plan(*shape, True))
    direction = "backward"
    plan = backward_plan(*shape)
    launch.gradients(maths, tensors(further, 1, N), statistics, tensors(1, N)[0], plan)
    return {
        made_name: spilled_bytes(target, compile_for(target, kernel, (), given)) for made_name, kernel, given in made
    }


if __name__ == "__main__":
    import triton.compiler  # noqa: F401 once, not in every process

    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
        print(json.dumps(dict(zip(BUILDS, pool.map(compile_one, BUILDS, chunksize=4), strict=True))))

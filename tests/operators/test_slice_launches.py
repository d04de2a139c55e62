"""The Triton kernels that cut rows into slices. The launches of cross-entropy and of softmax's backward pass hold the rows,
compile for the GPUs of TARGETS, and spill no registers.

Triton cannot compile in a process that interprets, so this file is also a program: run by itself it compiles everything and
prints what it found as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from multiprocessing import get_context
from typing import Any, NamedTuple

import pytest
from ahead_of_time import TARGETS, compiled_by, spilled_bytes

from kbench.contract.provider import Unsupported
from kbench.kernels.slice_launch import SHORTEST_ODD_ROW, Matrix, SliceLaunch
from kbench.kernels.triton_rows import power_of_two
from kbench.operators.cross_entropy.triton_dispatch import both_launch, gradients_launch, losses_launch
from kbench.operators.softmax.triton_backward_dispatch import backward_launch

pytest.importorskip("triton")

ITEMSIZE = {"fp32": 4, "bf16": 2}
LENGTHS = [1, 40, 500, 1000, 1024, 4096, 8192, 16384, 32000, 32768, 50257, 65536, 128256, 131072, 151936, 262144]
COMPILED = [1, 500, 1000, 4096, 8192, 32000, 50257, 128256, 262144]
ROWS = [1, 64, 1000, 2**17]

DISPATCHES: dict[str, Callable[[Matrix], SliceLaunch]] = {
    "losses": lambda x: losses_launch(x, False),
    "losses smoothed": lambda x: losses_launch(x, True),
    "gradients": lambda x: gradients_launch(x, False),
    "losses_and_gradients": lambda x: both_launch(x, False),
    "losses_and_gradients smoothed": lambda x: both_launch(x, True),
    "softmax": backward_launch,
}


def matrix(M: int, N: int, dtype: str, target: str, vector: int | None = None) -> Matrix:
    """What a launch knows of a matrix. `vector` is shorter for matrices whose rows begin at different distances from a multiple
    of 16 bytes."""
    itemsize, warp_size = ITEMSIZE[dtype], TARGETS[target][2]
    vector = vector or 16 // itemsize
    if N < SHORTEST_ODD_ROW:
        vector = next(v for v in (8, 4, 2, 1) if v <= vector and N % v == 0)
    nvidia = target.startswith("sm")
    processors = 132 if nvidia else 304
    return Matrix(
        M,
        N,
        itemsize,
        vector,
        N % vector != 0,
        warp_size,
        processors,
        processors,
        nvidia and itemsize == 2,
        target == "sm_90",
    )


class Build(NamedTuple):
    """One compilation: a kernel, what it is compiled for, and its launch."""

    kernel: str
    target: str
    dtype: str
    tickets: bool
    launch: SliceLaunch


def builds() -> dict[str, Build]:
    """Every launch that differs from others in more than the sizes of the matrix. One stands for all that differ only in the
    number of programs per row: one that takes tickets, if there is any, and of these the one with the most programs, which
    holds the most partial results."""
    found: dict[str, Build] = {}
    for target, dtype, name in product(TARGETS, ITEMSIZE, DISPATCHES):
        # for devices on which nothing was measured, every third length of COMPILED
        for M, N in product(ROWS, COMPILED[:: 1 if target == "sm_90" else 3]):
            launch = DISPATCHES[name](matrix(M, N, dtype, target))
            if name == "losses_and_gradients smoothed" and launch.parts > 1:
                continue  # the provider makes two launches of other kernels instead
            tickets = launch.parts > 1 and launch.programs(M) > 132 and name not in ("losses", "losses smoothed")
            width = launch.constants.get("WIDTH", 0)
            rest = {**launch.constants, **launch.options, "WIDTH": width > 1}
            same = repr((name, target, dtype, sorted(rest.items())))
            other = found.get(same)
            if other is None or (tickets, width) > (other.tickets, other.launch.constants.get("WIDTH", 0)):
                found[same] = Build(name, target, dtype, tickets, launch)
    return {f"{b.kernel} {b.dtype} {b.target} {i}": b for i, b in enumerate(found.values())}


@pytest.mark.parametrize("name", DISPATCHES)
@pytest.mark.parametrize("dtype", ITEMSIZE)
@pytest.mark.parametrize("processors", [132, 16])
@pytest.mark.parametrize("vector", [1, 2, 4, None])
def test_slices_and_blocks_hold_every_lane_of_a_row(name: str, dtype: str, processors: int, vector: int | None) -> None:
    for M, N in product(ROWS, [*LENGTHS, 63, 64, 65, 4095, 4097, 4100, 8200, 12345, 2**20, 2**22]):
        x = matrix(M, N, dtype, "sm_90", vector)._replace(processors=processors, waiting=processors)
        launch = DISPATCHES[name](x)
        where, constants = f"{M} x {N}: {launch}", launch.constants
        assert constants["BLOCK"] == power_of_two(constants["BLOCK"]) >= x.vector, where
        if name == "gradients":
            assert launch.parts * constants["BLOCK"] * constants["PIECES"] >= x.width, where
            continue
        lanes = launch.loops * constants["PIECES"] * constants["BLOCK"] + constants.get("HELD", 0) * constants["BLOCK"]
        assert lanes >= min(launch.span, x.width) and launch.span * launch.parts >= x.width, where
        assert launch.span * (launch.parts - 1) < x.width, f"a program without lanes: {where}"
        if name in ("losses_and_gradients", "softmax"):  # programs of a row wait for each other
            assert launch.parts <= 2 * processors, (
                f"a multiprocessor may hold only two programs of 128 threads: {where}"
            )
        assert constants["WIDTH"] >= launch.parts and (launch.parts == 1 or constants["ROWS"] == 1), where
        assert launch.span % x.vector == 0, where


def test_few_long_rows_are_spread_over_the_device() -> None:
    for name in ("losses", "losses_and_gradients", "softmax"):
        assert DISPATCHES[name](matrix(1, 128256, "bf16", "sm_90")).parts >= 16
        assert DISPATCHES[name](matrix(64, 1024, "bf16", "sm_90")).parts == 1


def test_programs_wait_only_where_they_can() -> None:
    """Without teams a row has one program; the forward pass never waits."""
    for M, N in product(ROWS, LENGTHS):
        alone = matrix(M, N, "bf16", "sm_90")._replace(waiting=0)
        assert both_launch(alone, False).parts == backward_launch(alone).parts == 1


@pytest.mark.parametrize(
    "launch_of", [partial(both_launch, smooth=False), backward_launch], ids=["cross-entropy", "softmax"]
)
def test_more_programs_than_can_wait_for_each_other_are_declined(launch_of: Callable[..., SliceLaunch]) -> None:
    """They would wait forever for those that find no place on the device."""
    x = matrix(1, 2**17, "bf16", "sm_90")._replace(waiting=16)
    assert launch_of(x, parts=32).parts == 32
    with pytest.raises(Unsupported, match="parts=33: on this device, at most 32 programs can share a row"):
        launch_of(x, parts=33)
    with pytest.raises(Unsupported, match="at most 1 programs can share a row"):
        launch_of(x._replace(waiting=0), parts=2)


@pytest.fixture(scope="module")
def binaries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """Spilled bytes of every build, by its name."""
    found: dict[str, int] = compiled_by(__file__, tmp_path_factory)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "target"), list(product(DISPATCHES, TARGETS)))
def test_nothing_spills(binaries: dict[str, int], kernel: str, target: str) -> None:
    mine = {
        name: spilled for name, spilled in binaries.items() if name.startswith(f"{kernel} ") and f" {target} " in name
    }
    assert mine
    most = (
        8 if target == "sm_80" else 0
    )  # there without a limit of registers, the compiler puts two of them into memory
    assert {f"{name}: {builds()[name].launch}": spilled for name, spilled in mine.items() if spilled > most} == {}


def _all_spilled() -> Iterator[tuple[str, int]]:
    import triton.compiler  # noqa: F401  before the fork

    found = builds()
    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
        yield from zip(found, pool.map(_spilled, found.values(), chunksize=8), strict=True)


TYPES = {"words": "*i64", "labels": "*i64", "loss": "*fp32", "d_loss": "*fp32", "saved": "*fp32", "smoothing": "fp32"}


def _spilled(build: Build) -> int:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from kbench.operators.cross_entropy import triton_gradients, triton_kernels
    from kbench.operators.softmax import triton_backward

    kernel = {
        "losses": triton_kernels.losses,
        "gradients": triton_gradients.logit_gradients,
        "losses_and_gradients": triton_gradients.losses_and_gradients,
        "softmax": triton_backward.softmax_gradients,
    }[build.kernel.split()[0]]
    constants: dict[str, Any] = {"TICKETS": build.tickets, "PHASE": 0, **build.launch.constants}
    signature: dict[str, str] = {}
    fixed: dict[tuple[int, ...], Any] = {}
    aligned: dict[tuple[int, ...], Any] = {}
    for position, parameter in enumerate(kernel.params):
        name = parameter.name
        if parameter.is_constexpr:
            signature[name], fixed[(position,)] = "constexpr", constants[name]
            continue
        pointer = TYPES.get(name, f"*{build.dtype}" if name in ("x", "dx", "y", "dy") else "i32")
        signature[name] = pointer
        if pointer.startswith("*"):
            aligned[(position,)] = [["tt.divisibility", 16]]
    source = ASTSource(kernel, signature, fixed, aligned)
    compiled = triton.compile(source, target=GPUTarget(*TARGETS[build.target]), options=dict(build.launch.options))
    return spilled_bytes(build.target, compiled)


if __name__ == "__main__":
    print(json.dumps(dict(_all_spilled())))

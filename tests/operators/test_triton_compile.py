"""What Triton makes of the kernels: compiled ahead of time for GPUs that need not be here, they must not spill registers
to memory, and must load 16 bytes at a time where the rows are aligned.

The launches are those of the providers' own dispatch, on both sides of its thresholds. Triton cannot compile in a process
that interprets, so this file is also a program: run by itself it compiles everything and prints what it found as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from typing import Any, NamedTuple

import pytest
from ahead_of_time import TARGETS, compiled_by, spilled_bytes

from kbench.operators.gelu import providers_triton as gelu
from kbench.operators.softmax.triton_dispatch import DISPATCH, TILE_BYTES, dispatch, persistent_launch, row_launch

pytestmark = pytest.mark.slow

pytest.importorskip("triton")

ITEMSIZE = {"fp32": 4, "bf16": 2}

THRESHOLDS = {
    itemsize: sorted({*(int(line.most) for line in lines if line.most < 1e9), TILE_BYTES // itemsize})
    for itemsize, lines in DISPATCH.items()
}
OTHERS = [1, 16, 781, 4096, 12288, 12345, 20481, 50257, 65536, 2**20, 2**22]
"""Short rows, rows of three and of six blocks, rows that start anywhere, slices of 8192 and of more."""
EIGHTHS = [65, 410, 1040, 5520, 12446]
"""Rows in five, six and seven eighths of a power of two."""
MANY_ROWS = 4096
FEW_ROWS = [(1, 128), (64, 512), (8, 781), (64, 3073), (1, 4096), (64, 8192)]
FEW_ROWS += [(1, 16384), (64, 16384), (1, 50257), (64, 65536), (8, 131072)]
IN_ONE_BLOCK = [1, 781, 4096, 32768]
"""Longer rows are more than the registers of 16 warps hold: there one block per row spills by its nature."""


class Build(NamedTuple):
    """One compilation: a kernel, its launch, and what Triton is told of the arguments."""

    name: str
    target: str
    operator: str
    kernel: str
    N: int
    dtype: str
    constants: dict[str, Any]
    options: dict[str, Any]
    parts: int = 1
    span: int = 0

    @property
    def wide(self) -> bool:
        """Whether 16-byte loads are due: rows start at multiples of 16 bytes, or the kernel moves whole vectors wherever
        they start, and every thread has 16 bytes to load."""
        threads = self.options["num_warps"] * TARGETS[self.target][2]
        elements = self.constants["BLOCK"] * self.constants.get("ROWS", 1)
        vectors = 16 // ITEMSIZE[self.dtype] == self.constants.get("VEC")
        aligned = self.N % 16 == 0 or vectors or self.kernel == "gelu"
        return aligned and elements * ITEMSIZE[self.dtype] >= 16 * threads


def builds() -> Iterator[Build]:
    for (target, (_, _, warp_size)), (dtype, itemsize) in product(TARGETS.items(), ITEMSIZE.items()):

        def build(operator, provider, kernel, N, constants, options, *slices, target=target, dtype=dtype):
            name = f"{operator} {provider} N={N} {dtype} {target}"
            return Build(name, target, operator, kernel, N, dtype, constants, options, *slices)

        # for devices on which nothing was measured, every fourth, or the first two
        thin = slice(None, None, None if target == "sm_90" else 4)
        some = slice(None if target == "sm_90" else 2)
        dispatched = sorted({*OTHERS, *(n + more for n in THRESHOLDS[itemsize] for more in (-7, 0, 1, 8))} | {4096})
        for M, N in [*((MANY_ROWS, N) for N in dispatched), *((2**20, N) for N in EIGHTHS), *FEW_ROWS][thin]:
            launch = dispatch(M, N, itemsize, warp_size=warp_size, capped=target == "sm_90")
            kernel, constants, *rest = launch
            if kernel == "split":
                constants = constants | {"TICKETS": launch.programs(M) > 132}
            yield build("softmax", f"triton M={M}", kernel, N, constants, *rest)
        for N in IN_ONE_BLOCK[thin]:
            for provider, launch in (
                ("triton-row", row_launch(N)),
                ("triton-persistent", persistent_launch(N, itemsize)),
            ):
                yield build("softmax", provider, launch.kernel, N, launch.constants, launch.options)
        for N, tanh in product((1000, 64 * 32000, 2**18, 4097 * 311)[some], (True, False)):
            launch = gelu.elements_launch(N, itemsize, warp_size, 132)
            constants = {"BLOCK": launch.block, "TANH": tanh, "EVEN": N % launch.block == 0, "POLICY": "evict_last"}
            yield build("gelu", f"triton tanh={tanh}", "gelu", N, constants, launch.options)
        for N, tanh in ((781, True), (32768, False), (16384, False), (32768, True), (4096, True))[some]:
            launch = gelu.row_launch(N, tanh=tanh)
            constants = launch.constants | {"TANH": tanh, "POLICY": ""}
            yield build("gelu", f"triton-row tanh={tanh}", "gelu_rows", N, constants, launch.options)


BUILDS = {build.name: build for build in builds()}


@pytest.mark.parametrize(
    "total, itemsize, block, warps",
    [
        (128, 2, 128, 4),
        (256, 2, 256, 4),
        (384, 4, 128, 4),
        (1000, 4, 256, 4),
        (2**17, 4, 256, 4),
        (2**17 + 1, 4, 512, 4),
        (64 * 32000, 4, 1024, 4),
        (2**23, 4, 512, 4),
        (4096, 2, 256, 4),
        (4097, 2, 1024, 8),
        (2**19, 2, 1024, 8),
        (2**19 + 1, 2, 1024, 4),
    ],
)
def test_gelu_takes_blocks_that_suit_the_number_of_elements(total: int, itemsize: int, block: int, warps: int) -> None:
    """8 bytes a thread where they are few, and no block half full where they are fewest; twice as many in float32 where one
    wave of programs then does what two would."""
    launch = gelu.elements_launch(total, itemsize, 32, 132)
    assert (launch.block, launch.options["num_warps"]) == (block, warps)


@pytest.fixture(scope="module")
def binaries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What came of every build, by its name."""
    found: dict[str, dict[str, Any]] = compiled_by(__file__, tmp_path_factory)
    return found


@pytest.mark.parametrize("name", BUILDS)
def test_nothing_spills(binaries, name):
    assert binaries[name]["spilled_bytes"] == 0, binaries[name]


@pytest.mark.parametrize("name", [name for name, build in BUILDS.items() if build.wide])
def test_aligned_rows_move_16_bytes_at_a_time(binaries, name):
    assert binaries[name]["wide_loads"] and binaries[name]["wide_stores"], binaries[name]


def test_all_of_the_best_kernels_lines_are_due_16_bytes():
    """Otherwise the test before this one would pass a dispatch that cannot load them. Short float32 rows that start
    anywhere are moved by single elements on purpose; few rows have more threads than vectors."""
    narrow = [b for b in BUILDS.values() if f" triton M={MANY_ROWS} " in b.name and b.N >= 64 and not b.wide]
    assert not [b.name for b in narrow if b.dtype != "fp32" or b.N % 4 == 0 or b.N > 1024]


def compile_all() -> dict[str, dict[str, Any]]:
    """In two processes: it is the longest single thing of all tests. They are forked from one that has imported Triton."""
    import triton.compiler  # noqa: F401

    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
        return dict(zip(BUILDS, pool.map(compile_and_inspect, BUILDS, chunksize=8), strict=True))


def compile_and_inspect(name: str) -> dict[str, Any]:
    return inspect(BUILDS[name], compile_one(BUILDS[name]))


def compile_one(build: Build) -> Any:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from kbench.operators.gelu import triton_kernels as gelu_kernels
    from kbench.operators.softmax import triton_kernels as softmax_kernels

    kernel = getattr({"softmax": softmax_kernels, "gelu": gelu_kernels}[build.operator], build.kernel)
    fixed = {parameter.name for parameter in kernel.params if parameter.do_not_specialize}
    # as Triton does with a 1, and with a multiple of 16
    constants = build.constants | ({"row_stride": 1, "N": 1} if build.N == 1 and "N" not in fixed else {})
    signature, aligned = {}, {}
    for position, argument in enumerate(kernel.arg_names):
        pointer = {"out": f"*{build.dtype}", "x": f"*{build.dtype}", "words": "*i64"}.get(argument)
        default = kernel.params[position].default
        if argument not in constants and argument.isupper() and isinstance(default, (int, str)):
            constants[argument] = default
        signature[argument] = pointer or ("constexpr" if argument in constants else "i32")
        if pointer or (argument in {"row_stride", "N"} - fixed and build.N % 16 == 0):
            aligned[(position,)] = [["tt.divisibility", 16]]
    source = ASTSource(
        kernel,
        signature,
        {(kernel.arg_names.index(argument),): value for argument, value in constants.items()},
        aligned,
    )
    return triton.compile(source, target=GPUTarget(*TARGETS[build.target]), options=build.options)


def inspect(build: Build, compiled: Any) -> dict[str, Any]:
    """Bytes of registers kept in memory, and whether there are 16-byte loads and stores."""
    spilled = spilled_bytes(build.target, compiled)
    if build.target.startswith("gfx"):
        text = compiled.asm["amdgcn"]
        return {
            "spilled_bytes": spilled,
            "wide_loads": "load_dwordx4" in text,
            "wide_stores": "store_dwordx4" in text,
        }
    text = compiled.asm["ptx"]
    return {
        "spilled_bytes": spilled,
        "wide_loads": bool(re.search(r"ld\.global\S*\.v4\.b32|cp\.async\.cg\.shared\.global .*, 0x10,", text)),
        "wide_stores": bool(re.search(r"st\.global\S*\.v4\.b32", text)),
    }


if __name__ == "__main__":
    print(json.dumps(compile_all()))

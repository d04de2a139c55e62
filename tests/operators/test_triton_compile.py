"""What Triton makes of the kernels: compiled ahead of time for GPUs that need not be here, they must not spill registers
to memory, and must load 16 bytes at a time where the rows are aligned.

The launches are those of the providers' own dispatch, on both sides of its thresholds. Triton cannot compile in a process
that interprets, so this file is also a program: run by itself it compiles everything and prints what it found as JSON.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kbench.operators.gelu import triton as gelu
from kbench.operators.softmax import triton as softmax

pytest.importorskip("triton")

TARGETS = {"sm_80": ("cuda", 80, 32), "sm_90": ("cuda", 90, 32), "gfx942": ("hip", "gfx942", 64)}
ITEMSIZE = {"fp32": 4, "bf16": 2}

THRESHOLDS = [int(n) for n, *_ in softmax.DISPATCH if n < 1e9]
DISPATCHED = sorted({1, 16, *THRESHOLDS, *(n + 1 for n in THRESHOLDS), 65536})
IN_ONE_BLOCK = [1, 781, 1024, 2048, 4096, 32768]
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

    @property
    def wide(self) -> bool:
        """Whether 16-byte loads are due: rows start at multiples of 16 bytes, and every thread has 16 bytes to load."""
        threads = self.options["num_warps"] * TARGETS[self.target][2]
        elements = self.constants["BLOCK"] * self.constants.get("ROWS", 1)
        return self.N % 16 == 0 and elements * ITEMSIZE[self.dtype] >= 16 * threads


def builds() -> Iterator[Build]:
    for (target, (_, _, warp_size)), (dtype, itemsize) in product(TARGETS.items(), ITEMSIZE.items()):

        def build(operator, provider, kernel, N, constants, options, target=target, dtype=dtype):
            return Build(
                f"{operator} {provider} N={N} {dtype} {target}", target, operator, kernel, N, dtype, constants, options
            )

        for N in DISPATCHED:
            yield build("softmax", "triton", N=N, **softmax.dispatch(N, warp_size)._asdict())
        for N in IN_ONE_BLOCK:
            yield build("softmax", "triton-row", N=N, **softmax.row_launch(N)._asdict())
            yield build("softmax", "triton-persistent", N=N, **softmax.persistent_launch(N, itemsize)._asdict())
        for N, tanh in product((4096 * 1024, 4097 * 311), (True, False)):
            launch = gelu.ELEMENTS_LAUNCH
            yield build("gelu", f"triton tanh={tanh}", "gelu", N, launch.constants | {"TANH": tanh}, launch.options)
        for N, tanh in ((781, True), (4096, True), (32768, True), (16384, False), (32768, False)):
            launch = gelu.row_launch(N, tanh=tanh)
            yield build("gelu", f"triton-row tanh={tanh}", "gelu", N, launch.constants | {"TANH": tanh}, launch.options)


BUILDS = {build.name: build for build in builds()}


@pytest.fixture(scope="module")
def binaries() -> dict[str, dict[str, Any]]:
    """What came of every build, by its name."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    root = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        [sys.executable, __file__],
        env=environment | {"PYTHONPATH": root},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", BUILDS)
def test_nothing_spills(binaries, name):
    assert binaries[name]["spilled_bytes"] == 0, binaries[name]


@pytest.mark.parametrize("name", [name for name, build in BUILDS.items() if build.wide])
def test_aligned_rows_move_16_bytes_at_a_time(binaries, name):
    assert binaries[name]["wide_loads"] and binaries[name]["wide_stores"], binaries[name]


def test_all_of_the_best_kernels_lines_are_due_16_bytes_when_aligned():
    """Otherwise the test before this one would pass a dispatch that cannot load them."""
    narrow = [b.name for b in BUILDS.values() if " triton " in b.name and b.N % 16 == 0 and not b.wide]
    assert not narrow


def compile_all() -> dict[str, dict[str, Any]]:
    return {name: inspect(build, compile_one(build)) for name, build in BUILDS.items()}


def compile_one(build: Build) -> Any:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from kbench.operators.gelu import triton_kernels as gelu_kernels
    from kbench.operators.softmax import triton_kernels as softmax_kernels

    kernel = getattr({"softmax": softmax_kernels, "gelu": gelu_kernels}[build.operator], build.kernel)
    constants = build.constants | ({"row_stride": 1, "N": 1} if build.N == 1 else {})  # as Triton does with a 1
    signature, aligned = {}, {}
    for position, argument in enumerate(kernel.arg_names):
        pointer = argument in ("out", "x")
        signature[argument] = f"*{build.dtype}" if pointer else "constexpr" if argument in constants else "i32"
        if pointer or (argument in ("row_stride", "N") and build.N % 16 == 0):
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
    if build.target.startswith("gfx"):
        text = compiled.asm["amdgcn"]
        figures = ("vgpr_spill_count", "sgpr_spill_count", "private_segment_fixed_size")
        spilled = sum(int(value) for figure in figures for value in re.findall(rf"\.{figure}:\s*(\d+)", text))
        return {
            "spilled_bytes": spilled,
            "wide_loads": "load_dwordx4" in text,
            "wide_stores": "store_dwordx4" in text,
        }
    text = compiled.asm["ptx"]
    usage = resource_usage(compiled.asm["cubin"])
    return {
        "spilled_bytes": sum(int(value) for value in re.findall(r"(?:STACK|LOCAL):(\d+)", usage)),
        "wide_loads": bool(re.search(r"ld\.global\S*\.v4\.b32|cp\.async\.cg\.shared\.global .*, 0x10,", text)),
        "wide_stores": bool(re.search(r"st\.global\S*\.v4\.b32", text)),
    }


def resource_usage(cubin: bytes) -> str:
    """`REG:52 STACK:0 SHARED:0 LOCAL:0 ...` of a CUDA binary, by the tool that comes with Triton."""
    import triton

    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [tool, "--dump-resource-usage", file.name]
        usage = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "STACK:" in usage, usage
    return usage


if __name__ == "__main__":
    print(json.dumps(compile_all()))

"""What Triton makes of the kernels: compiled ahead of time for GPUs that need not be here, they must not spill registers
to memory, and must load 16 bytes at a time where the rows are aligned.

The launches are those that the providers make themselves: softmax, cross-entropy and GELU on lengths on both sides of the
limits in their tables, and the operators without tables on a row length of language models, in every mode. Triton cannot
compile in a process that interprets, so this file is also a program: run by itself it compiles everything and prints what it
found as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, NamedTuple

import pytest
import torch
from ahead_of_time import TARGETS, compile_for, compiled_by, spilled_bytes

from kbench.contract.origin import shipped
from kbench.contract.provider import Unsupported
from kbench.contract.registry import operator
from kbench.kernels import triton_launch
from kbench.kernels.triton_launch import Launch, Processors
from kbench.measure.correctness.call import stage_of
from kbench.measure.correctness.definition import Definition
from kbench.measure.correctness.inputs import Inputs
from kbench.measure.machine.device import Device
from kbench.operators.cross_entropy import triton_launches as losses
from kbench.operators.gelu import providers_triton as gelu
from kbench.operators.softmax import triton_launches as softmax

pytestmark = pytest.mark.slow

pytest.importorskip("triton")

DEVICES = {
    "sm_80": Processors(multiprocessors=108, waiting=108, caps=False),
    "sm_90": Processors(),
    "gfx942": Processors(64, 304, 304, packs=False, caps=False),
}
SHAPES = [(4096, 1), (1, 128), (4096, 781), (2**20, 1040), (64, 512), (4096, 4096), (4096, 8192), (2**20, 12446)]
SHAPES += [(4096, 28672), (64, 65536), (4096, 65536), (4096, 50257), (1, 128256), (4096, 262144), (4096, 2**22)]
"""Rows of three blocks, in eighths, and that begin anywhere; slices of 8192 lanes and of more; rows that are read twice."""

LENGTH, ROWS = 8192, 4
"""Of the launches of every other operator."""

ELSEWHERE = ("softmax", "gelu", "cross_entropy", "rmsnorm", "layernorm", "add_rmsnorm")
"""Operators whose tables are compiled here, or in `test_triton_norm_builds.py`."""


class Build(NamedTuple):
    """One compilation. `wide`: whether 16-byte accesses are due, as rows consist of whole vectors and every thread has one."""

    name: str
    target: str
    kernel: Any
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    wide: bool


def matrix(M: int, N: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(M, N, dtype=dtype, device="meta")


def launches(
    target: str, dtype: torch.dtype
) -> Iterator[tuple[str, Callable[..., Launch], tuple[Any, ...], tuple[Any, ...]]]:
    """A name, what chooses the launch, and its tensors and settings. float32 on every second shape: its launches have the same
    forms."""
    step = {"sm_90": 1}.get(target, 4) * (2 if dtype == torch.float32 else 1)
    for M, N in SHAPES[::step]:
        x, d = matrix(M, N, dtype), matrix(1, M, torch.float32)[0]
        labels, saved = torch.empty(M, dtype=torch.int64, device="meta"), matrix(2, M, torch.float32)
        shape = f"{str(dtype)[6:]} {M}x{N}"
        yield f"softmax forward {shape}", softmax.forward, (x, x), ()
        yield f"softmax backward {shape}", softmax.backward, (x, x, x), ()
        if N > 2**20:
            continue
        for smoothing in (0.0, 0.1)[: 2 if N in (781, 50257) else 1]:
            yield f"losses {smoothing} {shape}", losses.losses, (d, saved, x, labels), (smoothing,)
            yield f"both {smoothing} {shape}", losses.both, (d, x, d, x, labels), (smoothing,)
        yield f"gradients {shape}", losses.gradients, (x, d, x, labels, saved), (0.0,)
    for form in ("tanh", "none"):
        for N in (1000, 2**18, 4096):
            yield f"gelu {form} {dtype} {N}", gelu.blocks, (matrix(64, N, dtype),) * 2, (form,)
        for N in (781, 32768):
            yield f"gelu rows {form} {dtype} {N}", gelu.whole_rows, (matrix(64, N, dtype),) * 2, (form, None, None)
    for N in (781, 4096, 32768):
        for name, choose in (("row", softmax.row), ("persistent", softmax.persistent)):
            yield f"softmax {name} {dtype} {N}", choose, (matrix(64, N, dtype),) * 2, (None, None, None)


def builds() -> dict[str, Build]:
    """Every launch of the tables that differs from others in more than the sizes of the matrix."""
    softmax.FIXED_PROGRAMS = {"meta": 1}
    built: dict[str, Build] = {}
    for target, processors in DEVICES.items():
        for module in (triton_launch, gelu):
            module.processors_of = lambda device, processors=processors: processors  # type: ignore[attr-defined]
        for dtype in (torch.float32, torch.bfloat16):
            for name, choose, tensors, settings in launches(target, dtype):
                launch = choose(*tensors, *settings)
                words: tuple[Any, ...] = ()
                if launch.words is not None:
                    words = (torch.empty(1, dtype=torch.int64, device="meta") if launch.words[0] else None,)
                constants = dict(launch.constants)
                if launch.waits and launch.programs > processors.multiprocessors:
                    constants["TICKETS"] = True
                same = repr((launch.kernel.__name__, target, dtype, sorted({**constants, **launch.options}.items())))
                elements = constants["BLOCK"] * constants.get("ROWS", 1)
                threads = launch.options["num_warps"] * processors.warp_size
                vectors = not tensors[-1].dtype.is_floating_point or tensors[-1].shape[-1] % 16 == 0
                wide = vectors and dtype.itemsize * elements >= 16 * threads
                arguments = (*tensors, *words, *launch.numbers)
                built[same] = Build(
                    f"{name} {target}", target, launch.kernel, arguments, {**constants, **launch.options}, wide
                )
    return {build.name: build for build in built.values()}


def of_every_operator() -> Iterator[Build]:
    """The launches of every other provider, without launching anything."""
    from triton.runtime.jit import JITFunction

    made: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []

    def run(kernel: Any, *arguments: Any, grid: Any, warmup: bool, **keywords: Any) -> None:
        made.append((kernel, arguments, keywords))

    JITFunction.run = run
    for name in shipped():
        definition = operator(name)
        for provider in definition.providers.values():
            if "triton" not in provider.requires or name in ELSEWHERE:
                continue
            for dtype in ("float32", "bfloat16"):
                for mode in definition.words.get("mode", ("",)):
                    axes = {axis: LENGTH if i else ROWS for i, axis in enumerate(definition.axes)}
                    case = definition.case(dtype, **axes, **({"mode": mode} if mode else {}))
                    here = Definition(definition, case)
                    if dtype not in definition.dtypes or provider.declines(case):
                        continue
                    made.clear()
                    try:
                        inputs = Inputs(here, Device(), 0).draw("")
                        shapes = [output.declared.shape_in(case) for output in here.outputs]
                        stage_of(here, provider, {})(inputs, shapes).run()
                    except Unsupported:
                        continue
                    for kernel, arguments, keywords in made:
                        full = f"{name} {provider.name} {kernel.fn.__name__} {dtype}"
                        yield from _for_targets(full, kernel, arguments, dict(keywords))


def _for_targets(name: str, kernel: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Iterator[Build]:
    eight_bits = any(isinstance(each, torch.Tensor) and "float8" in str(each.dtype) for each in arguments)
    for target in TARGETS:
        # sm_80 and gfx942 have no float8_e4m3fn; float32 is compiled for one target
        if target == "sm_90" or not (eight_bits or "float32" in name):
            yield Build(f"{name} {target}", target, kernel, arguments, keywords, False)
        if keywords.get("NATIVE") is False and target == "sm_90":  # the conversion to 8 bits in hardware
            yield Build(f"{name} {target} native", target, kernel, arguments, {**keywords, "NATIVE": True}, False)


@pytest.fixture(scope="module")
def binaries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What came of every build, by its name."""
    found: dict[str, dict[str, Any]] = compiled_by(__file__, tmp_path_factory)
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_spills(binaries: dict[str, dict[str, Any]], target: str) -> None:
    mine = {name: build for name, build in binaries.items() if f" {target}" in name}
    assert len(mine) > 20
    most = 8 if target == "sm_80" else 0  # without a limit of registers, the compiler puts two of them into memory
    # longer rows in one block are more than the registers of 16 warps hold
    assert {name: build for name, build in mine.items() if build["spilled_bytes"] > most} == {}


def test_aligned_rows_move_16_bytes_at_a_time(binaries: dict[str, dict[str, Any]]) -> None:
    wide = {name: build for name, build in binaries.items() if build["wide"]}
    assert len(wide) > 20
    assert {name: build for name, build in wide.items() if not build["wide_loads"]} == {}


def compile_and_inspect(build: Build) -> dict[str, Any]:
    compiled = compile_for(build.target, build.kernel, build.arguments, dict(build.keywords))
    if build.target.startswith("gfx"):
        wide = "load_dwordx4" in compiled.asm["amdgcn"]
    else:
        loads = r"ld\.global\S*\.v4\.b32|cp\.async\.cg\.shared\.global .*, 0x10,"
        wide = bool(re.search(loads, compiled.asm["ptx"]))
    return {"spilled_bytes": spilled_bytes(build.target, compiled), "wide": build.wide, "wide_loads": wide}


ALL: dict[str, Build] = {}


def compile_named(name: str) -> dict[str, Any]:
    return compile_and_inspect(ALL[name])


def compile_all() -> dict[str, dict[str, Any]]:
    """In two processes, forked from one that has imported Triton."""
    import triton.compiler  # noqa: F401

    ALL.update(builds())
    ALL.update({build.name: build for build in of_every_operator()})
    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
        return dict(zip(ALL, pool.map(compile_named, ALL, chunksize=4), strict=True))


if __name__ == "__main__":
    print(json.dumps(compile_all()))

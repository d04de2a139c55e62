"""What Triton makes of the kernels: compiled ahead of time for GPUs that need not be here, they must not spill registers
to memory, and must load 16 bytes at a time where the rows are aligned.

The launches are those that the providers choose, on lengths on both sides of the limits in their tables. Triton cannot compile
in a process that interprets, so this file is also a program: run by itself it compiles everything and prints what it found as
JSON.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, NamedTuple

import pytest
import torch
from ahead_of_time import TARGETS, compile_for, compiled_by, spilled_bytes
from torch import Tensor

from kbench.contract.origin import shipped
from kbench.contract.registry import operator
from kbench.kernels import triton_launch
from kbench.kernels.norms import launch as norms
from kbench.kernels.triton_launch import Launch, Processors
from kbench.operators import matmul, quantize_fp8, swiglu
from kbench.operators.attention import providers_triton as attention
from kbench.operators.cross_entropy import providers_triton as losses
from kbench.operators.gelu import providers_triton as gelu
from kbench.operators.grouped_matmul import providers_triton as grouped
from kbench.operators.softmax import providers_triton as softmax

pytestmark = pytest.mark.slow

pytest.importorskip("triton")

DEVICES = {
    "sm_90": Processors(),
    "sm_80": Processors(multiprocessors=108, waiting=108, caps=False, shared_bytes=163 * 1024, chains=False),
    "gfx942": Processors(64, 304, 304, packs=False, caps=False, shared_bytes=0, chains=False),
}

SHAPES = [(300, 1), (1, 128), (4096, 781), (2**20, 1040), (4096, 512), (4096, 4096), (4096, 8192), (2**20, 12446)]
SHAPES += [(4096, 28672), (64, 65536), (4096, 65536), (4096, 50257), (1, 128256), (4096, 262144), (4096, 2**22)]
"""Rows of three blocks, in eighths, and that begin anywhere; slices of 8192 lanes and of more; rows that are read twice."""

NORM_SHAPES = [
    (16384, 1), (65536, 64), (16384, 768), (65536, 1024), (16384, 2880), (16384, 4096), (16384, 4097), (16384, 5120),
    (8192, 3584), (8192, 7168), (8192, 8191), (8192, 8192), (16384, 11008), (4096, 16384), (64, 4096), (1, 16384),
    (1024, 65536), (396, 5120), (396, 7168),  # weights before the sums, as many rows as registers hold
]  # fmt: skip
SHORT_OR_BETWEEN = (1, 64, 768, 2880, 3584, 7168)
"""Lengths of NORM_SHAPES that are compiled in 16 bits, beside weights of 16 bits: in float32 they have the forms of others."""

SIZES = ("BLOCK", "PIECES", "HELD", "PART", "WIDTH", "STEP", "POLICY", "num_warps")
"""Settings of launches that are the same program with more or fewer elements. That with the most a thread needs the most
registers: it is compiled for all of them."""


class Chosen(NamedTuple):
    """A launch that a provider chooses for its tensors. `wide`: whether 16-byte accesses are due, as rows consist of whole
    vectors."""

    name: str
    launch: Launch
    tensors: tuple[Tensor | None, ...]
    wide: bool = False


class Build(NamedTuple):
    """One compilation. `wide`: 16-byte accesses are due, and every thread has one."""

    name: str
    target: str
    kernel: Any
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    wide: bool

    @property
    def held(self) -> float:
        """Elements of a row that a warp holds at once."""
        settings = {"PIECES": 1, "HELD": 1, "ROWS": 1, "num_warps": 4} | self.keywords
        pieces = max(settings["PIECES"], settings["HELD"])
        return settings["BLOCK"] * pieces * settings["ROWS"] / settings["num_warps"]


def tensor(*sizes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.empty(*sizes, dtype=dtype, device="meta")


def of_rows(target: str, dtype: torch.dtype) -> Iterator[Chosen]:
    """Softmax and cross-entropy."""
    for M, N in SHAPES:
        x, d, wide = tensor(M, N, dtype=dtype), tensor(M), N % 16 == 0
        labels, saved = tensor(M, dtype=torch.int64), tensor(2, M)
        shape = f"{str(dtype)[6:]} {M}x{N}"
        yield Chosen(f"softmax forward {shape}", softmax.forward(x, x), (x, x), wide)
        yield Chosen(f"softmax backward {shape}", softmax.backward(x, x, x), (x, x, x), wide)
        if N > 2**20:
            continue
        for smoothing in (0.0, 0.1)[: 2 if N in (781, 50257) else 1]:
            of_losses, of_both = (d, saved, x, labels), (d, x, d, x, labels)
            yield Chosen(f"losses {smoothing} {shape}", losses.losses(*of_losses, smoothing), of_losses, wide)
            yield Chosen(f"both {smoothing} {shape}", losses.both(*of_both, smoothing), of_both, wide)
        of_gradients = (x, d, x, labels, saved)
        yield Chosen(f"gradients {shape}", losses.gradients(*of_gradients, 0.0), of_gradients, wide)
    for N in (781, 32768) if target == "sm_90" else (32768,):
        x = tensor(64, N, dtype=dtype)
        yield Chosen(f"softmax row {dtype} {N}", softmax.row(x, x, None, None), (x, x), N % 16 == 0)
        yield Chosen(f"softmax persistent {dtype} {N}", softmax.persistent(x, x, None, None), (x, x), N % 16 == 0)


def of_elements(target: str, dtype: torch.dtype) -> Iterator[Chosen]:
    for form in ("tanh", "none"):
        for N in (1000, 4096):
            x = tensor(64, N, dtype=dtype)
            yield Chosen(f"gelu {form} {dtype} {N}", gelu.blocks(x, x, form), (x, x), N % 16 == 0)
        for N in (781, 32768) if target == "sm_90" else ():
            x = tensor(64, N, dtype=dtype)
            yield Chosen(f"gelu rows {form} {dtype} {N}", gelu.row(x, x, form, None), (x, x), N % 16 == 0)
    x = tensor(4, 8192, dtype=dtype)
    yield Chosen(f"swiglu {dtype}", swiglu.forward_launch(x, x, x), (x, x, x), True)
    yield Chosen(f"swiglu backward {dtype}", swiglu.backward_launch(x, x, x, x, x), (x,) * 5, True)
    bits, scales = tensor(4, 8192, dtype=torch.uint8), tensor(4)
    quantized = quantize_fp8.quantize_launch(bits, scales, x)
    for native in (False, True)[: 2 if target == "sm_90" else 1]:  # in hardware
        launch = quantized._replace(constants={**quantized.constants, "NATIVE": native})
        yield Chosen(f"quantize {dtype} native={native}", launch, (bits, scales, x))


def of_norms(target: str, dtype: torch.dtype) -> Iterator[Chosen]:
    """Both others have the forms of layernorm, and need fewer registers, but where a table has a line of theirs."""
    for M, N in NORM_SHAPES:
        if dtype == torch.float32 and N in SHORT_OR_BETWEEN:
            continue
        weights = dtype if N in SHORT_OR_BETWEEN else torch.float32  # which need more registers beside 16 bits
        yield from of_norm("layernorm", tensor(M, N, dtype=dtype), tensor(N, dtype=weights))
        x, weight = tensor(M, N, dtype=torch.bfloat16), tensor(N, dtype=torch.bfloat16)
        if dtype == torch.bfloat16 and M > 512 and (N in (1024, 4096, 5120, 8191) or N >= 8192):
            yield from of_norm("add_rmsnorm", x, weight)
        if dtype == torch.bfloat16 and M > 512 and (N == 4096 or N >= 8192):
            yield from of_norm("rmsnorm", x, weight)


def of_norm(name: str, x: Tensor, weight: Tensor) -> Iterator[Chosen]:
    M, N = x.shape
    layernorm, add = name == "layernorm", name == "add_rmsnorm"
    statistics, partial = tensor(2, M) if layernorm else tensor(M), tensor(1)
    more, bias = (x if add else None), (weight if layernorm else None)
    what = f"{name} {M} x {N} {str(x.dtype)[6:]} beside {str(weight.dtype)[6:]}"
    forward = (x, more, statistics, x, more, weight, bias)
    if name != "rmsnorm":
        yield Chosen(f"{what} forward", norms.forward_launch(*forward, 1e-6), forward)
    backward = norms.backward_launches(x, x, more, weight, layernorm)
    yield Chosen(f"{what} backward", backward.first._launch, (x, partial, x, x, more, statistics, weight))
    if backward.last:
        yield Chosen(f"{what} sums", backward.last._launch, (weight, partial))


def builds() -> dict[str, Build]:
    """Every launch on sm_90 for 16 bits that differs from others in more than its sizes and those of the matrix. In float32,
    and for the other targets, the largest launch of each kernel."""
    softmax.FIXED_PROGRAMS = {"meta": 1}
    different: dict[str, Build] = {}
    for target, processors in DEVICES.items():
        for module in (triton_launch, gelu, norms, quantize_fp8, swiglu):
            module.processors_of = lambda device, processors=processors: processors  # type: ignore[attr-defined]
        for dtype in (torch.float32, torch.bfloat16) if target == "sm_90" else (torch.bfloat16,):
            for launches in (of_rows, of_elements, of_norms):
                for chosen in launches(target, dtype):
                    build = build_of(chosen, dtype, target, processors)
                    form: list[object] = [dtype]
                    if (target, dtype) == ("sm_90", torch.bfloat16):
                        form = [x if x is None else x.dtype for x in chosen.tensors] + [build.wide]
                        settings = {**build.keywords, "ROWS": build.keywords.get("ROWS", 1) > 1}
                        form += sorted(setting for setting in settings.items() if setting[0] not in SIZES)
                    key = repr((build.kernel, target, form))
                    different[key] = max(different.get(key, build), build, key=lambda build: build.held)
    of_target = {build.name: build for build in different.values()}
    products = (*of_matmul(), *of_grouped_matmul(), *of_attention())
    return of_target | {build.name: build for build in products}


def build_of(chosen: Chosen, dtype: torch.dtype, target: str, processors: Processors) -> Build:
    launch, constants, options = chosen.launch, dict(chosen.launch.constants), dict(chosen.launch.options)
    words: tuple[Any, ...] = ()
    if "words" in launch.kernel.arg_names:
        words = (tensor(1, dtype=torch.int64) if launch.words else None,)
    if launch.waits and "TICKETS" in launch.kernel.arg_names and launch.programs > processors.multiprocessors:
        constants["TICKETS"] = True
    elif launch.waits:
        options["launch_cooperative_grid"] = True
    threads = options.get("num_warps", 4) * processors.warp_size
    wide = chosen.wide and dtype.itemsize * constants["BLOCK"] * constants.get("ROWS", 1) >= 16 * threads
    arguments = (*chosen.tensors, *words, *launch.numbers)
    return Build(f"{chosen.name} {target}", target, launch.kernel, arguments, {**constants, **options}, wide)


def of_matmul() -> Iterator[Build]:
    """The tile kernel, which has no table."""
    for target in TARGETS:
        for dtype in (torch.bfloat16, torch.float32)[: 2 if target == "sm_90" else 1]:
            x = tensor(8192, 8192, dtype=dtype)
            numbers = (8192, 8192, 8192, *x.stride(), *x.stride())
            blocks = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4}
            yield Build(f"matmul {dtype} {target}", target, matmul.tile, (x, x, x, *numbers), blocks, False)


def of_grouped_matmul() -> Iterator[Build]:
    """Both kernels, with descriptors or with pointers."""
    x, d_y, w, ends = (
        tensor(*sizes, dtype=torch.bfloat16) for sizes in ((8192, 2048), (8192, 1536), (32, 2048, 1536), (32,))
    )
    ends = ends.to(torch.int32)
    for target in TARGETS:
        descriptors = target == "sm_90"
        for transposed in (False, True):
            tiles = grouped.tiles_of("products", x, None, descriptors)
            of_matrix = (tiles.N, tiles.K) if transposed else (tiles.K, tiles.N)
            left, right = grouped.tiled(x, tiles.T, tiles.K, descriptors), grouped.tiled(w, *of_matrix, descriptors)
            arguments, keywords = (x, left, right, ends, 32, 2048, 1536), {"TRANSPOSED": transposed, **tiles.launch}
            name = f"grouped_matmul products transposed={transposed} {target}"
            yield Build(name, target, grouped.kernels.products, arguments, keywords, False)
        tiles = grouped.tiles_of("gradients", x, None, descriptors)
        tokens = grouped.tiled(x, tiles.T, tiles.K, descriptors)
        received = grouped.tiled(d_y, tiles.T, tiles.N, descriptors)
        arguments = (w, tokens, received, ends, 2048, 1536)
        name = f"grouped_matmul gradients {target}"
        yield Build(name, target, grouped.kernels.matrix_gradients, arguments, dict(tiles.launch), False)


def of_attention() -> Iterator[Build]:
    """The kernels of the forward and the backward pass, with descriptors or with pointers, in the forms that need the most
    registers: with a mask, and those with pointers with long vectors."""
    for target, D, causal in itertools.product(TARGETS, (64, 128, 256), (True, False)):
        if (target != "sm_90" and D != 128) or not (causal or (target == "sm_90" and D == 256)):
            continue
        descriptors, x = target == "sm_90", tensor(2, 8, 1024, D, dtype=torch.bfloat16)
        sums, numbers = tensor(2, 8, 1024), (D**-0.5, 1024, 8, 4)
        for kernel in ("forward", "keys", "queries") if D <= attention.LONGEST_BACKWARD else ("forward",):
            blocks = attention.blocks_of(kernel, x, descriptors=descriptors)
            m, n = (attention.tiled(x, rows, descriptors) for rows in (blocks.M, blocks.N))
            function, arguments = {
                "forward": (attention.kernels.forward_blocks, (m, sums, m, n, n)),
                "keys": (attention.kernels.backward_keys, (n, n, m, m, n, n, sums, sums)),
                "queries": (attention.kernels.backward_queries, (m, m, m, n, n, sums, sums)),
            }[kernel]
            keywords = {"CAUSAL": causal, "WIDTH": D, **blocks.launch}
            name = f"attention {kernel} {D} causal={causal} {target}"
            yield Build(name, target, function, (*arguments, *numbers), keywords, False)


@pytest.fixture(scope="module")
def binaries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What came of every build, by its name."""
    compiled: dict[str, dict[str, Any]] = compiled_by(__file__, tmp_path_factory)
    return compiled


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_spills(binaries: dict[str, dict[str, Any]], target: str) -> None:
    of_target = {name: build for name, build in binaries.items() if name.endswith(target)}
    assert len(of_target) > 20
    # the compiler puts two registers into memory: without a limit of registers, and where a program more on a
    # multiprocessor gains 5 % and more (long rows of norms)
    two = {"sm_80": r"softmax|losses|both|gradients", "sm_90": r".*norm \d+ x \d{5} .* backward"}
    most = {name: 8 if re.match(two.get(target, "-"), name) else 0 for name in of_target}
    assert {name: build for name, build in of_target.items() if build["spilled_bytes"] > most[name]} == {}


def test_aligned_rows_move_16_bytes_at_a_time(binaries: dict[str, dict[str, Any]]) -> None:
    wide = {name: build for name, build in binaries.items() if build["wide"]}
    assert len(wide) > 20
    assert {name: build for name, build in wide.items() if not build["wide_loads"]} == {}


def test_lanes_of_cross_entropy_share_no_product_that_ptxas_would_add_before_it_is_rounded(
    binaries: dict[str, dict[str, Any]],
) -> None:
    """Each lane would add another lane's rounded product to its own exact one, so lanes would disagree on the sum of a row."""
    of_losses = {name: build["shared_products"] for name, build in binaries.items() if name.startswith("losses")}
    assert len(of_losses) > 5 and not any(of_losses.values())


def test_every_operator_with_a_kernel_in_triton_is_built(binaries: dict[str, dict[str, Any]]) -> None:
    short = {"quantize_fp8": "quantize", "cross_entropy": "losses", "linear_cross_entropy": "both"}
    for name in shipped():
        if any("triton" in provider.requires for provider in operator(name).providers.values()):
            assert any(build.startswith(short.get(name, name)) for build in binaries), name


def compile_and_inspect(build: Build) -> dict[str, Any]:
    compiled = compile_for(build.target, build.kernel, build.arguments, dict(build.keywords))
    shared_products = 0
    if build.target.startswith("gfx"):
        wide = "load_dwordx4" in compiled.asm["amdgcn"]
    else:
        loads = r"ld\.global\S*\.v4\.b32|cp\.async\.cg\.shared\.global .*, 0x10,"
        ptx = compiled.asm["ptx"]
        wide = bool(re.search(loads, ptx))
        shared = re.findall(r"shfl\.sync\.bfly\.b32\s+%\w+(?:\|%\w+)?,\s*(%\w+)", ptx)
        shared_products = len({*shared} & {*re.findall(r"mul(?:\.ftz)?\.f32\s+(%\w+)", ptx)})
    return {
        "spilled_bytes": spilled_bytes(build.target, compiled),
        "wide": build.wide,
        "wide_loads": wide,
        "shared_products": shared_products,
    }


ALL: dict[str, Build] = {}


def compile_named(name: str) -> dict[str, Any]:
    return compile_and_inspect(ALL[name])


def compile_all() -> dict[str, dict[str, Any]]:
    """In two processes, forked from one that has imported Triton."""
    import triton.compiler  # noqa: F401

    ALL.update(builds())
    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
        return dict(zip(ALL, pool.map(compile_named, ALL, chunksize=4), strict=True))


if __name__ == "__main__":
    print(json.dumps(compile_all()))

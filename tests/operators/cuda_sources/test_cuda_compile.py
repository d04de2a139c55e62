"""The CUDA sources, compiled where there is no device: they compile, keep everything in registers and use 16-byte accesses."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from common import ROOT, documented_file, made_once

from kbench.contract.origin import shipped
from kbench.kernels import cuda_extension

OPERATORS = ROOT / "kbench" / "operators"

SOURCES = {path.stem: path for name in shipped() for path in (OPERATORS / name).rglob("*.cu")}
SOURCES |= {f"example_{path.stem}": path for path in (ROOT / "examples").glob("*.cu")}
"""Every CUDA source of every operator and example, by its name."""

JOBS = [(name, "sm_90") for name in SOURCES]
JOBS += [(name, "sm_80") for name in ("softmax", "gelu")]
"""Their kernels are made of the same parts as those of the others, and each takes half a minute to compile."""

TYPES = {"f": 4, "6__half": 2, "13__nv_bfloat16": 2}
"""Mangled C++ types of the dtypes, and their bytes."""

LADDER = ("softmax_naive", "softmax_online", "softmax_shared", "softmax_shuffle")
VECTORISED = ("rows_in_registers", "rows_read_twice", "gelu_rows", "add_rmsnorm_rows")

NEWER = "Li2048E"
"""In the symbols of kernels for clusters of blocks, which have no code before sm_90."""

TORCH_FLAGS = (
    "-D__CUDA_NO_HALF_OPERATORS__",
    "-D__CUDA_NO_HALF_CONVERSIONS__",
    "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-D__CUDA_NO_HALF2_OPERATORS__",
    "-std=c++17",
)
"""What torch adds when it builds an extension; c++17 is the oldest standard of the torch versions we support."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),  # all sources take three minutes on two idle cores, and more on busy ones
    pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH"),
]


@dataclass(frozen=True)
class Kernel:
    """One instantiation: what it was made with, what the assembler says it uses, and its code."""

    symbol: str
    function: str
    type: str
    vector: int | None
    usage: str
    ptx: str


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], list[Kernel]]:
    """The kernels of each source for each architecture."""
    found = json.loads(
        made_once(tmp_path_factory, "cuda-kernels.json", lambda: json.dumps(_compile_all(tmp_path_factory)))
    )
    return {(name, arch): [_kernel(*kernel) for kernel in kernels] for name, arch, kernels in found}


def _compile_all(factory: pytest.TempPathFactory) -> list[tuple[str, str, list[list[str]]]]:
    """Two compilers at a time."""
    with ThreadPoolExecutor(2) as pool:
        results = pool.map(lambda job: _compile(*job, factory.mktemp("-".join(job))), JOBS)
        return [(*job, kernels) for job, kernels in zip(JOBS, results, strict=True)]


def _compile(name: str, arch: str, folder: Path) -> list[list[str]]:
    """The symbol of each kernel, what the assembler says it uses, and its code."""
    command = [
        "nvcc",
        "-O3",
        *TORCH_FLAGS,
        f"-arch={arch}",
        "-cubin",
        "--resource-usage",
        "--keep",
        "--keep-dir",
        folder,
    ]
    command += ["-I", cuda_extension.HERE, "-o", folder / "out.cubin", SOURCES[name]]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    usage = dict(re.findall(r"Compiling entry function '(\w+)'.*?\n(.*?Used[^\n]*)", done.stderr, re.DOTALL))
    ptx = dict(
        re.findall(r"\.entry (\w+)\((.*?)(?=\.entry|\Z)", (folder / f"{SOURCES[name].stem}.ptx").read_text(), re.DOTALL)
    )
    assert usage.keys() == ptx.keys()
    return [[symbol, usage[symbol], ptx[symbol]] for symbol in usage]


def _kernel(symbol: str, usage: str, ptx: str) -> Kernel:
    match = re.match(r"_ZN6kbench\d+([a-z_]+)I(f|\d+__\w+?)(?:Li(\d+)|E)", symbol)
    assert match, f"{symbol} is not a kernel of kbench"
    return Kernel(symbol, match[1], match[2], int(match[3]) if match[3] else None, usage, ptx)


def kernels_for(compiled: dict[tuple[str, str], list[Kernel]], arch: str) -> list[Kernel]:
    return [kernel for (_, target), kernels in compiled.items() if target == arch for kernel in kernels]


@pytest.mark.parametrize(("name", "arch"), JOBS)
def test_nothing_spills(compiled: dict[tuple[str, str], list[Kernel]], name: str, arch: str) -> None:
    clean = "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"
    spilling = [
        f"{kernel.symbol}: {kernel.usage.strip()}" for kernel in compiled[name, arch] if clean not in kernel.usage
    ]
    assert not spilling


def test_every_kernel_is_there_for_every_dtype(compiled: dict[tuple[str, str], list[Kernel]]) -> None:
    kernels = kernels_for(compiled, "sm_90")
    found = {(kernel.function, kernel.type, kernel.vector) for kernel in kernels}
    expected = {(function, type_, None) for function in LADDER for type_ in TYPES}
    for function in VECTORISED:
        expected |= {(function, type_, 16 // size) for type_, size in TYPES.items()}
        expected |= {(function, type_, 1) for type_ in TYPES}
    expected |= {("row_losses", type_, 16 // size) for type_, size in TYPES.items()}
    expected |= {("gelu_dense", type_, bytes_ // size) for type_, size in TYPES.items() for bytes_ in (8, 16)}
    assert found == expected


@pytest.mark.parametrize("name", ["rmsnorm", "add_rmsnorm", "layernorm"])
def test_norms_have_kernels_for_weights_in_float32(compiled: dict[tuple[str, str], list[Kernel]], name: str) -> None:
    """Beside matrices in 16 bits, and not more than for weights in the dtype of the matrices: they take time to compile."""
    counts = Counter(
        (kernel.type, "ILb1E" in kernel.symbol) for kernel in compiled[name, "sm_90"] if "orm" in kernel.symbol
    )
    half, bfloat16 = "6__half", "13__nv_bfloat16"
    assert counts["f", True] == 0
    assert 0 < counts[half, True] == counts[bfloat16, True] <= counts[half, False]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_vector_kernels_load_and_store_16_bytes(compiled: dict[tuple[str, str], list[Kernel]], arch: str) -> None:
    """Or 8, in gelu's kernel for few elements. The elements before the first and after the last access of a row, or of
    gelu's dense matrix, are single accesses: one to load and one to store a thread, or two where 8 threads share a row that
    can have 14 of them."""
    for kernel in kernels_for(compiled, arch):
        if kernel.vector in (None, 1) or (arch == "sm_80" and NEWER in kernel.symbol):
            continue
        loads = re.findall(r"ld\.global\S*", kernel.ptx)
        stores = re.findall(r"st\.global\S*", kernel.ptx)
        wide = ".v2." if kernel.vector * TYPES[kernel.type] == 8 else ".v4."
        narrow = [access for access in loads + stores if wide not in access]
        assert any(wide in access for access in loads), kernel.symbol
        if kernel.function != "row_losses":  # losses are stored one by one
            assert any(wide in access for access in stores), kernel.symbol
        edges = re.search(r"rows_in_registersI.*?Li(\d+)ELi\d+ELi(\d+)ELb1ELb", kernel.symbol)
        if edges and "7SoftmaxE" not in kernel.symbol:
            continue  # the weights of such rows are fetched in two accesses for each
        if re.search("Backward|CrossEntropy", kernel.symbol) or kernel.function == "row_losses":
            continue  # they read or write statistics of each row, too
        each = 1 if edges or kernel.function == "gelu_dense" else 0
        if edges and int(edges[2]) < 2 * (int(edges[1]) - 1):
            each = 2
        assert len(narrow) == 2 * each, (kernel.symbol, narrow)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_every_access_to_a_row_has_the_policy_of_the_call(
    compiled: dict[tuple[str, str], list[Kernel]], arch: str
) -> None:
    kernels = kernels_for(compiled, arch)
    rows = [kernel for kernel in kernels if kernel.function == "rows_in_registers" and (kernel.vector or 1) > 1]
    dense = [kernel for kernel in kernels if kernel.function == "gelu_dense" and ".v4." in kernel.ptx]
    assert rows
    assert dense
    for kernel in rows + dense:
        if arch == "sm_80" and NEWER in kernel.symbol:
            continue
        packs = re.search(r"rows_in_registersI.*?Li\d+ELi(\d+)E", kernel.symbol)
        loads = kernel.ptx.count("ld.global.nc.L2::cache_hint.v4.u32")
        assert loads, kernel.symbol
        assert loads % int(packs[1] if packs else 1) == 0, "as many for each input"


def test_the_source_in_the_docs_compiles(tmp_path: Path) -> None:
    source = tmp_path / "scaled_add.cu"
    source.write_text(documented_file("cuda.md", "scaled_add.cu"))
    _run(["nvcc", "-arch=sm_90", "-cubin", "-I", cuda_extension.HERE, "-o", tmp_path / "out.cubin", source])


def test_errors_of_nvcc_name_the_line(tmp_path: Path) -> None:
    """In a source and in a header of its own; as many as a screen holds."""
    (tmp_path / "mine.cuh").write_text("int twice(int x) { return 2 * y; }\n")
    lines = ['#include "device.cuh"', '#include "mine.cuh"', "__global__ void f(int* x) {", "  *x = missing;", "}"]
    (tmp_path / "mine.cu").write_text("\n".join([*lines, *(f"int a{i} = b{i};" for i in range(20))]))
    command = ["nvcc", "-arch=sm_90", "-cubin", "-I", str(cuda_extension.HERE), "-o", str(tmp_path / "mine.cubin")]
    done = subprocess.run([*command, str(tmp_path / "mine.cu")], capture_output=True, text=True)
    assert done.returncode != 0
    torch_says = RuntimeError(
        f"Error building extension 'mine': [1/2] nvcc ...\nFAILED: mine.o\n{done.stdout}{done.stderr}"
    )
    assert cuda_extension.describe_build_error(tmp_path / "mine.cu", torch_says).splitlines() == [
        'mine.cuh:1: error: identifier "y" is undefined (the first of 22 errors)',
        'mine.cu:4: error: identifier "missing" is undefined',
        'mine.cu:6: error: identifier "b0" is undefined',
        'mine.cu:7: error: identifier "b1" is undefined',
        'mine.cu:8: error: identifier "b2" is undefined',
    ]


def _run(command: list[object], cwd: Path | None = None) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout

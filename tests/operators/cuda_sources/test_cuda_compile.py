"""The CUDA sources, compiled where there is no device: they compile, keep everything in registers and use 16-byte accesses."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from common import ROOT, documented_file, made_once

from kbench.contract.origin import code_files, shipped
from kbench.kernels import cuda_extension
from kbench.results.stamps import digest
from kbench.why.code import dump_code

OPERATORS = ROOT / "kbench" / "operators"

SOURCES = {path.stem: path for name in shipped() for path in (OPERATORS / name).rglob("*.cu")}
SOURCES |= {f"example_{path.stem}": path for path in (ROOT / "examples").glob("*.cu")}
"""Every CUDA source of every operator and example, by its name."""

JOBS = [(name, "sm_90") for name in SOURCES]
JOBS += [("gelu", "sm_80")]
"""The kernels of the other sources are compiled for one architecture: for sm_80, those of softmax alone take 7 s of CPU."""

TYPES = {"f": 4, "6__half": 2, "13__nv_bfloat16": 2}
"""Mangled C++ types of the dtypes, and their bytes."""

LEFT_OUT = dict.fromkeys(("softmax", "gradients", "layernorm"), ("float16",))
LEFT_OUT |= dict.fromkeys(("rmsnorm", "add_rmsnorm"), ("float16", "float32"))
"""The dtypes without which the sources with the most kernels are compiled, which take a minute with all. Kernels for float16
are those for bfloat16 with other conversions; in float32, both norms have the forms of layernorm with less to hold."""

LADDER = ("softmax_naive", "softmax_online", "softmax_shared", "softmax_shuffle")
VECTORISED = ("rows_in_registers", "rows_read_twice", "gelu_rows", "add_rmsnorm_rows")

COMMAND = ["nvcc", "-cubin", "--resource-usage", "-O3", "-std=c++17", "-I", str(cuda_extension.HERE)]
COMMAND += [f"-D__CUDA_NO_{what}__" for what in ("HALF_OPERATORS", "HALF_CONVERSIONS", "BFLOAT16_CONVERSIONS")]
COMMAND += ["-D__CUDA_NO_HALF2_OPERATORS__"]
"""With what torch adds when it builds an extension; c++17 is the oldest standard of the torch versions we support."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),  # all sources take most of a minute on two idle cores, and more on busy ones
    pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH"),
]


@dataclass(frozen=True)
class Kernel:
    """One instantiation: what the assembler says it uses, and its loads and stores of global memory as PTX has them."""

    symbol: str
    usage: str
    accesses: list[str]

    @property
    def made_with(self) -> tuple[str, str, int | None]:
        """The name of the function, the type of the elements, and how many an access has."""
        match = re.match(r"_ZN6kbench\d+([a-z_]+)I(f|\d+__\w+?)(?:Li(\d+)|E)", self.symbol)
        assert match, f"{self.symbol} is not a kernel of kbench"
        return match[1], match[2], int(match[3]) if match[3] else None


@pytest.fixture(scope="module")
def compiled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str], list[Kernel]]:
    """The kernels of each source for each architecture. Two compilers at a time."""
    cache = request.config.cache.mkdir("cuda-kernels") if request.config.cache else tmp_path_factory.mktemp("kernels")

    def compile_all() -> str:
        with ThreadPoolExecutor(2) as pool:
            return json.dumps(list(pool.map(lambda job: compile_unless_kept(*job, cache), JOBS)))

    of_jobs = json.loads(made_once(tmp_path_factory, "cuda-kernels.json", compile_all))
    return {job: [Kernel(*kernel) for kernel in kernels] for job, kernels in zip(JOBS, of_jobs, strict=True)}


def compile_unless_kept(name: str, arch: str, cache: Path) -> list[list[Any]]:
    """The kernels of a source. pytest keeps them from one run to the next: the same nvcc makes the same of the same files."""
    texts = [path.read_text() for path in code_files([SOURCES[name]])]
    command = [*COMMAND, *LEFT_OUT.get(name, ()), str(cuda_extension.nvcc_release())]
    kept = cache / f"{name}-{arch}-{digest([*texts, *command])}.json"
    if not kept.exists():
        for former in cache.glob(f"{name}-{arch}-*.json"):
            former.unlink(missing_ok=True)
        kept.write_text(json.dumps(compile_source(name, arch)))
    kernels: list[list[Any]] = json.loads(kept.read_text())
    return kernels


def compile_source(name: str, arch: str) -> list[list[Any]]:
    with TemporaryDirectory() as folder:
        target = [f"-arch={arch}", "--keep", "--keep-dir", folder, "-o", f"{folder}/out.cubin", str(SOURCES[name])]
        header = (cuda_extension.HERE / "device.cuh").read_text()
        for dtype in LEFT_OUT.get(name, ()):
            header, found = re.subn(rf"case Dtype::{dtype}:\n *return function\(\w+{{}}\);\n", "", header)
            assert found == 1
        Path(folder, "device.cuh").write_text(header)
        first = [COMMAND[0], "-I", folder, *COMMAND[1:]]
        done = subprocess.run([*first, *target], capture_output=True, text=True, cwd=folder)
        assert done.returncode == 0, done.stdout + done.stderr
        ptx = (Path(folder) / f"{SOURCES[name].stem}.ptx").read_text()
    usage = dict(re.findall(r"Compiling entry function '(\w+)'.*?\n(.*?Used[^\n]*)", done.stderr, re.DOTALL))
    code = dict(re.findall(r"\.entry (\w+)\((.*?)(?=\.entry|\Z)", ptx, re.DOTALL))
    assert usage.keys() == code.keys()
    return [[symbol, usage[symbol], re.findall(r"(?:ld|st)\.global\S*", code[symbol])] for symbol in usage]


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
    without_float16 = {type_: size for type_, size in TYPES.items() if type_ != "6__half"}
    expected = {(function, type_, None) for function in LADDER for type_ in without_float16}
    for function in VECTORISED:
        types = without_float16 if function in ("rows_read_twice", "rows_in_registers") else TYPES
        expected |= {(function, type_, width) for type_, size in types.items() for width in (1, 16 // size)}
    expected |= {("row_losses", type_, 16 // size) for type_, size in TYPES.items()}
    expected |= {("gelu_dense", type_, bytes_ // size) for type_, size in TYPES.items() for bytes_ in (8, 16)}
    assert {kernel.made_with for kernel in kernels_for(compiled, "sm_90")} == expected


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_vector_kernels_load_and_store_16_bytes(compiled: dict[tuple[str, str], list[Kernel]], arch: str) -> None:
    """Or 8, in gelu's kernel for few elements. The elements before the first and after the last access of a row, or of
    gelu's dense matrix, are single accesses: one to load and one to store a thread, or two where 8 threads share a row that
    can have 14 of them."""
    for kernel in kernels_for(compiled, arch):
        function, type_, vector = kernel.made_with
        if vector in (None, 1):
            continue
        wide = ".v2." if vector * TYPES[type_] == 8 else ".v4."
        narrow = [access for access in kernel.accesses if wide not in access]
        assert any(access.startswith("ld") and wide in access for access in kernel.accesses), kernel.symbol
        if function != "row_losses":  # losses are stored one by one
            assert any(access.startswith("st") and wide in access for access in kernel.accesses), kernel.symbol
        edges = re.search(r"rows_in_registersI.*?Li(\d+)ELi\d+ELi(\d+)ELb1ELb", kernel.symbol)
        if edges and "7SoftmaxE" not in kernel.symbol:
            continue  # the weights of such rows are fetched in two accesses for each
        if re.search("Backward|CrossEntropy", kernel.symbol) or function == "row_losses":
            continue  # they read or write statistics of each row, too
        single = 1 if edges or function == "gelu_dense" else 0
        if edges and int(edges[2]) < 2 * (int(edges[1]) - 1):
            single = 2
        assert len(narrow) == 2 * single, (kernel.symbol, narrow)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_every_access_to_a_row_has_the_policy_of_the_call(
    compiled: dict[tuple[str, str], list[Kernel]], arch: str
) -> None:
    judged = 0
    for kernel in kernels_for(compiled, arch):
        function, type_, vector = kernel.made_with
        dense = function == "gelu_dense" and vector and vector * TYPES[type_] == 16
        if dense or (function == "rows_in_registers" and vector != 1):
            packs = re.search(r"rows_in_registersI.*?Li\d+ELi(\d+)E", kernel.symbol)
            loads = kernel.accesses.count("ld.global.nc.L2::cache_hint.v4.u32")
            assert loads, kernel.symbol
            assert loads % int(packs[1] if packs else 1) == 0, "as many for each input"
            judged += 1
    assert judged


POLICIES = """
#include "device.cuh"
__global__ void made(unsigned long long* to) {
  asm("createpolicy.fractional.L2::%s.b64 %%0, 1.0;" : "=l"(*to));
}
__global__ void ours(kbench::LoadPolicy* to) { *to = kbench::LoadPolicy::%s; }
"""


@pytest.mark.parametrize(("priority", "policy"), [("evict_normal", "usual"), ("evict_last", "keep")])
def test_a_policy_of_loads_is_the_word_that_the_instruction_makes(tmp_path: Path, priority: str, policy: str) -> None:
    """On sm_80, where the assembler computes the word. On sm_90 it is computed in the kernel, in several instructions."""
    source, binary = tmp_path / "policy.cu", tmp_path / "policy.cubin"
    source.write_text(POLICIES % (priority, policy))
    subprocess.run([*COMMAND, "-arch=sm_80", "-o", str(binary), str(source)], check=True, timeout=120)
    made, ours = (
        {word for word in re.findall(r"0x[0-9a-f]+(?= ;)", part) if int(word, 16) > 0xFFFF}
        for part in re.split("Function : ", dump_code(["-sass"], binary))[1:]
    )
    assert len(made) == 1
    assert made == ours


def test_the_source_in_the_docs_compiles(tmp_path: Path) -> None:
    source = tmp_path / "scaled_add.cu"
    source.write_text(documented_file("cuda.md", "scaled_add.cu"))
    subprocess.run([*COMMAND, "-arch=sm_90", "-o", str(tmp_path / "out.cubin"), str(source)], check=True)


def test_errors_of_nvcc_name_the_line(tmp_path: Path) -> None:
    """In a source and in a header of its own; as many as a screen holds."""
    (tmp_path / "mine.cuh").write_text("int twice(int x) { return 2 * y; }\n")
    lines = ['#include "device.cuh"', '#include "mine.cuh"', "__global__ void f(int* x) {", "  *x = missing;", "}"]
    (tmp_path / "mine.cu").write_text("\n".join([*lines, *(f"int a{i} = b{i};" for i in range(20))]))
    command = [*COMMAND, "-arch=sm_90", "-o", str(tmp_path / "mine.cubin"), str(tmp_path / "mine.cu")]
    done = subprocess.run(command, capture_output=True, text=True)
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

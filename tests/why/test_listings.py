"""`kbench why --code` on kernels that Triton and nvcc have compiled for sm_90. No device is needed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from common import run_kbench
from making import write_rows
from why.test_why import H200, NAME, timed

from kbench.execute.writer import KernelsWriter
from kbench.launches.launched_call import Kernel, KernelLaunch, LaunchedCall
from kbench.launches.machine_code import code_digest
from kbench.protocol import CallRecorded
from kbench.why import listing
from kbench.why.listing import find_cuobjdump

pytest.importorskip("triton")

if not find_cuobjdump():
    pytest.skip("cuobjdump is not installed", allow_module_level=True)

COMPILE = """
import sys, triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

@triton.jit
def scaled(x, y, n, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(y + at, tl.exp(value) if WIDE else value, mask=at < n)

for wide in (0, 1):
    kinds = {"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr", "WIDE": "constexpr"}
    triton.compile(ASTSource(scaled, kinds, {(3,): 512, (4,): wide}), target=GPUTarget("cuda", 90, 32))
"""


@pytest.fixture(scope="module")
def cubins(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Triton's cached files of two versions of a kernel: one copies, the other computes exp."""
    folder = tmp_path_factory.mktemp("triton")
    (folder / "program.py").write_text(COMPILE)
    variables = {**os.environ, "TRITON_CACHE_DIR": str(folder / "cache"), "TRITON_INTERPRET": "0"}
    subprocess.run([sys.executable, "program.py"], cwd=folder, env=variables, check=True, timeout=120)
    found = sorted(
        (folder / "cache").glob("*/scaled.cubin"), key=lambda path: "ex2" in path.with_suffix(".ptx").read_text()
    )
    assert len(found) == 2
    return found


def kernel(code: str, symbol: str = "scaled", origin: str = "machine code") -> Kernel:
    return Kernel(symbol, symbol, 32, 0, 0, code, origin)


def call(*kernels: Kernel) -> LaunchedCall:
    return LaunchedCall(tuple(KernelLaunch(one, (8, 1, 1), (128, 1, 1), 0, 16) for one in kernels))


def digests(cubins: list[Path]) -> list[str]:
    return [code_digest(path.read_bytes()) for path in cubins]


Why = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def why(tmp_path: Path, cubins: list[Path]) -> Why:
    """`kbench why` on two rows, whose kernels are the two versions."""
    calls = [call(kernel(code)) for code in digests(cubins)]
    path = write_rows(
        tmp_path / "r.csv", [timed(one, provider=name) for one, name in zip(calls, ("copies", "exp"), strict=True)]
    )
    sent = [
        CallRecorded(one, H200, {one.launches[0].kernel.code: str(cubin)})
        for one, cubin in zip(calls, cubins, strict=True)
    ]
    KernelsWriter(path, keep=False).write(sent, NAME)
    return lambda *words: run_kbench(["why", "r.csv", "--row", "provider=copies", *words], tmp_path)


def test_a_row_without_launches_has_no_code(tmp_path: Path) -> None:
    write_rows(tmp_path / "r.csv", [timed(None, provider="copies")])
    ended = run_kbench(["why", "r.csv", "--row", "provider=copies", "--code", "sass"], tmp_path)
    assert ended.returncode == 3 and "not known which kernels a call launches" in ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("language", "added"), [("sass", "MUFU.EX2"), ("ptx", "ex2.approx.f32")])
def test_the_difference_between_two_rows(why: Why, language: str, added: str) -> None:
    ended = why("--code", language, "--versus", "exp")
    assert ended.returncode == 0, ended.stderr
    cells = [line.split() for line in ended.stdout.splitlines()]
    assert ["instruction", "copies", "exp"] in cells
    assert [added, "0", "4"] in cells
    lines = ended.stdout.splitlines()
    assert sum(line.startswith("+ ") and added in line for line in lines) == 4
    assert not any(line.startswith("- ") and added in line for line in lines)
    same = why("--code", language, "--versus", "copies")
    assert "The code is the same." in same.stdout and "\n+ " not in same.stdout


def test_without_the_tool_it_says_how_to_get_it(why: Why, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "find_cuobjdump", lambda: None)
    ended = why("--code", "sass")
    assert ended.returncode == 3 and "are not installed; pip install triton" in " ".join(ended.stderr.split())
    assert why("--code", "ptx").returncode == 0, "Triton keeps the PTX as text"

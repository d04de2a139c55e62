"""The machine code of kernels: its digest, and the file that it comes from."""

from __future__ import annotations

import struct
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from triton.runtime.cache import get_cache_manager

from kbench.launches.launched_call import MACHINE_CODE
from kbench.launches.machine_code import code_digest
from kbench.measure.launches import machine_code
from kbench.measure.launches.machine_code import MachineCode, TritonKernels


def elf(**contents: bytes) -> bytes:
    """A 64-bit ELF file with these sections; two underscores in a name stand for a dot."""
    names, body, headers, place = b"\0", b"", [(0, 0, 0, 0, 0, 0)], 64
    for name, content in contents.items():
        headers.append((len(names), 1, 0, 0, place + len(body), len(content)))
        names += name.replace("__", ".").encode() + b"\0"
        body += content
    headers.append((0, 3, 0, 0, place + len(body), len(names)))
    start, count = place + len(body) + len(names), len(headers)
    head = struct.pack(
        "<4sBB10xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 2, 190, 1, 0, 0, start, 0, 64, 0, 0, 64, count, count - 1
    )
    return head + body + names + b"".join(struct.pack("<IIQQQQ16x8x", *each) for each in headers)


def test_the_digest_changes_with_the_machine_code_and_not_with_a_comment() -> None:
    before = code_digest(elf(__text__k=b"add", __debug_line=b"kernel.py:3", __nv__constant0__k=b"1"))
    assert before == code_digest(elf(__debug_line=b"kernel.py:4", __nv__constant0__k=b"1", __text__k=b"add"))
    assert before != code_digest(elf(__text__k=b"sub", __debug_line=b"kernel.py:3", __nv__constant0__k=b"1"))
    assert before != code_digest(elf(__text__k=b"add", __debug_line=b"kernel.py:3", __nv__constant0__k=b"2"))


def test_a_kernel_of_triton_is_known_by_the_file_that_triton_has_loaded(tmp_path: Path) -> None:
    cubin = tmp_path / "k.cubin"
    cubin.write_bytes(elf(__text__k=b"add"))
    kernels = TritonKernels()
    kernels._note(None, 77, "k", {"k.json": "x", "k.cubin": str(cubin)}, "hash")
    code = MachineCode(kernels)
    assert code.of(77, "k") == (code_digest(cubin.read_bytes()), MACHINE_CODE)
    assert code.of(77, "another")[1].startswith("name and torch "), "the driver has given the handle to another kernel"
    cubin.unlink()
    digest, origin = code.of(77, "k")
    assert digest and origin == "source code, as Triton compiles it"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module that torch's compiler writes for a function with one kernel, of which it has tried two versions."""
    import torch._inductor.codecache as codecache

    versions = [SimpleNamespace(kernel=SimpleNamespace(function=n, hash=str(n) * 32)) for n in (82, 83)]
    module = ModuleType("compiled")
    module.triton_three = SimpleNamespace(compile_results=versions)  # type: ignore[attr-defined]
    monkeypatch.setattr(codecache.PyCodeCache, "modules", [module, ModuleType("another")])
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)


@pytest.mark.parametrize("process", ["compiled it", "found it on the disk"])
def test_a_kernel_of_torchs_compiler_has_the_same_code_whoever_compiled_it(
    process: str, compiled: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch tells Triton its folder only when it compiles. Another digest in the next run would be a change of the code."""
    folder = tmp_path / "torch" / "triton" / "0"
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "torch"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(folder))
    saved = get_cache_manager("83" * 32).put(elf(__text__three=b"mul"), "triton_three.cubin")
    assert Path(saved).is_relative_to(folder)
    if process != "compiled it":
        monkeypatch.delenv("TRITON_CACHE_DIR")
        monkeypatch.setenv("TRITON_HOME", str(tmp_path / "home"))
    code = MachineCode(TritonKernels())
    assert code.of(83, "triton_three") == (code_digest(Path(saved).read_bytes()), MACHINE_CODE)
    assert list(code.files.values()) == [saved]
    assert code.of(84, "triton_three")[1].startswith("name and torch "), "a version that nobody has loaded"
    assert code.of(83, "triton_two")[1].startswith("name and torch ")
    Path(saved).unlink()
    assert code.of(83, "triton_three")[1].startswith("source code")


def test_a_kernel_of_an_extension_is_known_by_the_code_in_its_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = tmp_path / "mine.so", tmp_path / "other.so"
    mine.write_bytes(elf(__nv_fatbin=b"machine code", __rodata=b"\x07_Z4rowsPf\0many_rows\0"))
    other.write_bytes(elf(__text=b"_Z4rowsPf host code only"))
    monkeypatch.setattr(machine_code, "_libraries", lambda: [str(other), str(mine), str(tmp_path / "gone.so")])
    code = MachineCode(TritonKernels())
    assert code.of(1, "_Z4rowsPf") == (code_digest(mine.read_bytes()), "machine code in mine.so")
    assert code.of(1, "rows")[1].startswith("name and"), "it is the end of a longer name there"
    assert code.of(1, "_Z4rows")[1].startswith("name and"), "it is the beginning of a longer name there"
    assert (
        MachineCode(TritonKernels(), ["no_such_module"]).of(1, "_Z5otherPf")[1] == f"name and torch {torch.__version__}"
    )

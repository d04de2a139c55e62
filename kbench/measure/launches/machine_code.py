"""A digest of a kernel's machine code, or of what stands for it where the code cannot be had.

Triton tells kbench the file of each kernel that it loads. An extension in C++ contains the kernels that it launches. Those of
torch and of other libraries are known by their name and the versions of the packages.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from kbench.contract.provider import REQUIREMENTS
from kbench.launches.launched_call import BY_NAME, MACHINE_CODE
from kbench.launches.machine_code import code_digest, elf_table
from kbench.results.stamps import digest

DEVICE_CODE = ".nv_fatbin"
"""The section of a library that nvcc makes."""

LIBRARY_BYTES = 64 << 20
"""Longer libraries are not searched for kernels."""

MAPS = Path("/proc/self/maps")
"""Names the libraries of this process."""

_NAME_CHARACTER = re.compile(rb"[\w$.]")

Loaded = tuple[str, str, str]
"""The name of a kernel that Triton has loaded, the path of its machine code, and Triton's own hash of its source."""


class TritonKernels:
    """The kernels that Triton has loaded since `watch`, by the driver's handle."""

    def __init__(self) -> None:
        self._loaded: dict[int, Loaded] = {}

    def watch(self) -> None:
        """Have Triton, if it is installed, report each kernel that it loads. Launches take no longer."""
        try:
            from triton import knobs
        except ImportError:
            return
        chain: Any = knobs.runtime.kernel_load_end_hook
        if hasattr(chain, "add"):
            chain.add(self._note)
        elif chain is None:  # Triton 3.4 has room for one function
            knobs.runtime.kernel_load_end_hook = self._note

    def _note(self, module: Any, function: Any, name: str, metadata_group: dict[str, str], hash: str) -> None:
        """The hook. Triton passes its arguments by position."""
        path = next((path for file, path in metadata_group.items() if file.endswith(".cubin")), "")
        self._loaded[int(function)] = name, str(path), str(hash)

    def find(self, function: int, symbol: str) -> Loaded | None:
        """The kernel with this handle and this name, if Triton or torch's compiler has loaded it."""
        loaded = self._loaded.get(function)
        return loaded if loaded and loaded[0] == symbol else _compiled(function, symbol)


def _compiled(function: int, symbol: str) -> Loaded | None:
    """The kernel with this handle and this name, if torch's compiler has loaded it without Triton. The modules that
    the compiler writes have their kernels as variables, with the versions of each that it has compiled."""
    compiler = sys.modules.get("torch._inductor.codecache")
    cache = getattr(compiler, "PyCodeCache", None)
    for module in reversed(getattr(cache, "modules", ())):
        for result in getattr(vars(module).get(symbol), "compile_results", ()):
            kernel = getattr(result, "kernel", None)
            if kernel is not None and getattr(kernel, "function", None) == function:
                key = str(kernel.hash)
                return symbol, _cached_cubin(symbol, key), key
    return None


def _cached_cubin(name: str, key: str) -> str:
    """The file of a kernel in Triton's cache, or in the one of torch's compiler; empty if neither has it.

    torch's compiler stores what Triton compiles in a folder of its own. It tells Triton the folder when it compiles a kernel,
    but not when it finds a kernel that an earlier process has compiled.
    """
    from triton.runtime.cache import get_cache_manager

    try:
        manager = get_cache_manager(key)
        if file := manager.get_file(f"{name}.cubin"):
            return str(file)
        from torch._inductor.runtime.cache_dir_utils import triton_cache_dir

        cubin = Path(triton_cache_dir(torch.cuda.current_device()), Path(manager.cache_dir).name, f"{name}.cubin")
        return str(cubin) if cubin.is_file() else ""
    except (ImportError, AttributeError, OSError, ValueError, RuntimeError):
        return ""


class MachineCode:
    """Finds the machine code of the kernels of a call. `packages` are modules that the provider needs beside torch. `files` are
    the files with the machine code that it has found, by digest."""

    def __init__(self, triton: TritonKernels, packages: Sequence[str] = ()) -> None:
        self._triton, self._packages = triton, packages
        self.files: dict[str, str] = {}

    def of(self, function: int, symbol: str) -> tuple[str, str]:
        """A digest, and what it is of: see `Kernel.code` and `Kernel.origin`."""
        if loaded := self._triton.find(function, symbol):
            _, path, key = loaded
            code = code_digest(Path(path).read_bytes()) if Path(path).is_file() else ""
            if not code:
                return digest(key), "source code, as Triton compiles it"
            self.files[code] = path
            return code, MACHINE_CODE
        if symbol and (library := _search(symbol, tuple(_libraries()))):
            path, code = library
            self.files[code] = path
            return code, f"machine code in {Path(path).name}"
        versions = _versions(tuple(self._packages))
        return digest([symbol, versions]), f"{BY_NAME}{versions}"


@cache
def _search(symbol: str, libraries: tuple[str, ...]) -> tuple[str, str] | None:
    """The first of these libraries that contains a kernel, and the digest of its code."""
    for path in libraries:
        data, code = _device_code(path)
        if _contains(data, symbol.encode() + b"\0"):
            return path, code
    return None


def _contains(data: bytes, name: bytes) -> bool:
    """Whether a name is in the data, and not only as the end of a longer name. Libraries have megabytes, and a regular
    expression needs a hundred times as long for them as `find`."""
    start = data.find(name)
    while start > 0 and _NAME_CHARACTER.match(data, start - 1):
        start = data.find(name, start + 1)
    return start >= 0


def _libraries() -> list[str]:
    """The shared libraries of this process that are not of the system, torch or NVIDIA."""
    try:
        maps = MAPS.read_text(errors="replace")
    except OSError:
        return []
    paths = dict.fromkeys(re.findall(r"(/.*\.so(?:\.\d+)*)$", maps, re.MULTILINE))
    torch = str(Path(sys.modules["torch"].__file__ or "").parent) if "torch" in sys.modules else "/torch/"
    return [path for path in paths if not path.startswith(("/usr/lib", "/lib", torch)) and "/nvidia/" not in path]


@cache
def _device_code(path: str) -> tuple[bytes, str]:
    """The content of a library and the digest of its code for devices; nothing for a library without such code. Of most of the
    hundreds of libraries that a process may have loaded, this reads only the tables."""
    try:
        with Path(path).open("rb") as file:
            handle = file.fileno()
            sections = elf_table(lambda start, size: os.pread(handle, size, start))
            if os.fstat(handle).st_size > LIBRARY_BYTES or not any(name == DEVICE_CODE for name, _, _ in sections):
                return b"", ""
            data = file.read()
    except OSError:  # it is gone
        return b"", ""
    return data, code_digest(data)


@cache
def _versions(packages: tuple[str, ...]) -> str:
    """The versions of torch and of the packages of these modules: `torch 2.11.0, quack-kernels 0.6.5`."""
    versions = []
    for module in dict.fromkeys(["torch", *packages]):
        top = module.partition(".")[0]
        name = REQUIREMENTS.get(top, top).partition(">")[0]
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return ", ".join(versions)

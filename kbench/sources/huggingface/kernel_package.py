"""The package kernels, which may not be installed: its base class of benchmarks, and the kernel of a folder."""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from kbench.contract.provider import missing


class Benchmark:
    """Stands for `kernels.benchmark.Benchmark` where the package is missing."""

    seed: int | None = None
    device = "cpu"

    def __init__(self) -> None:
        self.kernel: Any = None
        self.out: Any = None

    def setup(self) -> None:
        """What a benchmark without a setup of its own has."""


class NeedsKernel(Exception):
    """The setup or the reference of a benchmark calls the kernel."""


class NoKernel:
    """Stands for the kernel while kbench reads the inputs and the reference."""

    def __getattr__(self, name: str) -> Any:
        raise NeedsKernel(
            f"its setup or its reference calls the kernel ({name}), so kbench has no independent result to check the kernel "
            "against"
        )


@contextmanager
def base_class() -> Iterator[type]:
    """The base class of benchmarks. Inside, a benchmark can import it also where the package is missing."""
    if importlib.util.find_spec("kernels") is not None:
        yield importlib.import_module("kernels.benchmark").Benchmark
        return
    package, module = ModuleType("kernels"), ModuleType("kernels.benchmark")
    package.__path__, package.benchmark, module.Benchmark = [], module, Benchmark  # type: ignore[attr-defined]
    sys.modules |= {"kernels": package, "kernels.benchmark": module}
    try:
        yield Benchmark
    finally:
        del sys.modules["kernels"], sys.modules["kernels.benchmark"]


def kernel_folder(file: Path) -> Path | None:
    """The folder of the kernel that a benchmark belongs to; None if it is not in such a folder."""
    folder = file.absolute().parent
    return folder.parent if folder.name == "benchmarks" and (folder.parent / "build.toml").is_file() else None


def unavailable(file: Path) -> str | None:
    """Why the kernel of a benchmark cannot be called, None if it can."""
    if importlib.util.find_spec("kernels") is None:
        return missing("kernels")
    if kernel_folder(file) is None:
        return "the file is not in a folder benchmarks/ that lies beside a kernel's build.toml; move it there"
    return None


@functools.lru_cache
def load_kernel(folder: Path) -> Any:
    """The kernel of a folder, as it was built for this machine. Raises whatever kernels raises."""
    return importlib.import_module("kernels").get_local_kernel(folder)

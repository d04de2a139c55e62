"""`source_hash` changes with the code that was measured, and with no other."""

from __future__ import annotations

import inspect
from pathlib import Path

from kbench.contract import registry
from kbench.contract.origin import code_files, shipped
from kbench.kernels import cuda_extension

KERNELS = cuda_extension.HERE


def files_of(operator: str, provider: str) -> set[str]:
    """The files that the hash covers: `norms/forward.py`, and `rmsnorm.cu` for those of the operator."""
    chosen = registry.operator(operator).providers[provider]
    files = code_files([Path(inspect.unwrap(chosen.function).__code__.co_filename), *chosen.sources])
    return {file.relative_to(KERNELS).as_posix() if file.is_relative_to(KERNELS) else file.name for file in files}


def test_it_covers_kernels_that_a_provider_imports_when_it_is_called() -> None:
    """Also by the name that a dispatch has for them, and through other kernels."""
    norm = files_of("rmsnorm", "triton")
    assert {"providers_kernels.py", "norms/launch.py", "triton_launch.py", "triton_rows.py"} < norm
    assert {f"norms/{path.name}" for path in (KERNELS / "norms").glob("*.py")} - {"norms/__init__.py"} < norm
    assert {"providers_triton.py", "triton_kernels.py", "triton_rows.py"} < files_of("softmax", "triton")
    assert "torch_fused.py" in files_of("softmax", "torch-compile")


def test_it_covers_the_cuda_sources_that_a_file_names_and_what_they_include() -> None:
    for operator in shipped():
        for name in registry.operator(operator).providers:
            if name.startswith("cuda"):
                files = files_of(operator, name)
                assert {"cuda_source.py", "binding.cpp", "kernel.h", "device.cuh"} < files, (operator, name)
    assert {"softmax.cu", "ladder.cuh", "rows/registers.cuh"} < files_of("softmax", "cuda")
    assert {"rmsnorm.cu", "rows/norms.cuh"} < files_of("rmsnorm", "cuda")


def test_it_covers_no_code_that_a_provider_does_not_run() -> None:
    assert files_of("gelu", "cuda") == {
        "providers_cuda.py", "gelu.cu", "device.cuh", "kernel.h", "binding.cpp", "cuda_source.py", "cuda_extension.py",
        "matrices.py",
    }  # fmt: skip
    elementwise = {"providers_triton.py", "triton_kernels.py", "triton_launch.py", "matrices.py"}
    assert files_of("gelu", "triton") == elementwise
    assert "torch_fused.py" not in files_of("softmax", "cuda") | files_of("cross_entropy", "cuda")
    for operator in shipped():
        for name in registry.operator(operator).providers:
            assert not files_of(operator, name) & {"__init__.py", "provider.py"}, (operator, name)

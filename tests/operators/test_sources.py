"""`source_hash` changes with the code that was measured, and with no other."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

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
    assert {"providers_triton.py", "norms/launch.py", "triton_launch.py", "triton_rows.py"} < norm
    assert {f"norms/{path.name}" for path in (KERNELS / "norms").glob("*.py")} - {"norms/__init__.py"} < norm
    assert {"triton_launches.py", "triton_kernels.py", "triton_rows.py"} < files_of("softmax", "triton")
    assert "torch_fused.py" in files_of("softmax", "torch-compile")


def test_it_covers_the_cuda_sources_that_a_file_names_and_what_they_include() -> None:
    for operator in shipped():
        for name in registry.operator(operator).providers:
            if name.startswith("cuda"):
                files = files_of(operator, name)
                assert {"cuda_source.py", "binding.cpp", "kernel.h", "device.cuh"} < files, (operator, name)
    assert {"softmax.cu", "ladder.cuh", "rows/registers.cuh"} < files_of("softmax", "cuda")
    assert {"rmsnorm.cu", "rows/columns.cuh"} < files_of("rmsnorm", "cuda")


def test_it_covers_no_code_that_a_provider_does_not_run() -> None:
    assert files_of("gelu", "cuda") == {
        "providers_cuda.py", "gelu.cu", "device.cuh", "kernel.h", "binding.cpp", "cuda_source.py", "cuda_extension.py",
        "whole_rows.py",
    }  # fmt: skip
    elementwise = {"providers_triton.py", "triton_kernels.py", "triton_launch.py", "whole_rows.py"}
    assert files_of("gelu", "triton") == files_of("swiglu", "triton") == elementwise
    assert "torch_fused.py" not in files_of("softmax", "cuda") | files_of("cross_entropy", "cuda")
    for operator in shipped():
        for name in registry.operator(operator).providers:
            assert not files_of(operator, name) & {"__init__.py", "operator.py", "provider.py"}, (operator, name)


def test_a_plug_in_has_its_own_file_its_sources_and_the_cuda_files_that_it_names(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text('import helper\nfrom kbench.kernels import torch_fused\nSOURCE = "sub/mine.cu"\n')
    (tmp_path / "helper.py").write_text("")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "mine.cu").write_text('#include "mine.cuh"\n#include <vector>\n')
    (tmp_path / "sub" / "mine.cuh").write_text('#include "mine.cuh"\n')
    (tmp_path / "table.json").write_text("{}")
    files = code_files([tmp_path / "mine.py", tmp_path / "table.json"])
    own = [file.relative_to(tmp_path).as_posix() for file in files if file.is_relative_to(tmp_path)]
    assert own == ["mine.py", "table.json", "sub/mine.cu", "sub/mine.cuh"]
    assert [file for file in files if not file.is_relative_to(tmp_path)] == [KERNELS / "torch_fused.py"]


@pytest.mark.parametrize("operator", shipped())
def test_no_provider_of_kbench_lists_its_files(operator: str) -> None:
    assert not any(provider.sources for provider in registry.operator(operator).providers.values())

"""A CUDA source with an error, where there is a GPU to build it for. `test_cuda_source.py` has what else is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import kbench

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(bool(kbench.CudaSource.missing_tools()), reason="CUDA sources cannot be built"),
]


def test_a_source_with_an_error_is_compiled_once_and_names_the_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "cache"))
    (tmp_path / "mine.cu").write_text('#include "device.cuh"\n\nint broken = missing;\n')
    broken = kbench.CudaSource(tmp_path / "mine.cu")
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r'^mine\.cu:3: error: identifier "missing" is undefined$'):
            broken.kernel("mine")
    assert capsys.readouterr().err.count("building CUDA extension mine") == 1
    (tmp_path / "other.cu").write_text('#include "device.cuh"\n')
    with pytest.raises(RuntimeError, match=r"^other\.cu does not define the table `kernels` in the namespace kbench$"):
        kbench.CudaSource(tmp_path / "other.cu").kernel("mine")

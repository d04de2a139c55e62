"""The CUDA kernel of the examples, on a GPU: three inputs, two outputs, in place and into a buffer. `test_cuda_source.py` has
what is refused."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest
import torch
from common import ROOT
from judged_outputs import judged

import kbench
from kbench.contract.registry import operator
from kbench.plugins import load_plugins

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(bool(kbench.CudaSource.missing_tools()), reason="CUDA sources cannot be built"),
]

SHAPES = [(1, 1), (5, 1), (3, 7), (1, 8), (4, 64), (65, 257), (7, 4096), (4097, 311), (2, 16385), (1, 100_003)]
PADDED = [(0, 0), (1, 0), (1, 1), (8, 0), (8, 8), (8, 3)]
"""Elements between two rows, and before the first."""


@pytest.mark.parametrize(
    ("provider", "dtype"),
    [("cuda-row", torch.float32), ("cuda-row-in-place", torch.float16), ("cuda-row-out", torch.bfloat16)],
)
def test_rows_of_every_length_that_begin_anywhere_are_right(provider: str, dtype: torch.dtype) -> None:
    add_rmsnorm = operator("add_rmsnorm")
    with mock.patch.dict(add_rmsnorm.providers):
        assert load_plugins([str(ROOT / "examples" / "add_rmsnorm_cuda.py")]) == []
        for M, N in SHAPES:
            case = add_rmsnorm.case(str(dtype).removeprefix("torch."), M=M, N=N)
            for padding, first in PADDED:
                wide = [torch.randn(rows, N + padding, device="cuda").to(dtype) for rows in (M, M, 1)]
                x, residual, weight = (each[:, first : first + N] for each in wide)
                assert judged(case, provider, [x, residual, weight[0]]) is None, (case.label, padding, first)
                assert judged(case, provider, [x, residual.clone(), weight[0].clone()]) is None, (case.label, first)


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

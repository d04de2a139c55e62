"""Tensors that pass from one worker to another keep their values, strides and alignment."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from kbench.measure.correctness.check import fill
from kbench.measure.other_worker import SharedMemory, at, lay_out, opened, read_tensors

ROW = torch.arange(40.0)


@pytest.mark.parametrize(
    "x",
    [
        ROW.view(5, 8),
        ROW.view(5, 8).t(),
        ROW.as_strided((4, 3), (9, 1), 1),
        ROW[:8].expand(5, 8),
        ROW[:0].view(0, 8),
        ROW[3],
        torch.tensor([True, False]),
        ROW.to(torch.bfloat16),
        ROW.to(torch.float8_e4m3fn),
        torch.tensor([float("nan"), -0.0]),
    ],
    ids=lambda x: f"{x.dtype} {tuple(x.shape)} {x.stride()}",
)
def test_a_tensor_arrives_as_it_was(x: Tensor, tmp_path: Path) -> None:
    places, size = lay_out([ROW, x])
    memory = SharedMemory(size, x.device, str(tmp_path))
    fill([at(memory.data, places[1])], [x])
    assert at(memory.data, places[1]).untyped_storage().nbytes() <= x.nbytes
    words = memory.words()
    zeros, read = read_tensors(opened(words), places, x.device)
    assert (read.shape, read.stride(), read.dtype, read.storage_offset()) == (
        x.shape,
        x.stride(),
        x.dtype,
        x.storage_offset(),
    )
    integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[x.element_size()]
    assert torch.equal(read.view(integers), x.view(integers)) and not zeros.any()
    assert (
        SharedMemory(size, x.device, str(tmp_path)).words() != words
    )  # the other worker opens it once for the same words

"""Tensors that one worker passes to another, one after another in a file.

Only bytes come from the other worker. Nothing that it writes is run, and their dtypes and shapes are known before."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from kbench.measure.correctness.check import once
from kbench.measure.correctness.memory import STEP_BYTES, spanned_elements
from kbench.protocol import PassedTensor

INPUTS, OUTPUTS = "inputs", "outputs"
"""The files of a folder."""


def write_tensors(file: Path, tensors: Sequence[Tensor]) -> tuple[PassedTensor, ...]:
    """Write the elements of each tensor, without what lies between them: rows may be gigabytes apart."""
    passed = []
    with file.open("wb") as target:
        for x in tensors:
            x.detach()[once(x)].reshape(-1).cpu().view(torch.uint8).numpy().tofile(target)
            offset = int(x.storage_offset()) % (STEP_BYTES // x.element_size())
            passed.append(PassedTensor(str(x.dtype).removeprefix("torch."), tuple(x.shape), x.stride(), offset))
    return tuple(passed)


def read_tensors(file: Path, passed: Sequence[PassedTensor], device: torch.device) -> list[Tensor]:
    """The tensors in new memory, with the strides and the alignment that they had. Raises EOFError if the file ends before
    them."""
    tensors = []
    with file.open("rb") as source:
        for layout in passed:
            dtype = getattr(torch, layout.dtype)
            span = spanned_elements(torch.empty_strided(layout.shape, layout.stride, device="meta"))
            memory = torch.empty(layout.offset + span, dtype=dtype, device=device)
            x = memory.as_strided(layout.shape, layout.stride, layout.offset)
            elements = x[once(x)]
            data = bytearray(source.read(elements.nbytes))
            if len(data) < elements.nbytes:
                raise EOFError(f"{file} ends after {len(data)} of {elements.nbytes} bytes of a tensor")
            if data:
                elements.copy_(torch.frombuffer(data, dtype=torch.uint8).view(dtype).view(elements.shape))
            tensors.append(x)
    return tensors


def dense(shapes: Sequence[tuple[int, ...]], dtypes: Sequence[torch.dtype]) -> list[PassedTensor]:
    """The layouts of dense tensors."""
    strides = [torch.empty(shape, device="meta").stride() for shape in shapes]
    names = [str(dtype).removeprefix("torch.") for dtype in dtypes]
    return [PassedTensor(*parts, 0) for parts in zip(names, shapes, strides, strict=True)]

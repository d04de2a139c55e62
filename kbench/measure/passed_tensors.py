"""Tensors that one worker passes to another, one after another in memory that both see.

Only bytes come from the other worker. Nothing that it writes is run, and their dtypes and shapes are known before."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.multiprocessing.reductions import reduce_tensor

from kbench.measure.correctness.check import fill, once
from kbench.measure.correctness.memory import STEP_BYTES, spanned_elements
from kbench.protocol import PassedTensor


class SharedMemory:
    """Bytes of a CUDA device, or else of a file in `folder` that both map; all are zero at first."""

    def __init__(self, size: int, device: torch.device, folder: str) -> None:
        self._words = ""
        if device.type == "cuda":
            torch.cuda.ipc_collect()  # frees what other processes do not need any more
            with torch.cuda.use_mem_pool(torch.cuda.MemPool()):  # the other process sees whole blocks of the allocator
                self.data = torch.zeros(size, dtype=torch.uint8, device=device)
        else:
            file = Path(folder, "tensors")
            file.unlink(missing_ok=True)  # the other process may still see those of another call
            file.write_bytes(bytes(size))  # a full disk is an error here; in a sparse file, it would be a signal later
            self._words = f"{size} {file}"
            self.data = opened(self._words)

    def words(self) -> str:
        """The words with which one other process opens it, once."""
        return self._words or base64.b64encode(pickle.dumps(reduce_tensor(self.data))).decode()


def opened(words: str) -> Tensor:
    """The memory of the worker that judges. Raises RuntimeError and OSError."""
    size, _, path = words.partition(" ")
    if path:
        return torch.from_file(path, shared=True, size=int(size), dtype=torch.uint8)
    rebuild, arguments = pickle.loads(base64.b64decode(words))
    memory: Tensor = rebuild(*arguments)
    return memory


def lay_out(tensors: Sequence[Tensor], start: int = 0) -> tuple[tuple[PassedTensor, ...], int]:
    """Places for tensors like these, with their alignment, from a byte on; and the byte behind them."""
    places = []
    for x in tensors:
        start += (int(x.storage_offset()) * x.element_size()) % STEP_BYTES
        places.append(PassedTensor(str(x.dtype).removeprefix("torch."), tuple(x.shape), x.stride(), start))
        start += x[once(x)].numel() * x.element_size()
        start += -start % STEP_BYTES
    return tuple(places), start


def at(memory: Tensor, place: PassedTensor, further: int = 0) -> Tensor:
    """The tensor at a place, or so many bytes further. It has no gaps there: its rows may be gigabytes apart. Its strides are
    in the same order as those of the place, and equal to them if there are no gaps."""
    dtype = getattr(torch, place.dtype)
    stride, reach = list(place.stride), 1
    for dimension in sorted(range(len(stride)), key=stride.__getitem__):
        if stride[dimension] and place.shape[dimension] != 1:
            stride[dimension] = reach
            reach *= place.shape[dimension]
    start = (place.start + further) // dtype.itemsize
    return torch.empty(0, dtype=dtype, device=memory.device).set_(memory.untyped_storage(), start, place.shape, stride)


def read_tensors(memory: Tensor, places: Sequence[PassedTensor], device: torch.device) -> list[Tensor]:
    """The tensors at places, in new memory, with the strides and the alignment that they had."""
    tensors = []
    for place in places:
        values = at(memory, place)
        offset = place.start % STEP_BYTES // values.element_size()
        span = spanned_elements(torch.empty_strided(place.shape, place.stride, device="meta"))
        x = torch.empty(offset + span, dtype=values.dtype, device=device).as_strided(place.shape, place.stride, offset)
        tensors.append(x)
        fill([x], [values])
    return tensors

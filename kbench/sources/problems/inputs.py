"""Inputs that a problem makes: those of a case together, from torch's own generators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from kbench.contract.tensor import Draw, Integers
from kbench.contract.tensor import Tensor as Declared
from kbench.results.case import Case

Make = Callable[[Case, torch.device], Sequence[Tensor]]
"""Makes all tensors of a set on a device. It draws from torch's own generators, which are seeded for it."""

SEEDS = 2**31


@dataclass
class DrawnTogether:
    """kbench fills the inputs of a case in order. The fill of the first makes the set, and each other takes its own from it."""

    make: Make
    _case: Case | None = None
    _remaining: dict[int, Tensor] = field(default_factory=dict)

    def fill(self, position: int) -> Callable[[Case, Draw], Tensor]:
        """The fill of the tensor at a position of the set."""

        def take(case: Case, draw: Draw) -> Any:
            if case != self._case or position not in self._remaining:
                self._case = case
                seed = draw.integers(0, SEEDS, 1)
                with seeded(int(seed.item()), seed.device):
                    self._remaining = dict(enumerate(self.make(case, seed.device)))
            return self._remaining.pop(position, None)

        return take


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Inside, torch's generators of the host and of a device begin at a seed. Afterwards they go on as before."""
    devices = [device] if device.type not in ("cpu", "meta") else []
    with torch.random.fork_rng(devices, device_type=device.type if devices else "cuda"):
        torch.manual_seed(seed)
        yield


def drawn(tensor: Declared, case: Case, device: torch.device) -> Tensor:
    """Random values for a tensor of a case, from torch's own generators. Whole numbers have constant bounds."""
    dtype, shape = tensor.dtype_in(case), tensor.shape_in(case)
    fill = tensor.fill_for(dtype)
    if isinstance(fill, Integers):
        values = torch.randint(int(fill.low), int(fill.below), shape, device=device)
    else:
        values = torch.randn(shape, device=device)
    return values.to(getattr(torch, dtype))

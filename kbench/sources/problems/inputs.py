"""Inputs that a problem's own function makes, and random ones on the host."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
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


class _HostDraw:
    """Draws values on the host, to try a problem before there is a device. A `Draw`."""

    def normal(self, *shape: int, dtype: str | None = None) -> Tensor:
        return torch.randn(shape).to(getattr(torch, dtype or "float32"))

    def uniform(self, low: float, high: float, *shape: int, dtype: str | None = None) -> Tensor:
        return torch.empty(shape).uniform_(low, high).to(getattr(torch, dtype or "float32"))

    def integers(self, low: int, high: int, *shape: int, dtype: str = "int64") -> Tensor:
        return torch.randint(low, high, shape).to(getattr(torch, dtype))


def filled(tensor: Declared, case: Case, draw: Draw) -> Tensor:
    """A tensor of a case, filled as it declares. Its dtype must be declared; whole numbers have constant bounds."""
    dtype = tensor.dtype_in(case)
    match tensor.fill_for(dtype):
        case fill if callable(fill):
            return fill(case, draw)
        case Integers(below, low=low):
            return draw.integers(int(low), int(below), *tensor.shape_in(case), dtype=dtype)
        case _:
            return draw.normal(*tensor.shape_in(case), dtype=dtype)


def draw_on_host(tensors: Iterable[Declared], case: Case) -> list[Tensor]:
    """Inputs of a case on the host."""
    draw = _HostDraw()
    return [filled(tensor, case, draw) for tensor in tensors]

"""The random inputs of a case, and the set of them that all its contenders share."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from math import prod

import torch
from torch import Tensor

from kbench.measure.correctness.check import changed_input, fill
from kbench.measure.correctness.definition import Definition
from kbench.measure.machine.device import Device


class Inputs:
    """Draws the inputs of a case on a device. The values depend on the seed and the case alone: not on the session, and
    not on earlier draws."""

    def __init__(self, definition: Definition, device: Device, seed: int) -> None:
        self._definition, self._device, self._seed = definition, device, seed
        self._generator = torch.Generator(device.torch_device)

    def draw(self, which: str) -> tuple[Tensor, ...]:
        """The inputs of this name; another name gives other values. Raises OperatorFault."""
        case = self._definition.case
        self._generator.manual_seed(random.Random(f"{self._seed}/{case.key}/{which}").getrandbits(63))
        return self._definition.inputs(self)

    def normal(self, *shape: int, dtype: str | None = None) -> Tensor:
        """Standard normal values, by default of the case's dtype, new at every call."""
        return self._made(dtype, lambda **place: torch.randn(shape, **place))

    def uniform(self, low: float, high: float, *shape: int, dtype: str | None = None) -> Tensor:
        """Values from `low` up to `high`, by default of the case's dtype, new at every call."""
        return self._made(dtype, lambda **place: torch.rand(shape, **place).mul_(high - low).add_(low))

    def integers(self, low: int, high: int, *shape: int, dtype: str = "int64") -> Tensor:
        """Whole numbers from `low` up to but not including `high`, new at every call."""
        if prod(shape) and low >= high:
            raise ValueError(f"there is no whole number from {low} up to but not including {high}")
        high, wanted = max(high, low + 1), getattr(torch, dtype)
        limits = torch.finfo(wanted) if wanted.is_floating_point else None if dtype == "bool" else torch.iinfo(wanted)
        smallest, largest = (limits.min, limits.max) if limits else (0, 1)
        if prod(shape) and not smallest <= low < high <= largest + 1:
            raise ValueError(f"{dtype} does not hold the whole numbers from {low} up to but not including {high}")
        drawn = torch.randint(low, high, shape, device=self._device.torch_device, generator=self._generator)
        return drawn.to(wanted)

    def _made(self, dtype: str | None, make: Callable[..., Tensor]) -> Tensor:
        """Random values of a floating-point dtype. torch draws no 8-bit numbers, so those are rounded from float32."""
        wanted = getattr(torch, dtype or self._definition.case.dtype)
        drawn = wanted if wanted.is_floating_point and wanted.itemsize > 1 else torch.float32
        return make(dtype=drawn, device=self._device.torch_device, generator=self._generator).to(wanted)


class SharedInputs:
    """The input tensors that every contender of a case is given, with a copy of their values."""

    def __init__(self, names: Sequence[str], tensors: tuple[Tensor, ...]) -> None:
        self._names, self.tensors = names, tensors
        self.pristine: Sequence[Tensor] = [x.clone() for x in tensors]

    def restore(self) -> None:
        """Write the values back into the tensors."""
        fill(self.tensors, self.pristine)

    def repaired(self, mutates: Collection[str] = ()) -> str | None:
        """What a call has changed although it may not, in words; None if it has kept to the inputs in `mutates`. Writes the
        values back."""
        fault = changed_input(self._names, self.tensors, self.pristine, mutates)
        if fault or mutates or any(x.requires_grad for x in self.tensors):
            self.restore()
        return fault

    def restore_in(self, sets: Sequence[tuple[Tensor, ...]], mutates: Collection[str]) -> None:
        """Write the values of some inputs back into several sets of tensors."""
        for position, name in enumerate(self._names):
            if name in mutates:
                for tensors in sets:
                    tensors[position].copy_(self.pristine[position])

    def copies(self, count: int) -> list[tuple[Tensor, ...]]:
        """`count` sets of inputs with these values. The first is the tensors themselves."""
        return [self.tensors, *(tuple(x.clone() for x in self.pristine) for _ in range(count - 1))]

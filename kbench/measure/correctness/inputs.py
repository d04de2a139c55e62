"""The random inputs of a case, and the set of them that all its contenders share."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from math import prod

import torch
from torch import Tensor

from kbench.measure.correctness.check import COPY, changed_input
from kbench.measure.correctness.definition import Definition
from kbench.measure.correctness.memory import Placement, location_of, moved_away, separate
from kbench.measure.machine.device import Device


class Inputs:
    """Draws the inputs of a case on a device. The values depend on the seed and the case alone."""

    def __init__(self, definition: Definition, device: Device, seed: int) -> None:
        self._definition, self._device, self._seed = definition, device, seed
        self._generator = torch.Generator(device.torch_device)

    def draw(self, name: str) -> tuple[Tensor, ...]:
        """The inputs of this name; another name gives other values. Raises OperatorFault."""
        case = self._definition.case
        self._generator.manual_seed(random.Random(f"{self._seed}/{case.key}/{name}").getrandbits(63))
        return self._definition.inputs(self)

    def normal(self, *shape: int, dtype: str | None = None) -> Tensor:
        """Standard normal values, by default of the case's dtype, new at every call."""
        return self._drawn(dtype, lambda **place: torch.randn(shape, **place))

    def uniform(self, low: float, high: float, *shape: int, dtype: str | None = None) -> Tensor:
        """Values from `low` up to `high`, by default of the case's dtype, new at every call."""
        return self._drawn(dtype, lambda **place: torch.rand(shape, **place).mul_(high - low).add_(low))

    def integers(self, low: int, high: int, *shape: int, dtype: str = "int64") -> Tensor:
        """Whole numbers from `low` up to but not including `high`, new at every call."""
        if prod(shape) and low >= high:
            raise ValueError(f"there is no whole number from {low} up to but not including {high}")
        high, torch_dtype = max(high, low + 1), getattr(torch, dtype)
        smallest, largest = 0.0, 1.0
        if dtype != "bool":
            limits = torch.finfo(torch_dtype) if torch_dtype.is_floating_point else torch.iinfo(torch_dtype)
            smallest, largest = limits.min, limits.max
        if prod(shape) and not smallest <= low < high <= largest + 1:
            raise ValueError(f"{dtype} cannot represent every whole number from {low} to {high - 1}")
        drawn = torch.randint(low, high, shape, device=self._device.torch_device, generator=self._generator)
        return drawn.to(torch_dtype)

    def _drawn(self, dtype: str | None, make: Callable[..., Tensor]) -> Tensor:
        """Random values of a dtype. torch draws no 8-bit numbers, so those are rounded from float32."""
        torch_dtype = getattr(torch, dtype or self._definition.case.dtype)
        drawn_dtype = torch_dtype if torch_dtype.is_floating_point and torch_dtype.itemsize > 1 else torch.float32
        return make(dtype=drawn_dtype, device=self._device.torch_device, generator=self._generator).to(torch_dtype)


class SharedInputs:
    """The input tensors that every contender of a case is given.

    pristine  their values, which nothing changes
    sets      equal sets of tensors, over which a timer may rotate. A contender is checked on the first set, `tensors`
    stacked   for each input, the tensors of all sets as one, along a new first dimension. Writing into it does not count as a
              change of `tensors` for torch (`_version`), as a write by a kernel does not either
    """

    def __init__(self, names: Sequence[str], drawn: Sequence[Tensor]) -> None:
        self._names, self.pristine = names, drawn
        self._placements: list[Placement] = []
        self.place(1)

    def place(self, count: int) -> None:
        """Give the inputs other addresses than before, for `count` sets. The earlier tensors are void."""
        if not self._placements or self._placements[0].sets != count:
            self._placements = [Placement(x, count) for x in self.pristine]
        self.stacked = [placement.move() for placement in self._placements]
        self.sets = [tuple(separate(x[number]) for x in self.stacked) for number in range(count)]
        self.tensors = self.sets[0]
        self.restore_sets(self._names)

    def keep_first(self) -> None:
        """Have only the first set from now on: each write to all sets takes time."""
        self.sets, self.stacked = self.sets[:1], [x[:1] for x in self.stacked]

    def restore(self) -> None:
        """Write the values back into all sets, whatever a provider has made of the tensors."""
        for number, tensors in enumerate(self.sets):
            for x, all_sets in zip(tensors, self.stacked, strict=True):
                if x.requires_grad:  # a provider has asked for its gradient
                    x.requires_grad_(False) if x.is_leaf else x.detach_()
                place = separate(all_sets[number])
                if location_of(x) != location_of(place):
                    x.set_(place.untyped_storage(), 0, place.shape, place.stride())
        self.restore_sets(self._names)

    def repaired(self, mutates: Collection[str]) -> str | None:
        """What a call has made of the inputs although it may not, and what to do about it; None if it has changed the values in
        `mutates` only and has moved none. Writes the values back."""
        fault = changed_input(self._names, self.tensors, self.pristine, mutates)
        triples = zip(self._names, self.tensors, self.stacked, strict=True)
        moved = next((name for name, x, all_sets in triples if location_of(x) != location_of(all_sets[0])), None)
        if fault or moved or mutates or any(x.requires_grad for x in self.tensors):
            self.restore()
        if moved and not fault:
            return moved_away(f"its input {moved}", moved)
        return f"{fault}; {COPY}" if fault else None

    def restore_sets(self, mutates: Collection[str]) -> None:
        """Write the values of some inputs back into all sets."""
        for name, all_sets, values in zip(self._names, self.stacked, self.pristine, strict=True):
            if name in mutates:
                all_sets.copy_(values)

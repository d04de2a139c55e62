"""The random inputs of a case, and the set of them that all its contenders share."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch import Tensor

from kbench.measure.correctness.check import changed_input
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
        return self._definition.inputs(self.normal)

    def normal(self, *shape: int) -> Tensor:
        """Standard normal values of the case's dtype, new at every call."""
        dtype = getattr(torch, self._definition.case.dtype)
        return torch.randn(shape, dtype=dtype, device=self._device.torch_device, generator=self._generator)


class SharedInputs:
    """The input tensors that every contender of a case is given, with a copy of their values."""

    def __init__(self, tensors: tuple[Tensor, ...]) -> None:
        self.tensors = tensors
        self.pristine: Sequence[Tensor] = [x.clone() for x in tensors]

    def restore(self) -> None:
        """Write the values back into the tensors."""
        for x, value in zip(self.tensors, self.pristine, strict=True):
            x.copy_(value)

    def repaired(self) -> str | None:
        """What a call has changed, in words, after writing the values back; None if the inputs are as they were."""
        fault = changed_input(self.tensors, self.pristine)
        if fault:
            self.restore()
        return fault

    def copies(self, count: int) -> list[tuple[Tensor, ...]]:
        """`count` sets of inputs with these values. The first is the tensors themselves."""
        return [self.tensors, *(tuple(x.clone() for x in self.pristine) for _ in range(count - 1))]

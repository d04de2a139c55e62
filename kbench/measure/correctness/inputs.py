"""The random inputs of a case."""

from __future__ import annotations

import random

import torch
from torch import Tensor

from kbench.measure.correctness.definition import Definition
from kbench.measure.machine.device import Device


class Inputs:
    """Draws the inputs of a case on a device. What is drawn depends on the seed and the case alone: not on the session,
    and not on what was drawn before."""

    def __init__(self, definition: Definition, device: Device, seed: int) -> None:
        self._definition, self._device, self._seed = definition, device, seed
        self._generator = torch.Generator(device.torch_device)

    def draw(self, which: str) -> tuple[Tensor, ...]:
        """The inputs of this name: other ones for another name. Raises OperatorFault."""
        case = self._definition.case
        self._generator.manual_seed(random.Random(f"{self._seed}/{case.key}/{which}").getrandbits(63))
        return self._definition.inputs(self.normal)

    def normal(self, *shape: int) -> Tensor:
        """Standard normal values of the case's dtype, fresh at every call."""
        dtype = getattr(torch, self._definition.case.dtype)
        return torch.randn(shape, dtype=dtype, device=self._device.torch_device, generator=self._generator)

"""The file of a problem: its module, its models and its inputs, for any values of its constants."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from kbench.sources.fault import SourceFault
from kbench.sources.problems.drawn_together import seeded
from kbench.sources.problems.foreign_code import function_of, integer_constants, parse_file, run_file, with_constants

MODEL_SEED = 42
"""Of the weights. KernelBench takes the same."""


@dataclass
class ModelProblem:
    """A problem file.

    constants  the whole numbers that it assigns at its top level
    """

    file: Path
    tree: ast.Module = field(init=False)
    constants: dict[str, int] = field(init=False)
    _built: dict[Any, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tree = parse_file(self.file)
        self.constants = integer_constants(self.tree)

    def module(self, values: Mapping[str, int]) -> Any:
        """The module with other values for some constants. Raises SourceFault."""
        changed = {name: value for name, value in values.items() if self.constants[name] != value}
        return self._once(("module", *changed.items()), lambda: self._run(changed))

    def _run(self, changed: Mapping[str, int]) -> Any:
        module = run_file(self.file, with_constants(self.tree, changed) if changed else self.tree)
        for name in ("Model", "get_inputs", "get_init_inputs"):
            function_of(module, name, str(self.file))
        return module

    def _once(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """What was made for a key. Only the last value of each kind is kept: models may be large."""
        kind = key[0]
        if kind not in self._built or self._built[kind][0] != key:
            self._built.pop(kind, None)
            self._built[kind] = key, make()
        return self._built[kind][1]

    def instance(self, class_: Callable[..., Any], values: Mapping[str, int], dtype: str, device: torch.device) -> Any:
        """A model of a class, made as KernelBench makes it: the seed is set before its arguments, and before itself."""
        module = self.module(values)
        with torch.device(device):
            with seeded(MODEL_SEED, device):
                arguments = module.get_init_inputs()
            with seeded(MODEL_SEED, device):
                model = class_(*_moved(arguments, "get_init_inputs", self.file, dtype, device))
        if isinstance(model, nn.Module):
            model = model.to(device, getattr(torch, dtype)).requires_grad_(False)
        return model

    def model(self, values: Mapping[str, int], dtype: str, device: torch.device) -> nn.Module:
        """The problem's own model."""
        key = ("model", *values.items(), dtype, device)
        found: nn.Module = self._once(key, lambda: self.instance(self.module(values).Model, values, dtype, device))
        return found

    def exact_model(self, values: Mapping[str, int], dtype: str, device: torch.device) -> nn.Module:
        """The same in float64: with the weights that the model has in `dtype`."""
        key = ("exact", *values.items(), dtype, device)
        found: nn.Module = self._once(key, lambda: _in_float64(copy.deepcopy(self.model(values, dtype, device))))
        return found

    def inputs(self, values: Mapping[str, int], device: torch.device) -> list[Any]:
        """What `get_inputs` returns. The caller seeds torch."""
        with torch.device(device):
            returned = self.module(values).get_inputs()
        return _moved(returned, "get_inputs", self.file, None, device)


def _moved(values: Any, maker: str, file: Path, dtype: str | None, device: torch.device) -> list[Any]:
    """Arguments on a device, which the function `maker` returned. Floating-point tensors get `dtype`, if one is given."""
    if not isinstance(values, (list, tuple)):
        raise SourceFault(str(file), f"{maker} returns {type(values).__name__}; it must return a list")
    return [converted(x.to(device), dtype) if isinstance(x, Tensor) else x for x in values]


def _in_float64(model: nn.Module) -> nn.Module:
    """The same model, changed in place. `double` leaves out the tensors that are plain attributes, such as the first state of a
    recurrent network."""
    for module in model.double().modules():
        for name, value in vars(module).items():
            if isinstance(value, Tensor):
                setattr(module, name, converted(value, "float64"))
    return model


def converted(x: Tensor, dtype: str | None) -> Tensor:
    return x.to(getattr(torch, dtype)) if dtype and x.is_floating_point() else x

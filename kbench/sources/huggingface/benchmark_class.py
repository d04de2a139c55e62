"""A benchmark class: its workloads, the tensors that each sets up, and what its methods do with the output."""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from kbench.sources.fault import SourceFault
from kbench.sources.huggingface.kernel_package import NeedsKernel, NoKernel
from kbench.sources.problems.drawn_together import seeded
from kbench.sources.problems.foreign_code import blamed
from kbench.sources.problems.on_device import on_device

OUT = "out"
"""The attribute that holds the output."""

SETUP_SEED = 0


@dataclass(frozen=True)
class BenchmarkWorkload:
    """A workload as it is after its setup, without the memory of its tensors where that is possible.

    plain    a benchmark object without its tensors
    tensors  the tensors of its attributes, by name: the inputs. Those in a list or a dict are numbered: `weights_0`
    trees    the attributes that hold tensors: how to put them together
    out      the output
    """

    name: str
    plain: Any
    tensors: dict[str, Tensor]
    trees: dict[str, TreeSpec]
    out: Tensor

    @property
    def form(self) -> tuple[Any, ...]:
        """What the workloads of an operator have in common."""
        each = [(name, x.dim(), x.dtype) for name, x in self.tensors.items()]
        return (*each, self.out.dim(), self.out.dtype)

    @property
    def sizes(self) -> tuple[int, ...]:
        """All sizes of the inputs and of the output, one after another."""
        return tuple(size for x in (*self.tensors.values(), self.out) for size in x.shape)

    def with_tensors(self, tensors: Sequence[Tensor], **more: Any) -> Any:
        """A benchmark object that has these tensors as its inputs."""
        instance, left = copy.copy(self.plain), iter(tensors)
        for name, tree in self.trees.items():
            setattr(instance, name, tree_unflatten([next(left) for _ in range(tree.num_leaves)], tree))
        for name, value in more.items():
            setattr(instance, name, value)
        return instance


def tensors_of(instance: Any) -> tuple[dict[str, Tensor], dict[str, TreeSpec]]:
    """The tensors of a benchmark object by name, and the attributes that hold them.

    Raises TypeError for an attribute that holds tensors and other values.
    """
    tensors: dict[str, Tensor] = {}
    trees: dict[str, TreeSpec] = {}
    for name, value in vars(instance).items():
        leaves, tree = tree_flatten(value)
        if name == OUT or not any(isinstance(x, Tensor) for x in leaves):
            continue
        if not all(isinstance(x, Tensor) for x in leaves):
            raise TypeError(
                f"the attribute {name} holds tensors together with other values; put the other values into an attribute of "
                "their own"
            )
        trees[name] = tree
        tensors |= {name: value} if isinstance(value, Tensor) else {f"{name}_{at}": x for at, x in enumerate(leaves)}
    return tensors, trees


class NotMeasured(SourceFault):
    """A workload that kbench leaves out."""


@dataclass(frozen=True)
class BenchmarkClass:
    class_: type
    file: Path

    @property
    def name(self) -> str:
        return self.class_.__name__

    def workload_names(self) -> list[str]:
        """The workloads in the order of the class."""
        return [name.removeprefix("benchmark_") for name in self._methods("benchmark_")]

    def _methods(self, prefix: str) -> Iterator[str]:
        seen: list[str] = []
        for base in reversed(self.class_.__mro__):
            seen += [name for name, value in vars(base).items() if name.startswith(prefix) and callable(value)]
        return iter(dict.fromkeys(seen))

    def set_up(self, workload: str, device: torch.device) -> Any:
        """A benchmark object after its setup. The caller seeds torch. Raises whatever the class raises."""
        instance = self.class_()
        instance.device, instance.kernel = str(device), NoKernel()
        with on_device(device):
            getattr(instance, f"setup_{workload}", instance.setup)()
        return instance

    def read(self, workload: str) -> BenchmarkWorkload:
        """A workload. Its methods run on tensors without memory, or on the host if they look at values.

        Raises NotMeasured for a workload without a reference, and SourceFault.
        """
        if not callable(getattr(self.class_, f"verify_{workload}", None)):
            raise NotMeasured(str(self.file), f"{self.name}.benchmark_{workload} has no verify_{workload}")
        try:
            return self._read(workload, torch.device("meta"))
        except (Exception, SystemExit):  # noqa: BLE001  it looks at values, or has a fault, which shows below
            pass
        try:
            with blamed(str(self.file), f"{self.name}: workload {workload}"):
                return self._read(workload, torch.device("cpu"))
        except SourceFault as fault:
            if isinstance(fault.__cause__, NeedsKernel):
                raise NotMeasured(fault.where, f"{self.name}.benchmark_{workload}: {fault.__cause__}") from None
            raise

    def _read(self, workload: str, device: torch.device) -> BenchmarkWorkload:
        with seeded(SETUP_SEED, device):
            instance = self.set_up(workload, device)
        tensors, trees = tensors_of(instance)
        if not tensors:
            raise SourceFault(str(self.file), f"class {self.name}: the setup of {workload} makes no tensor")
        with torch.no_grad(), on_device(device):
            expected = getattr(copy.copy(instance), f"verify_{workload}")()
        if not isinstance(expected, Tensor):
            what = f"verify_{workload} returns {type(expected).__name__}; it must return a tensor"
            raise SourceFault(str(self.file), f"class {self.name}: {what}")
        out = getattr(instance, OUT, None)
        for name in (*trees, OUT):
            vars(instance).pop(name, None)
        return BenchmarkWorkload(workload, instance, tensors, trees, out if isinstance(out, Tensor) else expected)

    def writes_into(self, workload: str) -> bool:
        """Whether a workload writes into the tensor `out` of its setup. Otherwise it makes a new one in every call."""
        method = self._tree(f"benchmark_{workload}")
        targets: list[ast.expr] = []
        for node in ast.walk(method):
            targets += node.targets if isinstance(node, ast.Assign) else []
        flat = [part for target in targets for part in ast.walk(target)]
        return not any(isinstance(node, ast.Attribute) and node.attr == OUT for node in flat)

    def uses_kernel(self, workload: str) -> bool:
        """Whether a workload calls the kernel that the benchmark was written for."""
        nodes = ast.walk(self._tree(f"benchmark_{workload}"))
        return any(isinstance(node, ast.Attribute) and node.attr == "kernel" for node in nodes)

    def _tree(self, method: str) -> ast.AST:
        function: Callable[..., Any] = getattr(self.class_, method)
        try:
            return ast.parse(textwrap.dedent(inspect.getsource(function)))
        except (OSError, TypeError, SyntaxError):  # made at run time
            return ast.parse("self.out = self.kernel")

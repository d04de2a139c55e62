"""CUDA C++ providers: how they get the kernels of a `.cu` file, and call them with tensors and options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from kbench.kernels import cuda_extension
from kbench.kernels.matrices import dense_like

Launch = Callable[[Sequence[Tensor], Sequence[Tensor]], None]
"""`(inputs, outputs)`: lists or tuples of tensors. It launches a kernel on the current stream."""


class CudaSource:
    """A `.cu` file and the headers that it includes, for the providers that launch its kernels.

    Raises FileNotFoundError if there is no such file. Write `Path(__file__).with_name("mine.cu")` for a file beside yours.
    """

    missing_tools = staticmethod(cuda_extension.missing_tools)
    """Why CUDA sources cannot be built or run on this machine, or None: for `available=` of a provider."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).resolve()
        if not self.path.is_file():
            raise FileNotFoundError(f"there is no CUDA source {self.path}")
        self._launches: dict[tuple[object, ...], Launch] = {}

    def kernel(self, name: str, /, **options: float | None) -> Launch:
        """The function that launches a kernel of the source's table, with these values of its options.

        Builds the source unless it is built. An option that is None has its default. The function takes the inputs and the
        outputs, as many as the table says, on the current device. It launches nothing if the outputs have no elements.

        Raises RuntimeError if the source does not compile, ValueError for a kernel that it does not have, and TypeError for
        other options than the kernel's. The function raises TypeError for another number of tensors, ValueError for a
        tensor on another device, and Unsupported for tensors that the kernel declines.
        """
        key = (name, *options.items())
        launch = self._launches.get(key)
        if launch is None:
            module = cuda_extension.build(self.path.stem, self.path)
            names = [entry[0] for entry in module.kernels]
            if name not in names:
                raise ValueError(f"{self.path.name} has no kernel {name}; it has {', '.join(names)}")
            number = names.index(name)
            values = _values(name, module.kernels[number][3], options)
            launch = self._launches[key] = partial(module.launch, number, values)
        return launch


def rowwise(kernel: Launch, outputs: int = 1) -> Callable[..., Any]:
    """A function that applies a kernel to its inputs, the first of which is a matrix. It returns a new matrix of the same shape
    and dtype, or a tuple of as many as the kernel has outputs."""

    def call_with_one_output(*inputs: Tensor) -> Tensor:
        y = dense_like(inputs[0])
        kernel(inputs, (y,))
        return y

    def call(*inputs: Tensor) -> tuple[Tensor, ...]:
        results = tuple([dense_like(inputs[0]) for _ in range(outputs)])
        kernel(inputs, results)
        return results

    return call_with_one_output if outputs == 1 else call


def _values(kernel: str, declared: Sequence[str], parameters: Mapping[str, float | None]) -> tuple[float, ...]:
    """The values of a kernel's options in the order in which its table declares them, as `eps` or `threads=0`."""
    defaults = {name: default for name, _, default in (text.partition("=") for text in declared)}
    values = {name: value for name, value in parameters.items() if value is not None}
    if unknown := values.keys() - defaults.keys():
        raise TypeError(f"{kernel} has no option {min(unknown)}; it has {', '.join(defaults) or 'none'}")
    for name, value in values.items():
        if not isinstance(value, int | float):
            raise TypeError(f"{name} of {kernel} must be a number, not {value!r}")
    if missing := [name for name, default in defaults.items() if name not in values and not default]:
        raise TypeError(f"{kernel} needs a value for its option {missing[0]}")
    return tuple(float(values.get(name, default)) for name, default in defaults.items())

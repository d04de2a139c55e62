"""CUDA C++ providers: how they get the kernels of a `.cu` file, and call them with tensors and options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kbench.contract.origin import code_files
from kbench.kernels import cuda_extension
from kbench.kernels.whole_rows import dense_like

if TYPE_CHECKING:
    from torch import Tensor

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

    @property
    def files(self) -> tuple[Path, ...]:
        """All files with the kernels' code: for `sources=` of a provider whose own file does not name the `.cu` file."""
        return tuple(code_files([self.path, Path(__file__)]))

    def kernel(self, name: str, /, **options: float | None) -> Launch:
        """The function that launches a kernel of the source's table, with these values of its options.

        Builds the source unless it is built. An option that is None has its default. The function takes the inputs and the
        outputs, as many as the table says, on the current device. It launches nothing if the outputs have no elements.

        Raises RuntimeError if the source does not compile, ValueError for a kernel that it does not have, and TypeError for
        other options than the kernel's. The function raises TypeError for another number of tensors, ValueError for a
        tensor on another device, and Unsupported for tensors that the kernel declines.
        """
        key = (name, *options.items(), *map(type, options.values()))
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


def rowwise(kernel: Launch) -> Callable[[Tensor], Tensor]:
    """A function that applies a kernel with one input and one output to a matrix, and returns a new matrix of its shape and
    dtype."""

    def call(x: Tensor) -> Tensor:
        y = dense_like(x)
        kernel((x,), (y,))
        return y

    return call


def _values(kernel: str, declared: Sequence[str], parameters: Mapping[str, float | None]) -> tuple[float, ...]:
    """The values of a kernel's options in the order in which its table declares them, as `eps` or `threads=0`."""
    defaults = {name: default for name, _, default in (text.partition("=") for text in declared)}
    values = {name: value for name, value in parameters.items() if value is not None}
    if unknown := values.keys() - defaults.keys():
        raise TypeError(f"{kernel} has no option {min(unknown)}; it has {', '.join(defaults) or 'none'}")
    for name, value in values.items():
        if not isinstance(value, int | float):
            raise TypeError(f"{name} of {kernel} must be a number, not {value!r}")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ValueError(f"{name} of {kernel} must fit into 64 bits; {value} does not")
    if missing := [name for name, default in defaults.items() if name not in values and not default]:
        raise TypeError(f"{kernel} needs a value for its option {missing[0]}")
    return tuple(values[name] if name in values else _number(default) for name, default in defaults.items())


def _number(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        return float(text)

"""A case: an operator at one point of the sweep. And how parameters and configurations are written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Value = int | float | str | bool | None
"""An axis' value, a choice or a parameter, as a config can write it."""

ITEMSIZE = {
    "float32": 4, "float16": 2, "bfloat16": 2, "float64": 8, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip
"""Bytes per element, for every dtype of a case or of a tensor."""

FLOATING = tuple(dtype for dtype in ITEMSIZE if "float" in dtype)
"""The dtypes of floating-point numbers."""

DTYPE_ALIASES = {
    "fp64": "float64", "f64": "float64", "double": "float64",
    "fp32": "float32", "f32": "float32", "float": "float32",
    "fp16": "float16", "f16": "float16", "half": "float16",
    "bf16": "bfloat16",
    "fp8": "float8_e4m3fn", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2",
}  # fmt: skip

LIKE_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
"""The numbers that the cells of axes and scalars may hold, and that `--where` takes."""

INTEGER_LIMIT = 1 << 63
"""Integers of messages and results are smaller than this."""

FORWARD, BACKWARD, FULL = "forward", "backward", "full"
"""The modes of a case: the outputs, the gradients of the inputs, or both in one call."""

MODES = (FORWARD, BACKWARD, FULL)


@dataclass(frozen=True)
class Case:
    """An operator at one point of the sweep: axes, scalars, choices, mode and dtype.

    `axes` maps the names of axes to sizes, of scalars to numbers or booleans, and of choices to words, in the operator's
    order. All read as attributes (`case.N`, `case.eps`, `case.approximate`). An operator with gradients also has `mode`.
    """

    operator: str
    axes: Mapping[str, Value]
    dtype: str

    def __getattr__(self, name: str) -> Any:
        axes = self.__dict__.get("axes", {})
        if name in axes:
            return axes[name]
        raise AttributeError(f"case of {self.__dict__.get('operator')} has no axis {name!r}; it has {', '.join(axes)}")

    def __hash__(self) -> int:
        return hash((self.operator, frozenset(self.axes.items()), self.dtype))

    @property
    def mode(self) -> str:
        """`forward`, `backward` or `full`."""
        return str(self.axes.get("mode", FORWARD))

    @property
    def itemsize(self) -> int:
        """Bytes per element of the case's dtype."""
        return ITEMSIZE[self.dtype]

    @property
    def label(self) -> str:
        """One-line name for progress and errors: `softmax M=4096 N=256 float32`."""
        return " ".join([self.operator, *(f"{k}={v}" for k, v in self.axes.items()), self.dtype])

    @property
    def key(self) -> tuple[Any, ...]:
        """What random numbers and hashes of the case are made from. In dicts and sets, a case stands for itself."""
        return (self.operator, tuple(self.axes.items()), self.dtype)

    def set_options(self) -> list[str]:
        """The options of `kbench run` that choose it: `--set dtype=float32 --set M=4096`."""
        keys = {"dtype": self.dtype, **self.axes}
        return [word for name, value in keys.items() for word in ("--set", f"{name}={value}")]

    def to_json(self) -> dict[str, Any]:
        return {"operator": self.operator, "axes": dict(self.axes), "dtype": self.dtype}


def natural_key(name: str) -> list[Any]:
    """For sorting names: words and numbers in turn, so that num_warps=4 comes before num_warps=16."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"([0-9]+)", name)]


def value_order(value: Value) -> tuple[bool, int, Any]:
    """For sorting values of one column: numbers by size, modes in their own order, other words as pictures sort them."""
    order = natural_key(value) if isinstance(value, str) else value
    return isinstance(value, str), MODES.index(value) if value in MODES else len(MODES), order


def format_params(params: Mapping[str, Value]) -> str:
    """`{"num_warps": 4}` as the CSV and the names of configurations write it: `num_warps=4`."""
    return ",".join(f"{k}={v}" for k, v in params.items())


def configuration_name(provider: str, params: str) -> str:
    """The name of a configuration: `triton-row[num_warps=4]`."""
    return f"{provider}[{params}]" if params else provider

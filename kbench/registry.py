"""Operators and their providers.

An operator is a mathematical function. A provider is one implementation of it. Files in `kbench/operators/`, plug-in files
and installed packages declare both. This module imports neither torch nor triton, so that `import kbench` stays cheap.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import itertools
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kbench import packages
from kbench.files import source_text
from kbench.results.case import ITEMSIZE, Case, Value
from kbench.results.names import fault, taken, value_fault
from kbench.results.stamps import digest
from kbench.text.exception_text import describe_exception
from kbench.text.printable import printable, safe_reason

if TYPE_CHECKING:
    from torch import Tensor

ACCELERATORS = ("cuda", "npu", "xpu")
"""The device types of accelerators. torch calls AMD GPUs `cuda` too."""

Function = TypeVar("Function", bound=Callable[..., Any])


class Unsupported(Exception):
    """A provider raises this to decline an input. The message is the reason that the user reads."""


@dataclass(frozen=True)
class Provider:
    """One implementation of an operator. `Operator.provider` makes it and documents its fields."""

    name: str
    operator: str
    function: Callable[..., Any]
    label: str
    requires: tuple[str, ...] = ()
    devices: tuple[str, ...] | None = None
    supports: Callable[[Case], str | None] | None = None
    available: Callable[[], str | None] | None = None
    factory: bool = False
    moved_bytes: Callable[[Case], int] | None = None
    sources: tuple[Path, ...] = ()
    plugin: str | None = None
    parameters: Mapping[str, Value] = field(default_factory=dict)
    choices: tuple[str, ...] = ()

    def unavailable(self, device: str) -> str | None:
        """Why this provider cannot run on a machine with this device type, or None when it can."""
        try:
            if self.devices is not None and device not in self.devices:  # first: installing a package would not help
                return f"needs a device of type {' or '.join(self.devices)}; this machine has {device}"
            for module in self.requires:
                if not _installed(module):
                    return packages.missing(module)
            why = self.available() if self.available else None
            return safe_reason(str(why)) if why else None
        except BaseException as error:  # noqa: BLE001  a plug-in may raise anything
            return safe_reason(f"{describe_exception(error)} (in its availability check)")

    def declines(self, case: Case) -> str | None:
        """Why this provider declines this case, or None when it accepts it."""
        return self.supports(case) if self.supports else None

    def bind(self, case: Case, params: Mapping[str, Value]) -> Callable[..., Any]:
        """The function that kbench checks and times. Its only arguments are the operator's inputs.

        `params` are the parameters of one configuration. The operator's choices come from the case. A factory builds here.
        """
        keywords = dict(params) | {name: case.axes[name] for name in self.choices}
        if self.factory:
            built: Callable[..., Any] = self.function(case, **keywords)
            return built
        function = self.function
        return (lambda *inputs: function(*inputs, **keywords)) if keywords else function

    @property
    def place(self) -> str:
        """Where its function is defined, relative to the working directory: `kernels/mine.py:12`. Empty for a file outside
        that directory, and for a file of an installed package."""
        try:
            code = inspect.unwrap(self.function).__code__
            file, folder = Path(code.co_filename).resolve(), Path.cwd()
        except (AttributeError, ValueError, OSError):  # not written in Python, or the working directory was deleted
            return ""
        if not file.is_relative_to(folder) or not file.is_file() or "site-packages" in file.parts:
            return ""
        return f"{file.relative_to(folder).as_posix()}:{code.co_firstlineno}"

    @property
    def source_hash(self) -> str:
        """A hash of the provider's code: the file that defines its function, and its `sources`."""
        try:
            file = inspect.getsourcefile(inspect.unwrap(self.function))
        except TypeError:  # a function that was not written in Python
            file = None
        files = [*([Path(file)] if file else []), *self.sources]
        return digest([text for path in files if (text := source_text(path))])


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the parent package of a dotted name is missing
        return False


@dataclass
class Operator:
    """A mathematical function, its inputs and the rules for judging an output.

    Making an Operator registers it. Raises ValueError for a name that is taken or not allowed (see results/names.py).

    name       the operator's name in configs
    axes       names of the integer axes, in the order of the CSV's columns
    inputs     `(case, randn) -> tuple of tensors`. `randn(*shape)` draws standard normal values of the case's dtype on the
               measured device. Every call draws new values
    reference  `(case, *inputs) -> tensor`: the mathematical definition. Floating-point inputs arrive as float64, all others
               (labels, masks) unchanged. An output must have the reference's shape and the dtype of the first
               floating-point input
    bytes      `(case) -> int`: the algorithmic bytes, each input read once and each output written once. GB/s is these
               bytes per second
    tolerance  `(case) -> float`: the error that float32 arithmetic may have, in units in the last place of float32. kbench
               allows it in addition to `output_ulps` (see measure/correctness/check.py). 64 is enough for most operators.
               A sequential sum of K terms needs up to 8 + 2 * sqrt(K)
    output_ulps  the error that rounding the output may have, in units in the last place of the output's dtype. The default,
               2, also allows a kernel to round an intermediate result to that dtype. 1 allows the final rounding only
    scale      `(case, reference, *inputs) -> tensor`: the magnitude at which float32 units are taken, for each element.
               Units of the output's dtype are then taken at `|reference|`. `inputs` are those that the reference gets.
               Without a scale, kbench estimates the magnitude of the terms of each element and takes all units there (see
               measure/correctness/error_scale.py). That matters where terms cancel, as in layer normalisation
    choices    parameters of the operator that are words: name -> allowed values. The first value is the default
    edges      name -> `(case, *inputs) -> tuple of tensors`: edge inputs for `kbench check`. An operator without edges gets
               those of measure/correctness/common_edges.py
    dtypes     the dtypes that the operator is defined for: float64, float32, float16, bfloat16
    rowwise    True when each row of the output depends on the same row of the inputs only. kbench then computes the
               reference of a large output in slices along the first dimension, which saves memory. It slices every input
               that has the rank and the row count of the first input, and passes all others whole. Leave it False when an
               input such as a square weight can have the first input's shape by chance
    providers  the operator's providers by name. `provider` adds to them
    """

    name: str
    axes: Sequence[str]
    inputs: Callable[..., tuple[Tensor, ...]]
    reference: Callable[..., Tensor]
    bytes: Callable[[Case], int]
    tolerance: Callable[[Case], float]
    scale: Callable[..., Tensor] | None = None
    output_ulps: float = 2.0
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    edges: Mapping[str, Callable[..., tuple[Tensor, ...]]] = field(default_factory=dict)
    dtypes: tuple[str, ...] = ("float32", "float16", "bfloat16")
    rowwise: bool = False
    providers: dict[str, Provider] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if why := fault(self.name):
            raise ValueError(f"operator {_shown(self.name)}: {why}")
        if self.name in shipped():
            _import_shipped(self.name)  # so that a plug-in cannot take the name
        if self.name in _operators:
            raise ValueError(
                f"operator {self.name!r} exists already; add providers to it with kbench.operator({self.name!r})"
            )
        seen: set[str] = set()
        for axis in (*self.axes, *self.choices):
            if why := fault(axis):
                raise ValueError(f"operator {self.name!r}: axis or choice {_shown(axis)}: {why}")
            if why := taken(axis) or ("is declared twice" if axis in seen else ""):
                raise ValueError(f"operator {self.name!r}: {axis!r} {why}; rename the axis or choice")
            seen.add(axis)
        for word in itertools.chain(*self.choices.values()):
            if why := fault(word):
                raise ValueError(f"operator {self.name!r}: choice {_shown(word)}: {why}")
        for edge in self.edges:  # no name of a column or a file: only `check` shows it
            if why := value_fault(edge):
                raise ValueError(f"operator {self.name!r}: edge input {_shown(edge)}: {why}")
        for dtype in self.dtypes:
            if dtype not in ITEMSIZE:
                raise ValueError(
                    f"operator {self.name!r}: unknown dtype {_shown(dtype)}; use {', '.join(ITEMSIZE)}. "
                    "Make inputs of other types in `inputs`, for example with torch.randint"
                )
        _operators[self.name] = self

    def provider(
        self,
        name: str,
        *,
        label: str | None = None,
        requires: str | Sequence[str] = (),
        devices: Sequence[str] | None = None,
        supports: Callable[[Case], str | None] | None = None,
        available: Callable[[], str | None] | None = None,
        factory: bool = False,
        moved_bytes: Callable[[Case], int] | None = None,
        sources: Sequence[Path] = (),
    ) -> Callable[[Function], Function]:
        """Register the decorated function as a provider of this operator.

        The function takes the operator's inputs and returns a new output tensor. A config may sweep its keyword-only
        arguments. An argument with the name of one of the operator's choices gets its value from the case instead.

        label      the name in plots. Default: `name`
        requires   the importable package or packages that the provider needs
        devices    the device types that it runs on. Default: any. See `ACCELERATORS`
        supports   `(case) -> str | None`: the reason to decline a case, None to accept it
        available  `() -> str | None`: the reason why it cannot run on this machine, None when it can
        factory    True when the function takes `(case, **params)` and returns the function of the inputs. Its time counts
                   as building, not as running
        moved_bytes  `(case) -> int`: the bytes that the implementation moves, if it moves more than the algorithm needs
        sources    other files with code of the provider. A row's `source_hash` covers them and the function's own file

        Raises ValueError for a name that is taken or not allowed. A name has no commas or brackets, as `--only a,b` and
        `a[block=2]` could not be read otherwise. See also results/names.py.
        """
        for each in (name, *([] if label is None else [label])):
            if why := fault(each):
                raise ValueError(f"provider {_shown(each)} of {self.name!r}: {why}")
        if set(name) & set(",[]"):
            raise ValueError(
                f"provider {name!r} of {self.name!r}: commas and square brackets are not allowed in a name"
            )

        def register(function: Function) -> Function:
            if name in self.providers:
                raise ValueError(f"{self.name!r} has a provider {name!r} already; choose another name")
            keywords = _keywords(function)
            for keyword in keywords:
                if why := fault(keyword):
                    raise ValueError(f"provider {name!r} of {self.name!r}: parameter {_shown(keyword)}: {why}")
            self.providers[name] = Provider(
                name=name,
                operator=self.name,
                function=function,
                label=label or name,
                requires=(requires,) if isinstance(requires, str) else tuple(requires),
                devices=None if devices is None else tuple(devices),
                supports=supports,
                available=available,
                factory=factory,
                moved_bytes=moved_bytes,
                sources=tuple(sources),
                plugin=_plugin,
                parameters={
                    k: None if v is inspect.Parameter.empty else v for k, v in keywords.items() if k not in self.choices
                },
                choices=tuple(k for k in keywords if k in self.choices),
            )
            return function

        return register


def _keywords(function: Callable[..., Any]) -> dict[str, Any]:
    """The keyword-only arguments of a function with their defaults."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # written in C, without a signature, as torch.sigmoid is
        return {}
    return {p.name: p.default for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY}


def _shown(name: object) -> str:
    """A name as an error message shows it."""
    return printable(repr(name), 60)


_operators: dict[str, Operator] = {}

_plugin: str | None = None
"""The plug-in that is being imported. Providers that register now belong to it."""


@contextmanager
def registering_for(plugin: str | None) -> Iterator[None]:
    """Inside, new providers belong to `plugin`; None is kbench itself. It is global, as threads of a plug-in register too."""
    global _plugin
    before, _plugin = _plugin, plugin
    try:
        yield
    finally:
        _plugin = before


def operator(name: str) -> Operator:
    """The operator of this name. Imports it if it is one of kbench's. Raises LookupError for an unknown name."""
    if name not in _operators and name in shipped():
        _import_shipped(name)
    if name not in _operators:
        raise LookupError(f"unknown operator {name!r}; the operators are {', '.join(operator_names())}")
    return _operators[name]


def _import_shipped(name: str) -> None:
    """Import an operator of kbench. Does nothing while that import is running."""
    with registering_for(None):  # a plug-in that asks for the operator does not own it
        importlib.import_module(f"kbench.operators.{name}")


def shipped() -> list[str]:
    """Names of the operators that come with kbench: the packages and modules in `kbench/operators/`."""
    folder = Path(__file__).with_name("operators")
    return sorted(module.name for module in pkgutil.iter_modules([str(folder)]))


def operator_names() -> list[str]:
    """Names of all operators: kbench's own and those that plug-ins have registered."""
    return sorted({*shipped(), *_operators})

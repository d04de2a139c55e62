"""Operators, their providers, and how both are found.

An operator says what is computed; a provider is one implementation of it. Both are plain records made by decorators in
`kbench/operators/`, in people's own files (plug-ins) and in installed packages (entry point group `kbench.plugins`).
This module imports neither torch nor triton, so that a plug-in can say `import kbench` at no cost.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import inspect
import itertools
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kbench import packages
from kbench.files import source_text
from kbench.protocol import Exclusion, PluginError
from kbench.results.names import fault, taken, value_fault
from kbench.results.row import ITEMSIZE, Case, Value, digest
from kbench.text.exception_text import describe, location
from kbench.text.printable import REASON_LIMIT, printable, reason

if TYPE_CHECKING:
    from torch import Tensor

ACCELERATORS = ("cuda", "npu", "xpu")
"""Device types with an accelerator. AMD presents itself as `cuda`."""

Function = TypeVar("Function", bound=Callable[..., Any])


class Unsupported(Exception):
    """Raised by a provider that declines an input. The message is the reason the user reads."""


@dataclass(frozen=True)
class Provider:
    """One implementation of an operator. See `Operator.provider` for the fields."""

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
            if self.devices is not None and device not in self.devices:  # first: no package helps against it
                return f"needs a device of type {' or '.join(self.devices)}; this machine has {device}"
            for module in self.requires:
                if not _installed(module):
                    return packages.missing(module)
            why = self.available() if self.available else None
            return reason(str(why)) if why else None
        except BaseException as error:  # noqa: BLE001  whatever a plug-in raises is its own failure
            return reason(f"{describe(error)} (while asked whether it is available)")

    def declines(self, case: Case) -> str | None:
        """Why this provider does not do this case, or None when it does."""
        return self.supports(case) if self.supports else None

    def bind(self, case: Case, params: Mapping[str, Value]) -> Callable[..., Any]:
        """The function of the inputs alone that is checked and timed. A factory does its building here.

        `params` are the meta-parameters of one curve; choices of the operator are filled in from the case.
        """
        keywords = dict(params) | {name: case.axes[name] for name in self.choices}
        if self.factory:
            built: Callable[..., Any] = self.function(case, **keywords)
            return built
        function = self.function
        return (lambda *inputs: function(*inputs, **keywords)) if keywords else function

    @property
    def place(self) -> str:
        """Where its function is defined, `kernels/mine.py:12`, relative to the working directory; "" for what is not below it
        or is an installed package's."""
        try:
            code = inspect.unwrap(self.function).__code__
            file, folder = Path(code.co_filename).resolve(), Path.cwd()
        except (AttributeError, ValueError, OSError):  # not in Python, or the working directory is gone
            return ""
        if not file.is_relative_to(folder) or not file.is_file() or "site-packages" in file.parts:
            return ""
        return f"{file.relative_to(folder).as_posix()}:{code.co_firstlineno}"

    @property
    def source_hash(self) -> str:
        """A hash of the code that was measured: the file that defines the provider, and its `sources`."""
        try:
            file = inspect.getsourcefile(inspect.unwrap(self.function))
        except TypeError:  # a function that was not written in Python
            file = None
        files = [*([Path(file)] if file else []), *self.sources]
        return digest([text for path in files if (text := source_text(path))])


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package that a dotted name begins with is not there
        return False


@dataclass
class Operator:
    """What is computed. Constructing one registers it. Raises ValueError for a name that is taken, or that
    a reader of the results could not show or would take for its own (see names.py).

    name       as the config writes it
    axes       names of the integer axes, in the order of the CSV's columns
    inputs     `(case, randn) -> tuple of tensors`; `randn(*shape)` draws standard normal values of the case's dtype on
               the device under test, fresh at every call
    reference  `(case, *inputs) -> tensor`, given floating-point inputs as float64 and all others (labels, masks) as they
               are; must be the mathematical definition. An output has its shape
               and the dtype of the first floating-point input
    bytes      `(case) -> int`: algorithmic bytes, the numerator of GB/s (each input read once, each output written once)
    tolerance  `(case) -> float`: allowed error of the fp32 arithmetic in units in the last place of float32, on top of
               `output_ulps` (see measure/correctness/check.py). 64 does for most; sums of K terms one after the other
               are off by up to 8 + 2 * sqrt(K)
    output_ulps  allowed error of the output's rounding in units in the last place of its dtype. The default, 2, is for
               kernels that round an intermediate result to the output's dtype as well; 1 allows the last rounding only
    scale      `(case, reference, *inputs) -> tensor`: the magnitude at which the units of float32 are taken, those of the
               output being taken at `|reference|`; inputs are as the reference has them. By default kbench finds the
               magnitude of the terms that an element is made of, which are more than it where they cancel (layer
               normalisation, matrix products), and takes all units there (see measure/correctness/error_scale.py)
    choices    operator parameters that are words: name -> allowed values, the first is the default
    edges      name -> `(case, *inputs) -> tuple of tensors`: inputs a kernel author must know about, shown by `check`. An
               operator without any is checked on those of measure/correctness/common_edges.py
    dtypes     dtypes the operator is defined for: float64, float32, float16, bfloat16
    rowwise    each row of the output follows from the same row of the inputs, so that the reference of a large output may
               be computed in slices along the first dimension (keeps fp64 memory small): of every input that has the
               first one's rank and number of rows. The others, such as a weight per column, stay whole: a square weight
               beside a square first input would be cut, so leave it at False there
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
            _import_shipped(self.name)  # so that a plug-in cannot take its name first
        if self.name in _operators:
            raise ValueError(
                f"operator {self.name!r} is already registered; extend it with kbench.operator({self.name!r})"
            )
        seen: set[str] = set()
        for axis in (*self.axes, *self.choices):
            if why := fault(axis):
                raise ValueError(f"operator {self.name!r}: axis or choice {_shown(axis)}: {why}")
            if why := taken(axis) or ("is a column of the results already" if axis in seen else ""):
                raise ValueError(f"operator {self.name!r}: {axis!r} {why}; rename the axis or choice")
            seen.add(axis)
        for word in itertools.chain(*self.choices.values()):
            if why := fault(word):
                raise ValueError(f"operator {self.name!r}: choice {_shown(word)}: {why}")
        for edge in self.edges:  # shown by `check` alone: no cell of a file begins with it
            if why := value_fault(edge):
                raise ValueError(f"operator {self.name!r}: edge input {_shown(edge)}: {why}")
        for dtype in self.dtypes:
            if dtype not in ITEMSIZE:
                raise ValueError(
                    f"operator {self.name!r}: dtype {_shown(dtype)} cannot be drawn; there are {', '.join(ITEMSIZE)}. "
                    "Inputs of other types are made in `inputs` itself, for example by torch.randint"
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
        """Register the decorated function as an implementation of this operator.

        The function takes the operator's inputs and returns a new output tensor. Its keyword-only arguments are
        meta-parameters that a config may sweep, except those named like a choice of the operator, which the case fills in.

        label      name in plots (default: `name`)
        requires   importable packages it needs, one or several
        devices    device types it runs on (default: any); see `ACCELERATORS`
        supports   `(case) -> str | None`: the reason to decline a case
        available  `() -> str | None`: the reason it cannot run on this machine at all
        factory    the function takes `(case, **params)` and returns the function of the inputs; what it does is counted
                   as building, not as running
        moved_bytes  `(case) -> int`: bytes the implementation moves, where that is more than the algorithm needs
        sources    files beside the function's own that hold its code; a row's `source_hash` changes with them

        Raises ValueError when the name is taken, could not be told from a list or a curve (`--only a,b`, `a[block=2]`), or
        could not be shown by a reader of the results (see names.py).
        """
        for each in (name, *([] if label is None else [label])):
            if why := fault(each):
                raise ValueError(f"provider {_shown(each)} of {self.name!r}: {why}")
        if set(name) & set(",[]"):
            raise ValueError(f"provider {name!r} of {self.name!r}: a name has no commas or square brackets")

        def register(function: Function) -> Function:
            if name in self.providers:
                raise ValueError(f"provider {name!r} of {self.name!r} is already registered")
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
                plugin=_loading,
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
    except ValueError:  # written in C, as torch.sigmoid is, and says nothing about its arguments
        return {}
    return {p.name: p.default for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY}


def _shown(name: object) -> str:
    """A name that is no good, in an error about it."""
    return printable(repr(name), 60)


_operators: dict[str, Operator] = {}

_loading: str | None = None
"""The plug-in that is being imported: what registers meanwhile is its own."""


@contextmanager
def _registering_for(plugin: str | None) -> Iterator[None]:
    global _loading
    before, _loading = _loading, plugin
    try:
        yield
    finally:
        _loading = before


def operator(name: str) -> Operator:
    """The registered operator of this name, importing kbench's own when needed. Raises LookupError when there is none."""
    if name not in _operators and name in shipped():
        _import_shipped(name)
    if name not in _operators:
        raise LookupError(f"no operator {name!r}; there are {', '.join(names())}")
    return _operators[name]


def _import_shipped(name: str) -> None:
    """Import an operator of kbench's own. Where that is under way already, nothing happens."""
    with _registering_for(None):  # a plug-in may be the first to ask for it, and does not own it
        importlib.import_module(f"kbench.operators.{name}")


def shipped() -> list[str]:
    """Names of the operators that come with kbench: the packages and modules in `kbench/operators/`."""
    folder = Path(__file__).with_name("operators")
    return sorted(module.name for module in pkgutil.iter_modules([str(folder)]))


def names() -> list[str]:
    """Names of all operators: kbench's own and those that plug-ins have registered."""
    return sorted({*shipped(), *_operators})


Announce = Callable[..., None]
"""Is told `(plugin, operator="", provider="")` before something of a plug-in runs, and an empty plug-in afterwards."""


def load_plugins(
    paths: Sequence[str], without: Sequence[Exclusion] = (), announce: Announce = lambda *names: None
) -> list[PluginError]:
    """Import the plug-in files named by the user and those of installed packages. Failures are returned, not raised: what
    one costs is for the reader of the catalog to decide.

    `without` is what has cost earlier workers their lives, see execute/worker/starting.py: such a plug-in is left out, and such
    a provider is not asked again whether it is available.
    """
    for name in shipped():  # first, so that no plug-in can take their names
        operator(name)
    loads: list[tuple[str, Callable[[], Any]]] = [(path, partial(_import_file, Path(path))) for path in paths]
    for entry in importlib.metadata.entry_points(group="kbench.plugins"):
        loads.append((f"{entry.name} ({entry.value})", entry.load))
    left_out = {one.plugin: one.reason for one in without if not one.provider}
    failures = []
    for plugin, load in loads:
        if plugin in left_out:
            failures.append(PluginError(plugin, "import", left_out[plugin]))
            continue
        announce(plugin)
        if failure := _guarded(plugin, load):
            failures.append(failure)
    announce("")
    for one in without:
        mine = _operators.get(one.operator)
        if mine and (provider := mine.providers.get(one.provider)):
            mine.providers[provider.name] = replace(provider, requires=(), available=partial(str, one.reason))
            if one.plugin not in paths:
                failures.append(PluginError(one.plugin, f"provider {provider.name}", one.reason))
    return failures


def _import_file(path: Path) -> None:
    name = f"kbench_plugin_{digest(str(path.resolve()))}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(str(path.resolve().parent))


def _guarded(plugin: str, load: Callable[[], Any]) -> PluginError | None:
    try:
        with _registering_for(plugin):
            load()
    except BaseException as error:  # noqa: BLE001  whatever a plug-in raises is its own failure
        return PluginError(plugin, location(error, plugin), printable(f"{type(error).__name__}: {error}", REASON_LIMIT))
    return None

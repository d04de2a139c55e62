"""A provider: one implementation of an operator, and how its function is called."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from kbench.contract.origin import code_files
from kbench.results.case import FORWARD, FULL, Case, Value
from kbench.results.stamps import digest
from kbench.text.exception_text import describe_exception

ACCELERATORS = ("cuda", "npu", "xpu")
"""The device types of accelerators. torch calls AMD GPUs `cuda` too."""

REQUIREMENTS = {
    "liger_kernel": "liger-kernel>=0.8",
    "quack": "quack-kernels>=0.6",
    "flashinfer": "flashinfer-python>=0.6",
    "distributed": "distributed>=2024.8",
}
"""The optional packages of kbench by the name that Python imports, as pip knows them. `pip install quack` would install another
project. `pyproject.toml` declares the same packages as extras."""


def missing(module: str) -> str:
    """What to say of a module that cannot be imported, with the command that installs it if kbench knows one.

    `triton` has no such command: on Linux pip installs it with kbench, and other systems have no wheel.
    """
    sentence = f"Python package {module!r} is not installed"
    requirement = REQUIREMENTS.get(module.partition(".")[0])
    return f"{sentence}; pip install '{requirement}'" if requirement else sentence


class Unsupported(Exception):
    """A provider raises this to decline an input. The message is the reason that the user reads."""


@dataclass(frozen=True)
class GradientKernel:
    """A function that computes gradients, registered beside its provider's forward function: `Operator.backward` computes the
    gradients alone, `Operator.full` the outputs too.

    keywords   the arguments that it gets by name
    mutates    the inputs and the received gradients (`gradient of y`) that it changes, with the input whose gradient each holds
               afterwards
    saves      names of outputs of the forward function, or a forward function that returns `(outputs, saved)`; None if it
               saves nothing
    fixed      scalars and choices that the function knows neither from an argument nor from what is saved, with the operator's
               defaults
    """

    function: Callable[..., Any]
    keywords: tuple[str, ...]
    mutates: Mapping[str, str]
    saves: tuple[str, ...] | Callable[..., Any] | None = None
    fixed: Mapping[str, Value] = field(default_factory=dict)

    def bind(self, case: Case, params: Mapping[str, Value]) -> Callable[..., Any]:
        """The function with its keyword arguments: `params` are those of a configuration, the others come from the case."""
        values = {**case.axes, **params}
        return partial(self.function, **{name: values[name] for name in self.keywords if name in values})


@dataclass(frozen=True)
class Provider:
    """One implementation of an operator. `Operator.provider` makes it and documents most of its fields.

    parameters  names and defaults of the keyword-only arguments that a config can sweep
    from_case   arguments that get their values from the case, by name
    fixed       scalars and choices that the function does not take, with the operator's defaults: it computes those only
    """

    name: str
    operator: str
    function: Callable[..., Any]
    requires: tuple[str, ...] = ()
    devices: tuple[str, ...] | None = None
    supports: Callable[[Case], str | None] | None = None
    available: Callable[[], str | None] | None = None
    factory: bool = False
    moved_bytes: Callable[[Case], int] | None = None
    sources: tuple[Path, ...] = ()
    plugin: str | None = None
    parameters: Mapping[str, Value] = field(default_factory=dict)
    from_case: tuple[str, ...] = ()
    fixed: Mapping[str, Value] = field(default_factory=dict)
    out: tuple[str, ...] = ()
    mutates: Mapping[str, str] = field(default_factory=dict)
    backward: GradientKernel | None = None
    full: GradientKernel | None = None

    def unavailable(self, device: str) -> str | None:
        """Why this provider cannot run on a machine with this device type, or None when it can."""
        try:
            # first: installing a package would not help
            if self.devices is not None and device not in self.devices:
                return f"needs a device of type {' or '.join(self.devices)}; this machine has {device}"
            for module in self.requires:
                if not _installed(module):
                    return missing(module)
            return _reason("available", self.available()) if self.available else None
        except BaseException as error:  # noqa: BLE001  a plug-in may raise anything
            return f"{describe_exception(error)} (in its availability check)"

    def declines(self, case: Case) -> str | None:
        """Why this provider declines this case, or None when it accepts it."""
        kernel = self.full if case.mode == FULL and self.full else self.backward
        of_kernel = kernel.fixed if kernel and case.mode != FORWARD else {}
        for function, fixed in (("", self.fixed), ("its function for gradients ", of_kernel)):
            for name, value in fixed.items():
                if case.axes.get(name, value) != value:
                    return f"{function}has no argument {name}, so it computes {name}={value} only"
        return _reason("supports", self.supports(case)) if self.supports else None

    def bind(self, case: Case, params: Mapping[str, Value]) -> Callable[..., Any]:
        """The forward function of the inputs. It takes a buffer for each output in `out` as a keyword argument.

        `params` are the parameters of one configuration. Scalars and choices come from the case. A factory builds here.
        """
        own_parameters = keyword_only(self.function)  # the others are those of the kernels for gradients
        keywords = {name: value for name, value in params.items() if name in own_parameters}
        keywords |= {name: case.axes[name] for name in self.from_case}
        if self.factory:
            built: Callable[..., Any] = self.function(case, **keywords)
            if not callable(built):
                kind = type(built).__name__
                raise TypeError(
                    f"the factory returned {kind}; with factory=True it must return a function of the inputs"
                )
            return built
        return partial(self.function, **keywords) if keywords else self.function

    def bind_saves(self, case: Case, params: Mapping[str, Value]) -> tuple[str, ...] | Callable[..., Any] | None:
        """What the backward kernel saves: names of outputs, or a forward function that also saves, with its keyword
        arguments."""
        saves = self.backward.saves if self.backward else None
        if saves is None or isinstance(saves, tuple):
            return saves
        values = {**case.axes, **params}
        names = named_after(0, saves) & {*self.from_case, *self.fixed}
        return partial(saves, **{name: values[name] for name in names | keyword_only(saves).keys() if name in values})

    @property
    def place(self) -> str:
        """Where its function is defined, relative to the working directory: `kernels/mine.py:12`. Empty for a file outside
        that directory, and for a file of an installed package."""
        try:
            code = inspect.unwrap(self.function).__code__
            file, folder = Path(code.co_filename).resolve(), Path.cwd()
        # not written in Python, or the working directory was deleted
        except (AttributeError, ValueError, OSError):
            return ""
        if not file.is_relative_to(folder) or not file.is_file() or "site-packages" in file.parts:
            return ""
        return f"{file.relative_to(folder).as_posix()}:{code.co_firstlineno}"

    @cached_property
    def source_hash(self) -> str:
        """A hash of the provider's code: the files that define its functions, its `sources`, and the `code_files` of them."""
        kernels = [kernel.function for kernel in (self.backward, self.full) if kernel]
        saves = [self.backward.saves] if self.backward and callable(self.backward.saves) else []
        return code_hash([self.function, *kernels, *saves], self.sources)


def code_hash(functions: Iterable[Callable[..., Any]], sources: Iterable[Path] = ()) -> str:
    """A hash of the files that define functions, of `sources`, and of the `code_files` of them."""
    files = [*filter(None, map(_source_file, functions)), *sources]
    return digest(list(filter(None, code_files(files).values())))


def _reason(name: str, answer: object) -> str | None:
    """The reason that a function of a provider gives; None if there is none. Raises TypeError."""
    if answer and not isinstance(answer, str):  # True could mean that it can, or that it cannot
        raise TypeError(f"{name}= returned {answer!r:.80}; return None, or a string with the reason why not")
    return (str(answer).strip() or "no reason was given") if answer else None


def _source_file(function: Callable[..., Any]) -> Path | None:
    try:
        file = inspect.getsourcefile(inspect.unwrap(function))
    except TypeError:  # a function that was not written in Python
        return None
    return Path(file) if file else None


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the parent package of a dotted name is missing
        return False


def keyword_only(function: Callable[..., Any]) -> dict[str, Any]:
    """The keyword-only arguments of a function with their defaults. `inspect.Parameter.empty` stands for none."""
    return {p.name: p.default for p in _parameters(function) if p.kind is p.KEYWORD_ONLY}


def takes_any(function: Callable[..., Any]) -> bool:
    """Whether a function takes any keyword argument."""
    return any(p.kind is p.VAR_KEYWORD for p in _parameters(function))


def positional_count(function: Callable[..., Any]) -> int:
    """How many arguments a function needs by position."""
    by_position = [p for p in _parameters(function) if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return sum(p.default is p.empty for p in by_position)


def named_after(count: int, function: Callable[..., Any]) -> frozenset[str]:
    """The arguments of a function that can be given by name after `count` arguments that are given by position."""
    parameters = _parameters(function)
    ordered = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    later = {p.name for p in ordered[count:] if p.kind is p.POSITIONAL_OR_KEYWORD}
    return frozenset(later | {p.name for p in parameters if p.kind is p.KEYWORD_ONLY})


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except ValueError:  # written in C, without a signature, as torch.sigmoid is
        return []

"""An operator: a declaration (see kbench/contract/declaration.py) that is checked and registered, and that takes providers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from kbench.contract.check_operator import check_operator
from kbench.contract.declaration import Declaration, held, names
from kbench.contract.layout import total_bytes
from kbench.contract.origin import current_plugin, import_shipped, shipped
from kbench.contract.provider import Backward, BothPasses, Provider
from kbench.contract.signature import keyword_only, named_after, takes_any
from kbench.contract.sizes import axes_of
from kbench.contract.tensor import Tensor
from kbench.results.case import BACKWARD, FORWARD, FULL, MODES, Case, Value
from kbench.results.names import fault
from kbench.text.printable import printable

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass
class Operator(Declaration):
    __doc__ = Declaration.__doc__  # so that help(kbench.Operator) explains the fields

    def __post_init__(self) -> None:
        super().__post_init__()
        check_operator(self)
        _register(self)

    @property
    def words(self) -> dict[str, tuple[str, ...]]:
        """The columns that hold words: the choices, and `mode` if the operator has gradients. The first word is the default."""
        return {**self.choices, **({"mode": MODES} if self.gradients else {})}

    def case(self, dtype: str | None = None, **values: Value) -> Case:
        """A case of the operator: sizes of its axes, and other values than the default for scalars, choices and `mode`.

        Raises ValueError for a name that it does not have, and KeyError for an axis without a size.
        """
        defaults = {**self.scalars, **{name: words[0] for name, words in self.words.items()}}
        if unknown := values.keys() - {*self.axes, *defaults}:
            raise ValueError(f"operator {self.name!r} has no axis, scalar or choice {min(unknown)!r}")
        axes = {name: values[name] for name in self.axes} | {name: values.get(name, v) for name, v in defaults.items()}
        return Case(self.name, axes, dtype or self.dtypes[0])

    def call_bytes(self, case: Case) -> int:
        """The algorithmic bytes of a call. Raises whatever `bytes` raises, and SizeError."""
        if self.bytes is not None:
            return self.bytes(case)
        read, written = total_bytes(self.inputs.values(), case), total_bytes(self.outputs.values(), case)
        forward = read + written
        received = total_bytes(self.output_gradients(case).values(), case)
        backward = received + read + total_bytes((self.inputs[name] for name in self.gradients), case)
        return {FORWARD: forward, BACKWARD: backward, FULL: forward + backward}[case.mode]

    def output_gradients(self, case: Case) -> dict[str, Tensor]:
        """The gradients that a backward call receives, by the names of the outputs: one per floating-point output."""
        return {name: tensor for name, tensor in self.outputs.items() if tensor.is_floating(case)}

    def provider(
        self,
        name: str,
        *,
        label: str | None = None,
        requires: str | Sequence[str] = (),
        devices: str | Sequence[str] | None = None,
        supports: Callable[[Case], str | None] | None = None,
        available: Callable[[], str | None] | None = None,
        factory: bool = False,
        moved_bytes: Callable[[Case], int] | None = None,
        sources: str | Path | Sequence[str | Path] = (),
        out: str | Sequence[str] = (),
        mutates: Sequence[str] | Mapping[str, str] | None = None,
    ) -> Callable[[_Function], _Function]:
        """Register the decorated function as a provider of this operator.

        The function takes the operator's inputs and returns its outputs: a tensor, or a tuple if there are several. A config
        may sweep its keyword-only arguments. An argument with the name of one of the operator's scalars or choices gets its
        value from the case instead. A function without such an argument gets only cases with the default value, but for
        choices that name the dtype of a tensor: `supports` declines those dtypes that it cannot take.

        label      the name in plots. Default: `name`
        requires   the importable package or packages that the provider needs
        devices    the device type or types that it runs on. Default: any. See `ACCELERATORS`
        supports   `(case) -> str | None`: the reason to decline a case, None to accept it
        available  `() -> str | None`: the reason why it cannot run on this machine, None when it can
        factory    True when the function takes `(case, **params)` and returns the function of the inputs. Its time counts
                   as building, not as running
        moved_bytes  `(case) -> int`: the bytes that the implementation moves, if it moves more than the algorithm needs
        sources    other files with code of the provider. A row's `source_hash` covers them, the function's own file, the `.cu`
                   files that these name, and the headers that they include
        out        names of outputs that the function writes into buffers. It gets each buffer as a keyword argument with the
                   name of the output, and does not return that output
        mutates    inputs that the function changes, instead of the operator's `mutates`: names, or input -> output that the
                   input holds after the call. The function does not return that output

        Raises ValueError for a name that is taken or not allowed, and for a file of `sources` that does not exist. A name has
        no commas or brackets, as `--only a,b` and `a[block=2]` could not be read otherwise. See also results/names.py.
        """
        _check_named(self.name, "provider", name)
        for each in (name, *([] if label is None else [label])):
            if why := fault(each):
                raise ValueError(f"provider {_shown(each)} of {self.name!r}: {why}")
        if set(name) & set(",[]"):
            raise ValueError(
                f"provider {name!r} of {self.name!r}: commas and square brackets are not allowed in a name"
            )
        out, holds = names(out), held(self.mutates if mutates is None else mutates)
        self._check_delivery(name, out, holds)
        files = tuple(map(Path, [sources] if isinstance(sources, str | Path) else sources))
        if missing := [str(path) for path in files if not path.exists()]:
            raise ValueError(
                f"provider {name!r} of {self.name!r}: sources= names {missing[0]}, which does not exist; write "
                f'Path(__file__).with_name("...") for a file beside yours'
            )

        def register(function: _Function) -> _Function:
            if name in self.providers:
                raise ValueError(f"{self.name!r} has a provider {name!r} already; choose another name")
            keywords = {k: v for k, v in keyword_only(function).items() if k not in out}
            self._check_keywords(name, keywords)
            ours = {**self.scalars, **{word: words[0] for word, words in self.choices.items()}}
            named = named_after(1 if factory else len(self.inputs), function)
            from_case = tuple(k for k in ours if k in named or (takes_any(function) and k not in self.dtype_choices))
            self.providers[name] = Provider(
                name=name,
                operator=self.name,
                function=function,
                label=label or name,
                requires=names(requires),
                devices=None if devices is None else names(devices),
                supports=supports,
                available=available,
                factory=factory,
                moved_bytes=moved_bytes,
                sources=files,
                plugin=current_plugin(),
                parameters=_parameters(keywords, ours),
                from_case=from_case,
                fixed={k: v for k, v in ours.items() if k not in from_case and k not in self.dtype_choices},
                out=out,
                mutates=holds,
            )
            return function

        return register

    def backward(
        self,
        provider: str,
        *,
        saves: Sequence[str] | Callable[..., Any] | None = None,
        mutates: Sequence[str] | Mapping[str, str] = (),
    ) -> Callable[[_Function], _Function]:
        """Register the decorated function as the backward kernel of a provider. A provider whose forward function is
        differentiable needs none.

        The function takes the gradients of the floating-point outputs, then the inputs, then `saved` if there is `saves`. It
        returns the gradients of the inputs in `gradients`: a tensor, or a tuple if there are several. Its keyword-only
        arguments are those of a provider.

        saves  what it needs from the forward pass. Names of outputs: `saved` is a tuple of them. Or a forward function that
               also saves: it takes what the provider's function takes, and returns `(outputs, saved)` with the same outputs. In
               mode `backward` kbench calls it outside the timed window. In mode `full` kbench times it together with the
               backward kernel, in place of the provider's function
        mutates  tensors that the kernel overwrites with a gradient, which it then does not return: names of inputs, or
               tensor -> input whose gradient it holds after the call. The tensor may also be a gradient that the kernel
               receives: `{"gradient of y": "x"}`. What the forward pass saved must not change

        Raises ValueError if the provider does not exist or has a backward kernel already.
        """
        _check_named(self.name, "backward", provider)
        saved = saves if saves is None or callable(saves) else names(saves)
        where = f"backward kernel of provider {provider!r} of {self.name!r}"
        self._check_passes(where, provider)
        if self.providers[provider].backward is not None:
            raise ValueError(f"{where}: the provider has a backward kernel already")
        if isinstance(saved, tuple) and (unknown := [name for name in saved if name not in self.outputs]):
            raise ValueError(
                f"{where}: saves {unknown[0]!r}, which is not one of the outputs {', '.join(self.outputs)}"
            )

        holds = held(mutates)
        self._check_gradient_places(where, holds)

        def register(function: _Function) -> _Function:
            forward, keywords = self.providers[provider], keyword_only(function)
            self._check_keywords(provider, keywords)
            own = _parameters(keywords, {**self.scalars, **self.choices})
            self.providers[provider] = replace(
                forward,
                parameters={**own, **forward.parameters},
                backward=Backward(function, saved, self._by_name(function, keywords), holds),
            )
            return function

        return register

    def full(
        self, provider: str, *, mutates: Sequence[str] | Mapping[str, str] = ()
    ) -> Callable[[_Function], _Function]:
        """Register the decorated function as the forward and the backward pass of a provider in one call, for mode `full`.

        It suits an operator whose gradients can be computed as soon as the outputs are, such as a loss. The function takes the
        gradients of the floating-point outputs, then the inputs. It returns `(outputs, gradients)`: each a tensor, or a tuple
        if there are several. Its keyword-only arguments are those of a provider. In mode `full` kbench calls it in place of
        the provider's function and of its backward kernel.

        mutates  as for `backward`. If every gradient is in such a tensor, the function returns `(outputs, None)`

        Raises ValueError if the provider does not exist or has such a function already.
        """
        _check_named(self.name, "full", provider)
        where = f"function for both passes of provider {provider!r} of {self.name!r}"
        self._check_passes(where, provider)
        if self.providers[provider].full is not None:
            raise ValueError(f"{where}: the provider already has such a function")
        holds = held(mutates)
        self._check_gradient_places(where, holds)

        def register(function: _Function) -> _Function:
            forward, keywords = self.providers[provider], keyword_only(function)
            self._check_keywords(provider, keywords)
            own = _parameters(keywords, {**self.scalars, **self.choices})
            self.providers[provider] = replace(
                forward,
                parameters={**own, **forward.parameters},
                full=BothPasses(function, self._by_name(function, keywords), holds),
            )
            return function

        return register

    def _by_name(self, function: _Function, keywords: Mapping[str, Any]) -> tuple[str, ...]:
        """The arguments of a backward kernel that it gets by name: after a gradient and the inputs, also without a `*`."""
        ours, named = {*self.scalars, *self.choices}, named_after(1 + len(self.inputs), function)
        return (*keywords, *sorted(name for name in named & ours if name not in keywords))

    def _check_passes(self, where: str, provider: str) -> None:
        if not self.gradients:
            raise ValueError(
                f"{where}: the operator declares no gradients; list in gradients= the inputs that have a gradient"
            )
        if provider not in self.providers:
            raise ValueError(f"{where}: there is no such provider; register its forward function first")

    def _check_delivery(self, provider: str, out: tuple[str, ...], holds: Mapping[str, str]) -> None:
        where, outputs = f"provider {provider!r} of {self.name!r}", ", ".join(self.outputs)
        for name in out:
            if name not in self.outputs:
                raise ValueError(f"{where}: out= names {name!r}, which is not one of the outputs {outputs}")
        for name, output in holds.items():
            if name not in self.inputs:
                raise ValueError(f"{where}: mutates {name!r}, which is not one of the inputs {', '.join(self.inputs)}")
            if output not in self.outputs:
                raise ValueError(
                    f"{where}: mutates= says that {name} holds {output!r} after the call, which is not one of the outputs "
                    f"{outputs}; write mutates={{{name!r}: OUTPUT}}"
                )
            if self.inputs[name].layout != self.outputs[output].layout:
                raise ValueError(f"{where}: {name} cannot hold {output}, which has other sizes or another dtype")
        delivered = [*out, *holds.values()]
        if len(set(delivered)) < len(delivered):
            raise ValueError(
                f"{where}: the same output is named twice; name each output only once, either in out= or in mutates="
            )

    def _check_gradient_places(self, where: str, holds: Mapping[str, str]) -> None:
        places = {**{f"gradient of {name}": tensor for name, tensor in self.outputs.items()}, **self.inputs}
        for name, gradient in holds.items():
            if name not in places:
                raise ValueError(f"{where}: mutates {name!r}, which is not one of {', '.join(map(repr, places))}")
            if gradient not in self.gradients:
                what = f"mutates: {name} holds the gradient of {gradient!r}"
                raise ValueError(
                    f"{where}: {what}, but the operator declares gradients only of {', '.join(self.gradients)}"
                )
            if places[name].layout != self.inputs[gradient].layout:
                what = f"{name} cannot hold the gradient of {gradient}"
                raise ValueError(f"{where}: {what}, which has other sizes or another dtype")
        if len(set(holds.values())) < len(holds):
            raise ValueError(f"{where}: two tensors hold the same gradient; name each gradient once in mutates=")

    def _check_keywords(self, provider: str, keywords: Mapping[str, Any]) -> None:
        for keyword in keywords:
            if why := fault(keyword):
                raise ValueError(f"provider {provider!r} of {self.name!r}: parameter {_shown(keyword)}: {why}")
            if keyword in self.axes:
                what = f"parameter {keyword} has the name of an axis"
                of_inputs = {axis for tensor in self.inputs.values() for size in tensor.sizes for axis in axes_of(size)}
                remedy = "read the size from the inputs, or " if keyword in of_inputs else "no input has its size; "
                remedy += (
                    "register with factory=True: kbench then calls your function with the case, and your function returns "
                    "another function, which takes the inputs"
                )
                raise ValueError(f"provider {provider!r} of {self.name!r}: {what}; {remedy}")


registered: dict[str, Operator] = {}
"""The operators of this process by name. `kbench.registry` looks them up."""


def _register(operator: Operator) -> None:
    """Raises ValueError if the name is taken."""
    name = operator.name
    if name in shipped():
        import_shipped(name)  # so that a plug-in cannot take the name
    if name in registered:
        raise ValueError(f"operator {name!r} exists already; add providers to it with kbench.operator({name!r})")
    registered[name] = operator


def _check_named(operator: str, method: str, name: object) -> None:
    """Raises ValueError for a decorator that was written without the name of the provider: it gets the function instead."""
    if callable(name):
        function = getattr(name, "__name__", type(name).__name__)
        example = function if method == "provider" else "NAME"
        what = f"{method} of {operator!r}: the name of the provider is missing above {function}"
        raise ValueError(f'{what}; write @{operator}.{method}("{example}")')


def _parameters(keywords: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Value]:
    """The keyword-only arguments that a config sweeps, with their defaults."""
    return {k: None if v is inspect.Parameter.empty else v for k, v in keywords.items() if k not in ours}


def _shown(name: object) -> str:
    """A name as an error message shows it."""
    return printable(repr(name), 60)

"""An operator: what its author declares, the checks of that, and the providers that are registered with it."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kbench.contract.models import DIMENSIONS, TOKENS
from kbench.contract.names import fault, taken
from kbench.contract.origin import current_plugin, import_shipped, shipped
from kbench.contract.provider import (
    GradientKernel,
    Provider,
    keyword_only,
    named_after,
    positional_count,
    takes_any,
)
from kbench.contract.sizes import axes_of
from kbench.contract.tensor import SAME, Tensor, Tolerance, total_bytes
from kbench.results.case import (
    BACKWARD,
    FORWARD,
    FULL,
    INTEGER_LIMIT,
    ITEMSIZE,
    LIKE_NUMBER,
    MODES,
    Case,
    Value,
)
from kbench.text.printable import printable
from kbench.text.suggest import unknown

if TYPE_CHECKING:
    import torch

_Function = TypeVar("_Function", bound=Callable[..., Any])

Count = Callable[["Case"], int] | Callable[["Case", Mapping[str, "torch.Tensor"]], int]
"""The work of a call, as a case says, or a case and the inputs that were drawn for it."""


class Remark(str):
    """What a `check` returns for outputs that pass, if it shows too little to trust them. It does not fail a row."""


@dataclass
class Operator:
    """A mathematical function of named tensors. Making an Operator registers it.

    name       the operator's name in configs
    axes       names of the integer axes, in the order of the CSV's columns
    inputs     the tensors that it takes, by name and in order. Each says its axes, its dtype and how it is filled
    outputs    the tensors that it returns, by name and in order
    reference  `(*inputs, **scalars and choices) -> output`, or a tuple of outputs: the mathematical definition. Floating-point
               inputs arrive as float64, all others (labels, masks) unchanged. A keyword-only argument with the name of a
               scalar, a choice or an axis gets its value from the case, and `dtype` the name of the case's dtype
    scalars    numbers and booleans that a config can sweep: name -> default. A size of a tensor may be one. kbench tries other
               sizes of axes only
    choices    parameters that are words: name -> allowed values. The first value is the default. A choice that a tensor names
               as its dtype has dtypes as values, and `same` for the dtype of the case. Functions need not take such a choice,
               as they see the dtypes of their inputs. A provider declines dtypes that it cannot take with `supports`. A
               scalar or a choice that only says how a function fills inputs, such as the distribution of lengths, is an
               argument of neither the reference nor the providers
    rows       the axis of independent rows, if there is one: each row of every output depends on the same row of the inputs
               only. kbench then computes the reference of large outputs in slices along this axis, which saves memory. It
               slices the tensors that have this axis, and passes all others whole. A gradient without this axis is the sum
               over the slices. A reference that gives other values on half of the rows is an error of the operator
    gradients  the inputs that have a gradient. They give the modes `backward` and `full`
    mutates    the inputs that every provider changes: names, or input -> output that it holds after the call. A name alone
               means that the output has the same name. A single provider may say so too: see `provider`
    tolerance  the error that float32 arithmetic may have, in units in the last place of float32: a number, or a function of
               the case. kbench allows it in addition to `output_ulps` (see measure/correctness/elements.py). 64 is enough for
               most operators. A sequential sum of K terms needs up to 8 + 2 * sqrt(K)
    output_ulps  the error that rounding an output may have, in units in the last place of its dtype. The default, 2, also
               allows a kernel to round an intermediate result to that dtype. 1 allows the final rounding only
    scale      `(case, output, *inputs) -> tensor`, for an operator with one output: the magnitude at which float32 units are
               taken, for each element. Units of the output's dtype are then taken at `|output|`. `output` and `inputs` are
               those of the reference. Without a scale, kbench estimates the magnitude of the terms of each element and takes
               all units there (see measure/correctness/error_scale.py). That matters where terms cancel, as in layer
               normalisation
    check      `(case, inputs, outputs, expected) -> str | None`, each a dict by name: another judge of the outputs' values,
               for operators that have no single right answer. It returns what is wrong, in words, or None. It gets all
               rows at once. A mapping from outputs to such functions says which outputs they judge. kbench judges the
               others, and gradients. It still checks shapes, dtypes and changed inputs of all
    bytes      `(case) -> int`: the algorithmic bytes. Default: each input read once, each output written once (backward: the
               gradients of the outputs and the inputs read, the gradients of the inputs written; full: both). GB/s is these
               bytes per second. `case.mode` is the mode. Where the work depends on the values of inputs (lengths, routing):
               `(case, inputs) -> int`, with the drawn inputs by name
    flops      the floating-point operations, a function as for `bytes`. They give TFLOP/s and the share of the speed of light
    model_axes what the axes are in a language model, so that a sweep can name models: axis -> dimension, such as
               `{"M": "tokens", "N": "hidden"}`. The dimensions are in contract/models.py; `tokens` comes from the sweep. A
               value may be arithmetic on dimensions, such as `(heads + 2*kv_heads)*head_dim`. For an operator that a model
               uses with several shapes, such as a matrix product, it is a list of such mappings with the same axes. A model
               that lacks a dimension of a mapping has no such shape
    edges      name -> `(case, *inputs) -> tuple of tensors`: edge inputs for `kbench check`. They take the place of some of
               those of measure/correctness/common_edges.py
    dtypes     the dtypes that the operator is defined for. The first is the default
    source     the text that defines it, if that is no Python file. kbench compares no rows of different texts
    providers  the operator's providers by name. `provider` adds to them
    declared_at  the `file:line` of the declaration

    Raises ValueError for a name that is taken or not allowed (see names.py), and for declarations that contradict each
    other.
    """

    name: str
    axes: Sequence[str]
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
    reference: Callable[..., torch.Tensor | Sequence[torch.Tensor]]
    scalars: Mapping[str, int | float | bool] = field(default_factory=dict)
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rows: str | None = None
    gradients: Sequence[str] = ()
    mutates: Sequence[str] | Mapping[str, str] = ()
    tolerance: Tolerance = 64.0
    output_ulps: float = 2.0
    scale: Callable[..., torch.Tensor] | None = None
    check: Callable[..., str | None] | Mapping[str, Callable[..., str | None]] | None = None
    bytes: Count | None = None
    flops: Count | None = None
    model_axes: Mapping[str, str] | Sequence[Mapping[str, str]] = ()
    edges: Mapping[str, Callable[..., tuple[torch.Tensor, ...]]] = field(default_factory=dict)
    dtypes: tuple[str, ...] = ("float32", "float16", "bfloat16")
    source: str = ""
    providers: dict[str, Provider] = field(default_factory=dict)
    declared_at: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        caller = sys._getframe(2)  # of `__init__`
        self.declared_at = f"{caller.f_code.co_filename}:{caller.f_lineno}"
        self.axes, self.gradients, self.dtypes = names(self.axes), names(self.gradients), names(self.dtypes)
        self.mutates = input_to_output(self.mutates)
        for why in _faults(self):
            raise ValueError(f"operator {_quoted(self.name)}: {why}")
        if self.name in shipped():
            import_shipped(self.name)  # so that a plug-in cannot take the name
        if self.name in registered:
            advice = f"add providers to it with kbench.operator({self.name!r})"
            if registered[self.name].declared_at == self.declared_at:
                advice = "its file is imported twice: do not list a plug-in that another plug-in imports"
            raise ValueError(f"operator {self.name!r} exists already; {advice}")
        registered[self.name] = self

    @property
    def model_shapes(self) -> tuple[Mapping[str, str], ...]:
        """The mappings of `model_axes`: one for each shape that a model has."""
        return (self.model_axes,) if isinstance(self.model_axes, Mapping) else tuple(self.model_axes)

    @property
    def dtype_choices(self) -> frozenset[str]:
        """The choices that name the dtype of a tensor."""
        named = (tensor.dtype for tensor in (*self.inputs.values(), *self.outputs.values()))
        return frozenset(name for name in named if name is not None and name in self.choices)

    @property
    def of_inputs(self) -> frozenset[str]:
        """The scalars and choices that say only how the inputs are: their dtypes, and what the reference does not take. No
        function needs to take them."""
        named = named_after(len(self.inputs), self.reference)
        unnamed = frozenset() if takes_any(self.reference) else {*self.scalars, *self.choices} - named
        return self.dtype_choices | unnamed

    @property
    def judges(self) -> tuple[Callable[..., str | None], ...]:
        """The functions of `check`."""
        if self.check is None:
            return ()
        return tuple(dict.fromkeys(self.check.values())) if isinstance(self.check, Mapping) else (self.check,)

    @property
    def judged(self) -> tuple[str, ...]:
        """The outputs whose values `check` judges in place of kbench."""
        if self.check is None:
            return ()
        return tuple(self.check if isinstance(self.check, Mapping) else self.outputs)

    def dtypes_of(self, tensor: Tensor) -> tuple[str, ...]:
        """The dtypes that a tensor has in the cases of the operator."""
        if tensor.dtype is None:
            return self.dtypes
        words = self.choices.get(tensor.dtype, (tensor.dtype,))
        return tuple(dict.fromkeys(dtype for word in words for dtype in (self.dtypes if word == SAME else (word,))))

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

    def call_bytes(self, case: Case, inputs: Mapping[str, torch.Tensor]) -> int:
        """The algorithmic bytes of a call with these inputs. Raises whatever `bytes` raises, and SizeError."""
        if self.bytes is not None:
            return counted(self.bytes, case, inputs)
        read, written = total_bytes(self.inputs.values(), case), total_bytes(self.outputs.values(), case)
        forward = read + written
        received = total_bytes(self.output_gradients(case).values(), case)
        backward = received + read + total_bytes((self.inputs[name] for name in self.gradients), case)
        return {
            FORWARD: forward,
            BACKWARD: backward,
            FULL: forward + backward,
        }[case.mode]

    def output_gradients(self, case: Case) -> dict[str, Tensor]:
        """The gradients that a backward call receives, by the names of the outputs: one per floating-point output."""
        return {name: tensor for name, tensor in self.outputs.items() if tensor.is_floating(case)}

    def provider(
        self,
        name: str,
        *,
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
        no commas or brackets, as `--only a,b` and `a[block=2]` could not be read otherwise. See also results/row.py.
        """
        where = f"provider {_quoted(name)} of {self.name!r}"
        if why := fault(name):
            raise ValueError(f"{where}: {why}")
        if set(name) & set(",[]"):
            raise ValueError(f"{where}: commas and square brackets are not allowed in a name")
        name = self._name_here(name)
        if name in self.providers:
            raise ValueError(f"{self.name!r} has a provider {name!r} already; choose another name")
        written, holds = names(out), input_to_output(self.mutates if mutates is None else mutates)
        for why in _mutates_faults(holds, self.inputs, self.outputs, written):
            raise ValueError(f"{where}: {why}")
        files = tuple(map(Path, [sources] if isinstance(sources, str | Path) else sources))
        if missing := [str(path) for path in files if not path.exists()]:
            remedy = 'write Path(__file__).with_name("...") for a file beside yours'
            raise ValueError(f"{where}: sources= names {missing[0]}, which does not exist; {remedy}")

        def register(function: _Function) -> _Function:
            keywords = {k: v for k, v in keyword_only(function).items() if k not in written}
            defaults = self._defaults
            named = named_after(1 if factory else len(self.inputs), function)
            if takes_any(function):
                named |= defaults.keys() - self.of_inputs
            from_case = tuple(k for k in defaults if k in named)
            self.providers[name] = Provider(
                name=name,
                operator=self.name,
                function=function,
                requires=names(requires),
                devices=None if devices is None else names(devices),
                supports=supports,
                available=available,
                factory=factory,
                moved_bytes=moved_bytes,
                sources=files,
                plugin=current_plugin(),
                parameters=self._parameters(where, keywords),
                from_case=from_case,
                fixed={k: v for k, v in defaults.items() if k not in from_case and k not in self.of_inputs},
                out=written,
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
        return self._gradient_kernel("backward", "backward kernel", provider, mutates, saves)

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
        return self._gradient_kernel("full", "function for both passes", provider, mutates)

    def _gradient_kernel(
        self,
        method: str,
        kind: str,
        provider: str,
        mutates: Sequence[str] | Mapping[str, str],
        saves: Sequence[str] | Callable[..., Any] | None = None,
    ) -> Callable[[_Function], _Function]:
        here = self._name_here(provider)
        provider = here if here in self.providers else provider
        where, holds = f"{kind} of provider {provider!r} of {self.name!r}", input_to_output(mutates)
        if not self.gradients:
            message = "the operator declares no gradients"
            raise ValueError(f"{where}: {message}; list in gradients= the inputs that have a gradient")
        if provider not in self.providers:
            raise ValueError(f"{where}: there is no such provider; register its forward function first")
        if getattr(self.providers[provider], method) is not None:
            raise ValueError(f"{where}: the provider has one already")
        saved = saves if saves is None or callable(saves) else names(saves)
        places = {**{f"gradient of {name}": tensor for name, tensor in self.outputs.items()}, **self.inputs}
        faults = _mutates_faults(holds, places, {name: self.inputs[name] for name in self.gradients})
        for why in (*_strange("saves", saved if isinstance(saved, tuple) else (), self.outputs), *faults):
            raise ValueError(f"{where}: {why}")

        def register(function: _Function) -> _Function:
            keywords, named = keyword_only(function), named_after(1 + len(self.inputs), function)
            by_name = sorted(name for name in named & {*self.scalars, *self.choices} if name not in keywords)
            taken = {*keywords, *by_name, *self.of_inputs}
            fixed = {} if saved else {k: v for k, v in self._defaults.items() if k not in taken}
            kernel = GradientKernel(function, (*keywords, *by_name), holds, saved, fixed)
            registered_provider = self.providers[provider]
            parameters = {**self._parameters(where, keywords), **registered_provider.parameters}
            self.providers[provider] = replace(registered_provider, parameters=parameters, **{method: kernel})  # type: ignore[arg-type]
            return function

        return register

    @property
    def _defaults(self) -> dict[str, Value]:
        """The scalars and the choices with their defaults."""
        return {**self.scalars, **{choice: values[0] for choice, values in self.choices.items()}}

    def _name_here(self, name: str) -> str:
        """The name of a provider of the file that is being imported: `mine@new` if another file has a provider `mine`, as two
        versions of a kernel often have."""
        plugin, taken = current_plugin(), self.providers.get(name)
        other_file = plugin and taken and taken.plugin and taken.plugin != plugin
        return f"{name}@{Path(str(plugin)).stem}" if other_file else name

    def _parameters(self, where: str, keywords: Mapping[str, Any]) -> dict[str, Value]:
        """The keyword-only arguments that a config sweeps, with their defaults. Raises ValueError."""
        for keyword in keywords:
            if why := fault(keyword):
                raise ValueError(f"{where}: parameter {_quoted(keyword)}: {why}")
            if keyword in self.axes:
                of_inputs = any(keyword in tensor.axes for tensor in self.inputs.values())
                remedy = "read the size from the inputs, or " if of_inputs else "no input has its size; "
                remedy += "register with factory=True: kbench then calls your function with the case, and your function"
                remedy += " returns another function, which takes the inputs"
                raise ValueError(f"{where}: parameter {keyword} has the name of an axis; {remedy}")
        case_arguments = {*self.scalars, *self.choices}
        return {k: None if v is inspect.Parameter.empty else v for k, v in keywords.items() if k not in case_arguments}


registered: dict[str, Operator] = {}
"""The operators of this process by name. `registry.operator` looks them up."""


def takes_inputs(count: Count) -> bool:
    """Whether a count takes the drawn inputs beside the case."""
    return positional_count(count) > 1


def counted(count: Count, case: Case, inputs: Mapping[str, torch.Tensor]) -> int:
    """What a count says of a case with these inputs. Raises whatever it raises."""
    function: Callable[..., int] = count
    return function(case, inputs) if takes_inputs(count) else function(case)


def input_to_output(mutates: Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    """`mutates` as input -> output: an input without an output holds the output of its own name."""
    return dict(mutates) if isinstance(mutates, Mapping) else {name: name for name in names(mutates)}


def names(name_or_names: str | Sequence[str]) -> tuple[str, ...]:
    """Several names, or one name that was given by itself."""
    return (name_or_names,) if isinstance(name_or_names, str) else tuple(name_or_names)


def _quoted(name: object) -> str:
    """A name as an error message shows it."""
    return printable(repr(name), 60)


# -- what is wrong with a declaration


def _faults(operator: Operator) -> Iterator[str]:
    if why := fault(operator.name):
        yield why
    for name, tensor in (*operator.inputs.items(), *operator.outputs.items()):
        if not isinstance(tensor, Tensor):
            yield f'tensor {_quoted(name)} is {_quoted(tensor)}; write kbench.Tensor with its sizes, such as kbench.Tensor("M")'
    yield from _column_faults(operator)
    for field_name in ("inputs", "outputs", "dtypes"):
        if not getattr(operator, field_name):
            yield f"{field_name} is empty; name at least one"
    yield from _strange("dtypes", operator.dtypes, ITEMSIZE)
    yield from _tensor_faults(operator)
    yield from _row_faults(operator)
    for shape in operator.model_shapes:
        if shape.keys() != operator.model_shapes[0].keys():
            yield "model_axes: all mappings must have the same axes; add the axes that are missing in some of them"
        yield from _strange("model_axes", shape, operator.axes)
        for axis, size in shape.items():
            yield from _strange(f"model_axes: {axis}", sorted(axes_of(size)), [TOKENS, *DIMENSIONS])
    yield from _strange("gradients", operator.gradients, operator.inputs)
    yield from _strange("check", operator.judged, operator.outputs)
    yield from _mutates_faults(input_to_output(operator.mutates), operator.inputs, operator.outputs)
    if not any(callable(tensor.fill) for tensor in operator.inputs.values()):
        for name in sorted(operator.of_inputs - operator.dtype_choices):
            yield f"the reference has no argument {name}; add it as a keyword-only argument"
    yield from _number_faults(operator)
    if operator.scale is not None and len(operator.outputs) > 1:
        yield "scale works with one output only; leave it out, and kbench estimates the scale of every output"


def _strange(subject: str, names: Iterable[str], allowed: Iterable[str]) -> Iterator[str]:
    """A sentence on each given name that is not a known one."""
    for name in names:
        if name not in allowed:
            yield f"{subject}: {unknown('name', name, list(allowed))}"


def _column_faults(operator: Operator) -> Iterator[str]:
    columns = (*operator.axes, *operator.scalars, *operator.choices)
    for name in columns:
        if why := fault(name):
            yield f"axis, scalar or choice {_quoted(name)}: {why}"
        if why := taken(name) or ("is declared twice" if columns.count(name) > 1 else ""):
            yield f"{name!r} {why}; rename the axis, scalar or choice"
    for name, words in operator.choices.items():
        if isinstance(words, str) or not words:
            yield f"choices: {name} is {words!r:.80}; it must be a tuple of words, and the first is the default"
        for word in words:
            if why := fault(word):
                yield f"choice value {_quoted(word)}: {why}"
            elif LIKE_NUMBER.fullmatch(word) or word.lower() in ("true", "false"):
                yield f"choice value {_quoted(word)} reads as a number or a boolean; declare a scalar, or use another word"
    for name, value in operator.scalars.items():
        whole = isinstance(value, int) and abs(value) < INTEGER_LIMIT
        if not whole and not (isinstance(value, float) and math.isfinite(value)):
            must = "it must be a finite number, True or False; an integer must be below 2^63"
            yield f"the default of scalar {name} is {_quoted(value)}; {must}"


def _tensor_faults(operator: Operator) -> Iterator[str]:
    columns = {*operator.axes, *operator.scalars, *operator.choices}
    for name, tensor in (*operator.inputs.items(), *operator.outputs.items()):
        if why := fault(name):
            yield f"tensor {_quoted(name)}: {why}"
        if name in columns:
            yield f"the name {name!r} is used both for a tensor and for an axis, scalar or choice; rename one of them"
        yield from _strange(f"axes of {name}", sorted(tensor.axes), [*operator.axes, *operator.scalars])
        yield from _strange(f"dtype of {name}", filter(None, [tensor.dtype]), [*ITEMSIZE, *operator.choices])
    for choice in sorted(operator.dtype_choices):
        subject = f"choice {choice}, which sets the dtype of a tensor"
        yield from _strange(subject, operator.choices[choice], [SAME, *ITEMSIZE])
    for name, tensor in operator.inputs.items():
        try:
            for dtype in operator.dtypes_of(tensor):
                tensor.fill_for(dtype)
        except ValueError as error:
            yield f"{name}: {error}"


def _row_faults(operator: Operator) -> Iterator[str]:
    rows = operator.rows
    if rows is None:
        return
    yield from _strange("rows", [rows], operator.axes)
    for name, tensor in (*operator.inputs.items(), *operator.outputs.items()):
        if [rows in axes_of(size) for size in tensor.sizes].count(True) > (rows in tensor.sizes):
            rule = f"at most one dimension may have the size {rows}, and none a size computed from {rows} (2*{rows})"
            yield f"rows={rows!r} does not work with {name}: {rule}"
    for name, tensor in operator.outputs.items():
        if rows not in tensor.sizes:
            yield f"rows={rows!r}: output {name} has no axis {rows}, so it has no independent rows; leave rows out"


def _mutates_faults(
    holds: Mapping[str, str], places: Mapping[str, Tensor], results: Mapping[str, Tensor], out: Sequence[str] = ()
) -> Iterator[str]:
    """`holds` says which of the `places` holds which of the `results` after a call. `out` are results that have buffers."""
    yield from _strange("out", out, results)
    yield from _strange("mutates", holds, places)
    for name, result in holds.items():
        if result not in results:
            right = f"write mutates={{{name!r}: OUTPUT}} with one of {', '.join(results)}"
            yield f"mutates: {name} cannot hold {result!r}, which is not returned; {right}"
        elif name in places and places[name].layout != results[result].layout:
            yield f"mutates: {name} cannot hold {result}, which has other sizes or another dtype"
    delivered = [*out, *holds.values()]
    if len(set(delivered)) < len(delivered):
        yield "the same output is named twice; name each output only once, either in out= or in mutates="


def _number_faults(operator: Operator) -> Iterator[str]:
    numbers: dict[str, object] = {"tolerance": operator.tolerance, "output_ulps": operator.output_ulps}
    for name, tensor in (*operator.inputs.items(), *operator.outputs.items()):
        numbers |= {f"tolerance of {name}": tensor.tolerance, f"ulps of {name}": tensor.ulps}
    for subject, value in numbers.items():
        by_case = callable(value) and subject != "output_ulps"
        if value is not None and not by_case and not (isinstance(value, (int, float)) and 0 <= value < math.inf):
            yield f"{subject} is {value!r:.80}; it must be a number that is not negative"

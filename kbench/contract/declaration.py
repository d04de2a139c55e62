"""What an operator declares: the fields of `kbench.Operator`. Its methods are in kbench/contract/operator.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kbench.contract.layout import SAME
from kbench.contract.provider import Provider
from kbench.contract.tensor import Tensor, Tolerance
from kbench.results.case import Case

if TYPE_CHECKING:
    import torch


@dataclass
class Declaration:
    """A mathematical function of named tensors. Making an Operator registers it.

    name       the operator's name in configs
    axes       names of the integer axes, in the order of the CSV's columns
    inputs     the tensors that it takes, by name and in order. Each says its axes, its dtype and how it is filled
    outputs    the tensors that it returns, by name and in order
    reference  `(*inputs, **scalars and choices) -> output`, or a tuple of outputs: the mathematical definition. Floating-point
               inputs arrive as float64, all others (labels, masks) unchanged. A keyword-only argument with the name of a
               scalar, a choice or an axis gets its value from the case, and `dtype` the name of the case's dtype
    scalars    numbers and booleans that a config can sweep: name -> default
    choices    parameters that are words: name -> allowed values. The first value is the default. A choice that a tensor names
               as its dtype has dtypes as values, and `same` for the dtype of the case. Functions need not take such a choice,
               as they see the dtypes of their inputs. A provider declines dtypes that it cannot take with `supports`
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
               rows at once. kbench still checks shapes, dtypes and changed inputs, and judges gradients itself
    bytes      `(case) -> int`: the algorithmic bytes. Default: each input read once, each output written once (backward: the
               gradients of the outputs and the inputs read, the gradients of the inputs written; full: both). GB/s is these
               bytes per second. `case.mode` is the mode
    flops      `(case) -> int`: the floating-point operations. They give TFLOP/s and the share of the speed of light
    model_axes what the axes are in a language model, so that a sweep can name models: axis -> dimension, such as
               `{"M": "tokens", "N": "hidden"}`. The dimensions are in contract/models.py; `tokens` comes from the sweep. A
               value may be arithmetic on dimensions, such as `(heads + 2*kv_heads)*head_dim`. For an operator that a model
               uses with several shapes, such as a matrix product, it is a list of such mappings with the same axes. A model
               that lacks a dimension of a mapping has no such shape
    edges      name -> `(case, *inputs) -> tuple of tensors`: edge inputs for `kbench check`. An operator without edges gets
               those of measure/correctness/common_edges.py
    dtypes     the dtypes that the operator is defined for. The first is the default
    source     the text that defines it, if that is no Python file. kbench compares no rows of different texts
    providers  the operator's providers by name. `provider` adds to them

    Raises ValueError for a name that is taken or not allowed (see results/names.py), and for declarations that contradict each
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
    check: Callable[..., str | None] | None = None
    bytes: Callable[[Case], int] | None = None
    flops: Callable[[Case], int] | None = None
    model_axes: Mapping[str, str] | Sequence[Mapping[str, str]] = ()
    edges: Mapping[str, Callable[..., tuple[torch.Tensor, ...]]] = field(default_factory=dict)
    dtypes: tuple[str, ...] = ("float32", "float16", "bfloat16")
    source: str = ""
    providers: dict[str, Provider] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.axes, self.gradients, self.mutates = names(self.axes), names(self.gradients), held(self.mutates)

    @property
    def model_shapes(self) -> tuple[Mapping[str, str], ...]:
        """The mappings of `model_axes`: one for each shape that a model has."""
        return (self.model_axes,) if isinstance(self.model_axes, Mapping) else tuple(self.model_axes)

    @property
    def dtype_choices(self) -> frozenset[str]:
        """The choices that name the dtype of a tensor."""
        named = (tensor.dtype for tensor in (*self.inputs.values(), *self.outputs.values()))
        return frozenset(name for name in named if name is not None and name in self.choices)

    def dtypes_of(self, tensor: Tensor) -> tuple[str, ...]:
        """The dtypes that a tensor has in the cases of the operator."""
        if tensor.dtype is None:
            return self.dtypes
        words = self.choices.get(tensor.dtype, (tensor.dtype,))
        return tuple(dict.fromkeys(each for word in words for each in (self.dtypes if word == SAME else (word,))))


def held(mutates: Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    """`mutates` as input -> output: an input without an output holds the output of its own name."""
    return dict(mutates) if isinstance(mutates, Mapping) else {name: name for name in names(mutates)}


def names(given: str | Sequence[str]) -> tuple[str, ...]:
    """Several names, or one name that was given by itself."""
    return (given,) if isinstance(given, str) else tuple(given)

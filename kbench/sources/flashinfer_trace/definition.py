"""Reads a definition: its axes, its tensors and its reference."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kbench.contract.sizes import SizeError, axes_of
from kbench.contract.tensor import Tensor
from kbench.results.case import FLOATING, ITEMSIZE
from kbench.sources.flashinfer_trace.located_json import JsonValue, read_json


@dataclass(frozen=True)
class DefinitionFile:
    """A definition.

    constants  the sizes of its constant axes
    axes       its variable axes
    derived    its axes that are computed from others, as sizes
    inputs     the tensors and, with None, the scalars that its functions take, in order
    scalars    the dtypes of the scalars
    outputs    the tensors that it returns; a scalar is a tensor without dimensions
    reference  the code of the function `run`
    custom     the function in that code which makes inputs; None if there is none
    """

    file: Path
    json: JsonValue
    name: str
    constants: Mapping[str, int]
    axes: tuple[str, ...]
    derived: Mapping[str, str]
    inputs: Mapping[str, Tensor | None]
    scalars: Mapping[str, str]
    outputs: Mapping[str, Tensor]
    reference: str
    custom: str | None

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The inputs that are tensors."""
        return {name: tensor for name, tensor in self.inputs.items() if tensor is not None}

    @property
    def dtype(self) -> str:
        """The dtype that names its cases: that of the first floating-point output, or else of the first output."""
        dtypes = [str(tensor.dtype) for tensor in self.outputs.values()]
        return next((dtype for dtype in dtypes if dtype in FLOATING), dtypes[0])


def read_definition(file: Path) -> DefinitionFile:
    """The definition in a file. Raises SourceFault at the first thing that is wrong."""
    json = read_json(file)
    json.mapping()
    constants: dict[str, int] = {}
    derived: dict[str, str] = {}
    axes: list[str] = []
    for name, axis in json.at("axes").mapping().items():
        axis.mapping()
        kind = axis.at("type").word(("const", "var", "expr"))
        if kind == "const":
            constants[name] = axis.at("value").whole()
        elif kind == "expr":
            derived[name] = _expression(axis.at("expression"), constants, derived)
        else:
            axes.append(name)
    sizes = {**{name: str(value) for name, value in constants.items()}, **derived, **{name: name for name in axes}}
    inputs = {name: _tensor(spec, sizes) for name, spec in json.at("inputs").mapping().items()}
    if not any(inputs.values()):
        raise json.at("inputs").fault("there is no input with a shape; kbench needs a tensor to call a provider with")
    outputs = {name: _tensor(spec, sizes) for name, spec in json.at("outputs").mapping().items()}
    if not outputs:
        raise json.at("outputs").fault("there are no outputs; declare at least one")
    scalars = {
        name: _dtype(json.at("inputs").at(name).at("dtype")) for name, tensor in inputs.items() if tensor is None
    }
    return DefinitionFile(
        file=file,
        json=json,
        name=json.at("name").word(),
        constants=constants,
        axes=tuple(axes),
        derived=derived,
        inputs=inputs,
        scalars=scalars,
        outputs={
            name: tensor or Tensor(dtype=_dtype(json.at("outputs").at(name).at("dtype")))
            for name, tensor in outputs.items()
        },
        reference=json.at("reference").word(),
        custom=json.at("custom_inputs_entrypoint").word() if "custom_inputs_entrypoint" in json else None,
    )


def _tensor(spec: JsonValue, sizes: Mapping[str, str]) -> Tensor | None:
    """A tensor, or None for a scalar."""
    spec.mapping()
    dtype = _dtype(spec.at("dtype"))
    if spec.at("shape").value is None:
        return None
    found = []
    for size in spec.at("shape").elements():
        word = str(size.value)
        if word not in sizes and not word.isdigit():
            raise size.fault(f"{spec.name} has the axis {word}, which is not one of {', '.join(sizes)}")
        found.append(sizes.get(word, word))
    return Tensor(*found, dtype=dtype)


def _dtype(value: JsonValue) -> str:
    dtype = value.word()
    if dtype not in ITEMSIZE:
        raise value.fault(f"dtype {dtype} is not supported; kbench has {', '.join(ITEMSIZE)}")
    return dtype


def _expression(value: JsonValue, constants: Mapping[str, int], derived: Mapping[str, str]) -> str:
    """The size that an axis of type `expr` has, in variable axes. Constants and derived axes before it are written out."""
    known = {**{name: str(number) for name, number in constants.items()}, **derived}

    class WrittenOut(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return ast.parse(known[node.id], mode="eval").body if node.id in known else node

    try:
        tree = ast.parse(value.word(), mode="eval")
        size = f"({ast.unparse(WrittenOut().visit(tree))})"
        axes_of(size)
    except (SyntaxError, SizeError, RecursionError):
        what = (
            f"the expression {value.value!r:.80} is not supported; it may have axes, whole numbers, + - * / // and ()"
        )
        raise value.fault(what) from None
    return size

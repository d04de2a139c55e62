"""Checks what an operator declares, when it is made: names, sizes, dtypes, and whether they fit together."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from kbench.contract.declaration import Declaration
from kbench.contract.fills import Integers, Normal, Uniform
from kbench.contract.layout import SAME
from kbench.contract.models import DIMENSIONS, TOKENS
from kbench.contract.signature import named_after, takes_any
from kbench.contract.sizes import SizeError, axes_of
from kbench.contract.tensor import Tensor
from kbench.results.case import FLOATING, INTEGER_LIMIT, ITEMSIZE, LIKE_NUMBER
from kbench.results.names import fault, taken, value_fault
from kbench.text.printable import printable
from kbench.text.suggest import unknown


def check_operator(operator: Declaration) -> None:
    """Raises ValueError with the first thing that is wrong."""
    if why := fault(operator.name):
        raise ValueError(f"operator {_shown(operator.name)}: {why}")
    for why in _faults(operator):
        raise ValueError(f"operator {operator.name!r}: {why}")


def _faults(operator: Declaration) -> Iterator[str]:
    yield from _mapping_faults(operator)
    yield from _column_faults(operator)
    yield from _dtype_faults(operator)
    yield from _tensor_faults(operator)
    yield from _row_faults(operator)
    yield from _model_faults(operator)
    yield from _gradient_faults(operator)
    yield from _mutation_faults(operator)
    yield from _reference_faults(operator)
    yield from _function_faults(operator)
    if operator.scale is not None and len(operator.outputs) > 1:
        yield "scale works with one output only; leave it out, and kbench estimates the scale of every output"


def _mapping_faults(operator: Declaration) -> Iterator[str]:
    for name, what, like in (
        ("scalars", "defaults", '{"eps": 1e-6}'),
        ("choices", "tuples of words", '{"approximate": ("tanh", "none")}'),
        ("edges", "functions", '{"zeros": lambda case, x: (x * 0,)}'),
    ):
        if not isinstance(getattr(operator, name), Mapping):
            yield f"{name} must be a dict from names to {what}, for example {like}"


def _column_faults(operator: Declaration) -> Iterator[str]:
    seen: set[str] = set()
    for name in (*operator.axes, *operator.scalars, *operator.choices):
        if why := fault(name):
            yield f"axis, scalar or choice {_shown(name)}: {why}"
        if why := taken(name) or ("is declared twice" if name in seen else ""):
            yield f"{name!r} {why}; rename the axis, scalar or choice"
        seen.add(name)
    for name, words in operator.choices.items():
        if isinstance(words, str) or not words:
            yield f"choices: {name} is {words!r:.80}; it must be a tuple of words, and the first is the default"
    for word in itertools.chain(*operator.choices.values()):
        if why := fault(word):
            yield f"choice value {_shown(word)}: {why}"
        elif LIKE_NUMBER.fullmatch(word) or word.lower() in ("true", "false"):
            yield f"choice value {_shown(word)} reads as a number or a boolean; declare a scalar, or use another word"
    for name, value in operator.scalars.items():
        number = (
            abs(value) < INTEGER_LIMIT if isinstance(value, int) else isinstance(value, float) and math.isfinite(value)
        )
        if not number:
            must = "it must be a finite number, True or False; an integer must be below 2^63"
            yield f"the default of scalar {name} is {_shown(value)}; {must}"
    for edge in operator.edges:  # no name of a column or a file: only `check` shows it
        if why := value_fault(edge):
            yield f"edge input {_shown(edge)}: {why}"


def _dtype_faults(operator: Declaration) -> Iterator[str]:
    if not operator.dtypes:
        yield "dtypes is empty; name at least one dtype"
    for dtype in operator.dtypes:
        if dtype not in ITEMSIZE:
            yield f"unknown dtype {_shown(dtype)}; use {', '.join(ITEMSIZE)}"


def _tensor_faults(operator: Declaration) -> Iterator[str]:
    columns = {*operator.axes, *operator.scalars, *operator.choices}
    for kind, tensors in (("inputs", operator.inputs), ("outputs", operator.outputs)):
        if not isinstance(tensors, Mapping) or not tensors:
            yield f'{kind} must be a dict from names to tensors, and not empty, for example {{"x": Tensor("M", "N")}}'
            return
        for name, tensor in tensors.items():
            if why := fault(name):
                yield f"{kind}: tensor {_shown(name)}: {why}"
            if not isinstance(tensor, Tensor):
                yield f"{kind}: {name} is {type(tensor).__name__}; it must be a kbench.Tensor"
                return
            if name in columns:
                yield f"the name {name!r} is used both for a tensor and for an axis, scalar or choice; rename one of them"
            if unknown := sorted(tensor.axes - set(operator.axes)):
                what = f"{name} has the axis {unknown[0]}, which is not one of {', '.join(operator.axes)}"
                yield what + _as_tuple(operator, tensor)
            if tensor.dtype not in (None, *ITEMSIZE, *operator.choices):
                yield f"{name} has the unknown dtype {_shown(tensor.dtype)}; use {', '.join(ITEMSIZE)}, or a choice"
                return
    for choice in sorted(operator.dtype_choices):
        for word in operator.choices[choice]:
            if word not in (SAME, *ITEMSIZE):
                must = f"this choice sets the dtype of a tensor, so each of its values must be {SAME} or a dtype"
                yield f"choices: {choice} has the word {_shown(word)}; {must}"
                return
    for name, tensor in operator.inputs.items():
        yield from (f"{name}: {why}" for why in _fill_faults(operator, tensor))
    for name, tensor in operator.outputs.items():
        if tensor.fill is not None:
            yield f"output {name} has a fill, but kbench fills inputs only; remove it"


def _as_tuple(operator: Declaration, tensor: Tensor) -> str:
    """What to write if all axes of a tensor were declared as one name, as in `axes="MN"`."""
    [whole, *others] = operator.axes or ("",)
    if others or len(whole) == 1 or not all(axis in whole for axis in tensor.axes):
        return ""
    names = tuple(sorted(tensor.axes, key=whole.index))
    return f"; axes must be a tuple of names, for example axes={names!r}"


def _fill_faults(operator: Declaration, tensor: Tensor) -> Iterator[str]:
    try:
        for dtype in operator.dtypes_of(tensor):
            fill = tensor.fill_for(dtype)
            if isinstance(fill, Integers):
                bounds = [axes_of(bound) for bound in (fill.low, fill.high) if isinstance(bound, str)]
                if unknown := sorted(frozenset[str]().union(*bounds) - set(operator.axes)):
                    yield f"its fill has the axis {unknown[0]}, which is not one of {', '.join(operator.axes)}"
            elif not isinstance(fill, (Normal, Uniform)) and not callable(fill):
                yield f"its fill is {_shown(fill)}; use normal(), uniform(), integers() or a function"
    except ValueError as error:
        yield str(error)


def _row_faults(operator: Declaration) -> Iterator[str]:
    rows = operator.rows
    if rows is None:
        return
    if rows not in operator.axes:
        yield f"rows is {rows!r}, which is not one of the axes {', '.join(operator.axes)}"
    for name, tensor in (*operator.inputs.items(), *operator.outputs.items()):
        if any(size != rows and rows in Tensor(size).axes for size in tensor.sizes) or tensor.sizes.count(rows) > 1:
            yield (
                f"rows={rows!r} does not work with {name}: at most one dimension may have the size {rows}, "
                f"and sizes computed from {rows} (2*{rows}) are not allowed"
            )
    for name, tensor in operator.outputs.items():
        if rows not in tensor.sizes:
            yield f"rows={rows!r}: output {name} has no axis {rows}, so it has no independent rows; leave rows out"


def _model_faults(operator: Declaration) -> Iterator[str]:
    several = isinstance(operator.model_axes, Sequence) and not isinstance(operator.model_axes, str)
    shapes = operator.model_shapes if several or isinstance(operator.model_axes, Mapping) else (None,)
    for product in shapes:
        if not isinstance(product, Mapping) or not product:
            like = '{"M": "tokens", "N": "hidden"}'
            yield f"model_axes must be a dict from axes to dimensions, for example {like}, or a list of such dicts"
            return
        for axis, size in product.items():
            if axis not in operator.axes:
                yield f"model_axes: {axis!r} is not one of the axes {', '.join(operator.axes)}"
            try:
                parts = axes_of(size)
            except SizeError as error:
                yield f"model_axes: {axis}: {error}"
                return
            for part in sorted(parts - {*DIMENSIONS, TOKENS}):
                yield f"model_axes: {axis}: {unknown('dimension', part, [TOKENS, *DIMENSIONS])}"
    if len({frozenset(product) for product in operator.model_shapes}) > 1:
        yield "model_axes: all mappings must have the same axes; add the axes that are missing in some of them"


def _gradient_faults(operator: Declaration) -> Iterator[str]:
    for name in operator.gradients:
        if operator.gradients.count(name) > 1:
            yield f"gradients: {name} is named twice"
        if name not in operator.inputs:
            yield f"gradients: {name!r} is not one of the inputs {', '.join(operator.inputs)}"
        elif not any(dtype in FLOATING for dtype in operator.dtypes_of(operator.inputs[name])):
            dtypes = "/".join(operator.dtypes_of(operator.inputs[name]))
            yield f"gradients: {name} is {dtypes}, which has no gradient"
    if operator.gradients and not any(d in FLOATING for t in operator.outputs.values() for d in operator.dtypes_of(t)):
        yield "gradients: no output has a floating-point dtype; leave gradients out"


def _mutation_faults(operator: Declaration) -> Iterator[str]:
    assert isinstance(operator.mutates, dict)
    for name, output in operator.mutates.items():
        if name not in operator.inputs:
            yield f"mutates: {name!r} is not one of the inputs {', '.join(operator.inputs)}"
        elif output not in operator.outputs:
            what = f"mutates: {name} is to receive {output!r}, which is not one of the outputs {', '.join(operator.outputs)}"
            yield f"{what}; write mutates={{{name!r}: OUTPUT}}"
        elif operator.inputs[name].layout != operator.outputs[output].layout:
            yield f"mutates: {name} cannot hold {output}, which has other sizes or another dtype"
        elif list(operator.mutates.values()).count(output) > 1:
            yield f"mutates: two inputs hold {output}; name each output once"


def _reference_faults(operator: Declaration) -> Iterator[str]:
    if not callable(operator.reference):
        yield f"reference is {type(operator.reference).__name__}; it must be a function"
        return
    named = named_after(len(operator.inputs), operator.reference)
    for name in (*operator.scalars, *(choice for choice in operator.choices if choice not in operator.dtype_choices)):
        if name not in named and not takes_any(operator.reference):
            yield f"the reference has no argument {name}; add it as a keyword-only argument"


def _function_faults(operator: Declaration) -> Iterator[str]:
    functions = {name: getattr(operator, name) for name in ("scale", "check", "bytes", "flops")}
    functions |= {f"edge input {name}": function for name, function in operator.edges.items()}
    for name, function in functions.items():
        if function is not None and not callable(function):
            yield f"{name} is {type(function).__name__}; it must be a function"
    numbers: dict[str, object] = {"tolerance": operator.tolerance, "output_ulps": operator.output_ulps}
    for name, tensor in (*operator.inputs.items(), *operator.outputs.items()):
        numbers |= {f"tolerance of {name}": tensor.tolerance, f"ulps of {name}": tensor.ulps}
    for name, value in numbers.items():
        by_case = name != "output_ulps"
        if value is None or (by_case and callable(value)):
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
            kinds = "a number that is not negative" + (", or a function" if by_case else "")
            yield f"{name} is {value!r:.80}; it must be {kinds}"


def _shown(name: object) -> str:
    return printable(repr(name), 60)

"""The sizes of axes that follow from a model and a number of tokens: `sweep: {model: llama-3-8b, tokens: [1, 4096]}`.

The operator says which dimension of a model each of its axes has (`model_axes`), and kbench/contract/models.py has the
dimensions. An axis with sizes of its own keeps these.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping

from kbench.config.document import Node
from kbench.config.values import ReportIssue, read_integers
from kbench.contract.models import MODELS, TOKENS
from kbench.contract.sizes import SizeError, axes_of, evaluate
from kbench.protocol import OperatorInfo
from kbench.text.suggest import unknown
from kbench.text.words import list_words

MODEL = "model"
"""The key of a sweep that names models."""

Point = tuple[dict[str, int], str]
"""Sizes of axes, and the model that they are of: "" if they depend on tokens only."""


def points_of_models(operator: str, info: OperatorInfo, node: Node, report: ReportIssue) -> list[Point]:
    """The points of a mapping: one for each model, each shape that the model has for the operator, and each number of tokens.
    A model without experts has no layer of experts, for example. Mistakes are reported; then there is no point."""
    present, points = node.entries, list[Point]()
    counts = read_integers(TOKENS, present[TOKENS], report) if TOKENS in present else [None]
    for place in present[MODEL].elements if MODEL in present else [node]:
        model = "" if place is node else str(place.value)
        if model and model not in MODELS:
            report(place.where, unknown("model", place.plain, list(MODELS)))
            continue
        dimensions = MODELS[model].dimensions if model else {}
        available = {*dimensions, *([TOKENS] if TOKENS in present else [])}
        shapes = [
            {axis: size for axis, size in shape.items() if axis not in present or axis == TOKENS}
            for shape in info.model_axes
        ]
        fitting = [sizes for sizes in shapes if all(axes_of(size) <= available for size in sizes.values())]
        if not fitting:
            report(place.where, _lacking(operator, shapes[0], available, model))
        for sizes, count in itertools.product(fitting, counts):
            label = model if any(axes_of(size) - {TOKENS} for size in sizes.values()) else ""
            try:
                numbers = {**dimensions, TOKENS: count}
                points.append(({axis: evaluate(size, numbers) for axis, size in sizes.items()}, label))
            except SizeError as error:
                report(place.where, f"{error} of {model}")
    return points


def _lacking(operator: str, sizes: Mapping[str, str], available: Collection[str], model: str) -> str:
    axis, size = next((axis, size) for axis, size in sizes.items() if not axes_of(size) <= set(available))
    names = sorted(axes_of(size) - set(available))
    need = f"{operator} takes the sizes of {axis} from {size}"
    if model and TOKENS not in names:
        return f"{need}, but {model} has no {list_words(names)}; leave the model out, or give sizes of {axis}"
    return f"{need}; give {TOKENS if TOKENS in names else 'a model'}, or sizes of {axis}"


def without_sizes_of_models(sweep: Node, over: Node, info: OperatorInfo) -> Node:
    """A sweep without the axes that `model` and `tokens` of a later sweep give, so that a profile with `model` replaces the
    sizes of the config, as a profile with sizes does."""
    if isinstance(sweep.value, list):
        elements = [without_sizes_of_models(element, over, info) for element in sweep.value]
        return Node(elements, sweep.where, sweep.key)
    keys = {name for name in (MODEL, TOKENS) if name in over.entries}
    replaced = {
        axis
        for shape in info.model_axes
        for axis, size in shape.items()
        if (TOKENS in keys and TOKENS in axes_of(size)) or (MODEL in keys and axes_of(size) - {TOKENS})
    }
    return Node({name: node for name, node in sweep.entries.items() if name not in replaced}, sweep.where, sweep.key)

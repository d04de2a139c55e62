"""The sizes of axes that follow from a model and a number of tokens: `sweep: {model: llama-3-8b, tokens: [1, 4096]}`.

The operator says which dimension of a model each of its axes has (`model_axes`), and kbench/models.py has the dimensions. An
axis with sizes of its own keeps these.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kbench.config.points import MAX_SIZE, ReportIssue, read_integers
from kbench.config.yaml_source import Node
from kbench.contract.sizes import SizeError, axes_of, evaluate
from kbench.models import MODELS, TOKENS
from kbench.protocol import OperatorInfo
from kbench.text.suggest import list_words, unknown

MODEL = "model"
"""The key of a sweep that names models."""


@dataclass(frozen=True)
class ModelPoint:
    """The sizes of the axes that follow from a model and a number of tokens.

    model  the name of the model if all axes that depend on a model have its sizes; otherwise ""
    """

    axes: Mapping[str, int] = field(default_factory=dict)
    model: str = ""


class ModelAxes:
    """Resolves `model` and `tokens` of a sweep against one operator. Calls `report` for what is wrong."""

    def __init__(self, operator: str, info: OperatorInfo, report: ReportIssue) -> None:
        self.operator = operator
        self.info = info
        self.report = report
        self.keys = tuple(name for name in (MODEL, TOKENS) if info.model_axes or name not in info.columns)
        """The keys of a sweep that this class reads."""

    def points(self, node: Node) -> list[ModelPoint]:
        """A point for every model, product of the operator and number of tokens; one empty point for a mapping without the keys
        `model` and `tokens`. The list is empty if something is wrong."""
        present = node.entries
        keys = [name for name in self.keys if name in present]
        if not keys:
            return [ModelPoint()]
        if not self.info.model_axes:
            example = f'model_axes={{"{self.info.axes[0]}": "tokens", ...}}'
            what = f"{self.operator} takes no sizes from a model"
            sizes = f"remove the keys {MODEL} and {TOKENS}, and give sizes of {' and '.join(self.info.axes)}"
            remedy = f"{sizes}; in an operator of your own, you can declare {example}"
            self.report(present[keys[0]].key, f"{what}; {remedy}")
            return []
        tokens = read_integers(TOKENS, present[TOKENS], self.report) if TOKENS in present else [None]
        if MODEL not in present:
            return self._points_of(node, node, "", tokens)
        found = []
        for element in present[MODEL].elements:
            if isinstance(element.value, str) and element.value in MODELS:
                found += self._points_of(node, element, element.value, tokens)
            else:
                self.report(element.where, unknown("model", element.plain, list(MODELS)))
        return found

    def _points_of(self, node: Node, place: Node, name: str, tokens: Sequence[int | None]) -> list[ModelPoint]:
        """The points of one model, or of no model if there is no name."""
        known = dict(MODELS[name].dimensions) if name else {}
        given = {*known, *([TOKENS] if TOKENS in node.entries else [])}
        wanted = [self._open_axes(product, node.entries) for product in self.info.model_axes]
        lacking = [{part for size in sizes.values() for part in axes_of(size)} - given for sizes in wanted]
        if all(lacking):
            self._report_lack(node, place, name, wanted[0], lacking[0])
            return []
        points = []
        for product, sizes, lack in zip(self.info.model_axes, wanted, lacking, strict=True):
            if lack:  # the model has no such product: no layer without experts, for example
                continue
            of_model = {axis for axis, size in product.items() if axes_of(size) - {TOKENS}}
            label = name if of_model and of_model <= sizes.keys() else ""
            for count in tokens:
                axes = self._evaluate(place, sizes, known if count is None else {**known, TOKENS: count})
                points += [] if axes is None else [ModelPoint(axes, label)]
        return points

    def _open_axes(self, product: Mapping[str, str], present: Collection[str]) -> dict[str, str]:
        """The axes of a product that have no sizes of their own. An axis called tokens has those of that key."""
        return {axis: size for axis, size in product.items() if axis not in present or axis == TOKENS}

    def _evaluate(self, place: Node, sizes: Mapping[str, str], dimensions: Mapping[str, int]) -> dict[str, int] | None:
        try:
            found = {axis: evaluate(size, dimensions) for axis, size in sizes.items()}
        except SizeError as error:
            self.report(place.where, f"{error} of {place.plain}")
            return None
        if large := [axis for axis, size in found.items() if size > MAX_SIZE]:
            self.report(place.where, f"{large[0]} is {found[large[0]]} here; at most {MAX_SIZE} is allowed")
            return None
        return found

    def _report_lack(self, node: Node, place: Node, name: str, wanted: Mapping[str, str], lack: set[str]) -> None:
        """Report why no product of the operator has sizes: the first of them lacks the dimensions `lack`."""
        axis, size = next((axis, size) for axis, size in wanted.items() if axes_of(size) & lack)
        means = f"{self.operator} takes the sizes of {axis} from {size}"
        if TOKENS in lack and axes_of(size) == {TOKENS}:
            self.report(
                node.entries[MODEL].key, f"{means}; give tokens, for example tokens: [1, 4096], or sizes of {axis}"
            )
        elif not name:
            self.report(node.where, f"sweep: no values for {axis}; give sizes of {axis}, or a model ({means})")
        else:
            missing = list_words(sorted(axes_of(size) & lack))
            self.report(
                place.where, f"{means}, but {name} has no {missing}; leave the model out, or give sizes of {axis}"
            )


def without_replaced_axes(sweep: Node, over: Node, info: OperatorInfo) -> Node:
    """A sweep without the axes that `model` and `tokens` of a later sweep give, so that a profile with `model` replaces the
    sizes of the config, as a profile with sizes does."""
    if isinstance(sweep.value, list):
        return Node([without_replaced_axes(each, over, info) for each in sweep.value], sweep.where, sweep.key)
    replaced = {
        axis
        for product in info.model_axes
        for axis, size in product.items()
        if (TOKENS in over.entries and TOKENS in axes_of(size)) or (MODEL in over.entries and axes_of(size) - {TOKENS})
    }
    return Node({name: node for name, node in sweep.entries.items() if name not in replaced}, sweep.where, sweep.key)

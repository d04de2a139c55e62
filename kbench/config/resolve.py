"""Resolves a config: looks its names up in a worker's catalog, and writes its ranges out as cases and configurations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kbench.config.derived_sizes import without_value
from kbench.config.model_axes import MODEL, ModelAxes
from kbench.config.points import read_integers, read_scalars, read_words
from kbench.config.schema import Measure
from kbench.config.shapes_file import WEIGHT, ShapesFile
from kbench.config.yaml_source import Node
from kbench.errors import ConfigIssue, SourceLocation
from kbench.models import TOKENS
from kbench.protocol import Configuration, OperatorInfo
from kbench.results.case import COMMA_OUTSIDE, DTYPE_ALIASES, Case
from kbench.results.names import value_fault
from kbench.text.suggest import as_written, candidates, list_words, nearest, unknown

MAX_CASES = 1_000_000
MAX_CONFIGURATIONS = 1_000


@dataclass(frozen=True)
class Sweep:
    """A config with every name looked up and every range written out.

    path               the config file, as the user named it
    text               its source
    operator           name of the operator
    axes               names of the axis columns: the operator's axes, then its scalars, its choices and `mode`
    cases              in the order of the file, each once
    configurations     in the order of the file
    baseline           name of the configuration that speedup is relative to; None when `--only` leaves it out
    measure            how to measure
    info               the operator, as the catalog describes it
    plugins            absolute paths of plug-in files
    profile            name of the profile in effect
    profile_automatic  whether the profile applies only because there is no accelerator
    models             by `Case.key`, the names of the models that have this case, between semicolons
    weights            by `Case.key`, how often the case occurs, if the config was run with `--shapes`
    source             the script or problem that the worker made the config of; "" for a config file
    """

    path: Path
    text: str
    operator: str
    axes: tuple[str, ...]
    cases: tuple[Case, ...]
    configurations: tuple[Configuration, ...]
    baseline: str | None
    measure: Measure
    info: OperatorInfo
    plugins: tuple[str, ...]
    profile: str | None
    profile_automatic: bool
    models: Mapping[Any, str] = field(default_factory=dict)
    weights: Mapping[Any, float] = field(default_factory=dict)
    source: str = ""


@dataclass(frozen=True)
class CrossProduct:
    """The values of every column and of dtype, the mapping of the config that they stand in, and the model that they are of."""

    node: Node
    values: dict[str, Sequence[Any]]
    model: str = ""

    @property
    def count(self) -> int:
        return math.prod(map(len, self.values.values()))


@dataclass
class ResolvedCases:
    """Cases in the order of the config, each once. For `models` and `weights` see Sweep."""

    cases: dict[Any, Case] = field(default_factory=dict)
    models: dict[Any, str] = field(default_factory=dict)
    weights: dict[Any, float] = field(default_factory=dict)

    def add(self, case: Case, model: str) -> None:
        self.cases.setdefault(case.key, case)
        known = self.models.get(case.key, "").split(";")
        if model and model not in known:
            self.models[case.key] = ";".join([*filter(None, known), model])


class ConfigResolver:
    """Resolves the parts of a config against one operator, and collects in `issues` what is wrong with them.

    `failures` describes the installed plug-ins that could not be imported: an unknown provider may belong to one.
    """

    def __init__(self, name: str, operator: OperatorInfo, failures: str) -> None:
        self.operator = name
        self.info = operator
        self.axes = operator.axes
        self.scalars = operator.scalars
        self.words = {"dtype": operator.dtypes, **operator.choices}
        self.columns = operator.columns
        self.providers = operator.providers
        self.failures = failures
        self.issues: list[ConfigIssue] = []
        self.model_axes = ModelAxes(name, operator, self.report)

    def report(self, where: SourceLocation, message: str) -> None:
        self.issues.append(ConfigIssue(where, message))

    def resolve_cases(self, sweep: Node, shapes: ShapesFile | None = None) -> ResolvedCases:
        """The cases of all cross products. The last axis varies fastest. Shapes replace the sizes of the sweep."""
        found = ResolvedCases()
        if shapes is None:
            self._add_products(found, sweep, sweep.elements)
            return found
        self._check_columns(shapes)
        taken = {*self.axes, *self.model_axes.keys}
        rests = [{name: node for name, node in each.entries.items() if name not in taken} for each in sweep.elements]
        weights: dict[Any, float] = {}
        for shape in shapes.rows if not self.issues else ():
            point = shape.point
            cases = self._add_products(
                found, point, [Node(rest | point.entries, point.where, point.key) for rest in rests]
            )
            if self.issues:  # further lines would probably have the same problem
                break
            for key in cases:
                weights[key] = weights.get(key, 0.0) + shape.weight
        if WEIGHT in shapes.columns or any(weight != 1 for weight in weights.values()):
            found.weights = weights
        return found

    def _add_products(self, found: ResolvedCases, sweep: Node, nodes: Sequence[Node]) -> set[Any]:
        """Add the cases of some mappings. Returns their keys: none if something is wrong."""
        products = [product for node in nodes for product in self._resolve_products(node)]
        count = len(found.cases) + sum(product.count for product in products)
        if count > MAX_CASES:
            self.report(sweep.where, f"sweep: {count:,} cases; the limit is {MAX_CASES:,}")
        if not self.issues:
            for product in products:
                self._check_sizes(product)
        keys = set()
        for product in products if not self.issues else ():
            for values in itertools.product(*product.values.values()):
                case = self._case(dict(zip(product.values, values, strict=True)))
                found.add(case, product.model)
                keys.add(case.key)
        return keys

    def _check_columns(self, shapes: ShapesFile) -> None:
        """Report columns of a file of shapes that the operator does not have."""
        known = [*self.axes, *self.words, *self.scalars, *self.model_axes.keys, WEIGHT]
        for name, where in shapes.columns.items():
            if name not in known:
                self.report(where, unknown("column", name, candidates(name, known, shapes.columns)))
        lacking = [name for name in self.axes if name not in shapes.columns]
        if lacking and not self.issues and not any(name in shapes.columns for name in self.model_axes.keys):
            self.report(
                shapes.where, f"no column for {' and '.join(lacking)} of {self.operator}; add it to the first line"
            )

    def _case(self, point: Mapping[str, Any]) -> Case:
        return Case(self.operator, {name: point[name] for name in self.columns}, point["dtype"])

    def _resolve_products(self, node: Node) -> list[CrossProduct]:
        """The values of dtype, every choice, every scalar and every axis. Only axes have no default. A mapping with models has
        a cross product for each model and number of tokens."""
        present = node.entries
        points = self.model_axes.points(node)
        resolved = points[0].axes if points else {}  # all points have the same axes
        without = [name for name in self.axes if name not in present and name not in resolved]
        missing = without if points else []
        for name, values in present.items():
            if name not in self.columns and name != "dtype" and name not in self.model_axes.keys:
                near = self._report_unknown(name, values, present)
                missing = [axis for axis in missing if axis != near]
        if missing:
            example = f"give sizes, for example {missing[0]}: [1024, 4096]"
            self.report(node.where, f"sweep: no values for {' and '.join(missing)}; {example}")
        product: dict[str, Sequence[Any]] = {}
        for name, words in self.words.items():
            known = {word: word for word in words}
            if name == "dtype":
                known |= {alias: dtype for alias, dtype in DTYPE_ALIASES.items() if dtype in known}
            product[name] = read_words(name, known, present[name], self.report) if name in present else words[:1]
        for name, default in self.scalars.items():
            product[name] = read_scalars(name, default, present[name], self.report) if name in present else [default]
        sizes: dict[str, Sequence[int]] = {name: [] for name in self.axes}
        sizes |= {name: read_integers(name, present[name], self.report) for name in self.axes if name in present}
        if without:
            return []
        return [
            CrossProduct(node, product | sizes | {name: [size] for name, size in point.axes.items()}, point.model)
            for point in points
        ]

    def _report_unknown(self, name: str, values: Node, present: Mapping[str, Node]) -> str | None:
        """Report a key that the operator does not have. Returns the key that was probably meant."""
        if name == "mode":
            what = f"{self.operator} has no gradients, so it has no modes; remove mode"
            self.report(values.key, f"{what}, or declare gradients= in the operator")
            return None
        known = [*self.axes, *self.words, *self.scalars, *(self.model_axes.keys if self.info.model_axes else ())]
        # a bare key of --set may also be one of these
        others = [] if values.key.line else [*Measure.model_fields, "baseline"]
        options = candidates(name, [*known, *others], present)
        near = nearest(name, options)
        kind = "scalar" if near in self.scalars else "axis" if near in known or not others else "key"
        self.report(values.key, unknown(kind, name, options))
        return near

    def _check_sizes(self, product: CrossProduct) -> None:
        """Report the sizes of tensors that have no value at some point of a cross product."""
        present = product.node.entries
        for point, what in without_value(self.info, product.values):
            where = product.node.where
            if len(point) == 1:
                [(axis, size)] = point.items()
                source = present.get(axis) or present[MODEL if MODEL in present else TOKENS]
                where = next((each.where for each in source.elements if each.value == size), source.where)
            first = self._case({name: values[0] for name, values in product.values.items()} | point)
            self.report(where, f"sweep: {what}; the first such case is {first.label}; leave such sizes out")

    def resolve_configurations(self, providers: Node) -> tuple[Configuration, ...]:
        """One configuration per provider, or per combination of its parameters' values. The last parameter varies fastest.

        Returns none when one of them is wrong, so that no issue about a missing baseline follows from it.
        """
        found: dict[str, Configuration] = {}
        before = len(self.issues)
        for element in providers.elements:
            [(name, entry)] = element.entries.items() or [(str(element.value), element)]
            for configuration in self._resolve_provider(name, entry):
                if configuration.name in found:
                    self.report(entry.key, f'duplicate configuration "{configuration.name}"')
                found[configuration.name] = configuration
        return tuple(found.values()) if len(self.issues) == before else ()

    def _resolve_provider(self, name: str, entry: Node) -> list[Configuration]:
        error = None
        params = entry.entries
        if name in self.providers:
            known = list(self.providers[name].parameters)
            for param, node in params.items():
                if param in self.columns:
                    kind = "a scalar" if param in self.scalars else "an axis" if param in self.axes else "a choice"
                    self.report(node.key, f"{param} is {kind} of {self.operator}; move it to sweep")
                elif not known:
                    self.report(node.key, f"{name} takes no parameters; remove {as_written(param)}")
                elif param not in known:
                    self.report(node.key, unknown(f"{name} parameter", param, known))
            # in the provider's own order, so that a configuration has the same name in every config
            params = {param: params[param] for param in known if param in params}
        elif self.failures:
            error = self.failures
        else:
            self.report(entry.key, unknown("provider", name, list(self.providers)))
            return []
        for param, node in params.items():
            for element in node.elements:
                if isinstance(element.value, str) and (why := value_fault(element.value)):
                    self.report(element.where, f"{name} parameter {param}: {why}")
        values = [[element.plain for element in node.elements] for node in params.values()]
        count = math.prod(map(len, values))
        if count > MAX_CONFIGURATIONS:
            self.report(entry.key, f"{name}: {count:,} configurations; the limit is {MAX_CONFIGURATIONS:,}")
            return []
        return [
            Configuration(name, dict(zip(params, point, strict=True)), error) for point in itertools.product(*values)
        ]

    def resolve_baseline(self, node: Node | None, configurations: Sequence[Configuration]) -> str | None:
        """The name of the baseline. Without a node it is the first configuration."""
        if node is None:
            return configurations[0].name if configurations else None
        named = [one.name for one in configurations if node.value in (one.name, one.provider)]
        if node.value in named or len(named) == 1:
            return str(node.value) if node.value in named else named[0]
        if named:
            count = f"{len(named)} configurations"
            self.report(node.where, f'baseline "{node.value}" has {count}; name one: {list_words(named)}')
        elif configurations:
            self.report(node.where, unknown("baseline", node.value, _names(configurations)))
        return None

    def plugin_configurations(
        self, plugins: Sequence[str], configurations: Sequence[Configuration]
    ) -> tuple[Configuration, ...]:
        """The configurations, then the providers of these plug-ins that are not among them."""
        listed = {one.provider for one in configurations}
        new = [name for name, info in self.providers.items() if info.plugin in plugins and name not in listed]
        return (*configurations, *(Configuration(name, {}) for name in new))

    def select(self, options: Sequence[str], configurations: Sequence[Configuration]) -> tuple[Configuration, ...]:
        """The configurations that `--only` keeps: all of them without options. `--only` may also name a provider that the
        config does not list."""
        kept: dict[str, Configuration] = {}
        for option in options:
            where = SourceLocation(f"--only {option}")
            wanted = split_names(option)
            if not wanted:
                self.report(where, "expected providers or configurations, for example triton,cuda")
            for name in wanted:
                named = [one for one in configurations if name in (one.name, one.provider)]
                if not named and name in self.providers:
                    named = [Configuration(name, {})]
                elif not named and configurations:
                    known = list(dict.fromkeys([*_names(configurations), *self.providers]))
                    self.report(where, "; ".join(filter(None, [unknown("provider", name, known), self.failures])))
                kept.update((one.name, one) for one in named)
        listed = [one for one in configurations if not options or one.name in kept]
        return (*listed, *(one for one in kept.values() if one not in listed))


def split_names(text: str) -> list[str]:
    """The names of providers and configurations in the value of an option: `triton[block=64,warps=4],cuda` has two."""
    return [word.strip() for word in COMMA_OUTSIDE.split(text) if word.strip()]


def _names(configurations: Sequence[Configuration]) -> list[str]:
    """All words that name a configuration: the providers, then the full names."""
    return list(dict.fromkeys([one.provider for one in configurations] + [one.name for one in configurations]))

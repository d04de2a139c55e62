"""Resolves a config: looks its names up in one operator, and writes its ranges out as cases and configurations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kbench.config.document import WEIGHT, Node, scalar
from kbench.config.schema import MAX_SIZE, expected
from kbench.contract.models import MODELS, TOKENS
from kbench.contract.names import value_fault
from kbench.contract.sizes import SizeError, axes_of, evaluate
from kbench.errors import ConfigIssue, SourceLocation
from kbench.protocol import Configuration, Measure, OperatorInfo
from kbench.results.case import DTYPE_ALIASES, ITEMSIZE, Case
from kbench.text.suggest import as_written, candidates, nearest, unknown
from kbench.text.words import list_words, split_words

MODEL = "model"
"""The key of a sweep that names models."""

INTEGERS = "an integer, a list of integers, {pow2: [a, b]} or {start, stop, step}"

MAX_TASKS = 1_000_000
"""Highest number of cases times sessions. A run of this size takes weeks."""


class Resolver:
    """Resolves the parts of a config against one operator. It collects in `issues` what is wrong with them, and the cases with
    their models and weights as in `Plan`.

    `failures` describes the plug-ins that could not be imported: an unknown provider may belong to one.
    """

    def __init__(self, operator: str, info: OperatorInfo, failures: str) -> None:
        self.operator, self.info, self.failures = operator, info, failures
        self.words = {"dtype": info.dtypes, **info.choices}
        self.model_keys = tuple(name for name in (MODEL, TOKENS) if info.model_axes or name not in info.columns)
        self.has_weights = False
        self.issues: list[ConfigIssue] = []
        self.cases: dict[Case, None] = {}
        self.models: dict[Case, str] = {}
        self.weights: dict[Case, float] = {}

    def report(self, where: SourceLocation, message: str) -> None:
        self.issues.append(ConfigIssue(where, message))

    def add_cases(self, sweep: Node, shapes: Node | None, sessions: int) -> None:
        """Add the cases of all cross products. The last axis varies fastest. Shapes replace the sizes of the sweep."""
        if shapes is None:
            self._add_products(sweep.elements, sessions)
            return
        self.has_weights = True
        sizes = {*self.info.axes, *self.model_keys}
        rests = [
            {name: node for name, node in product.entries.items() if name not in sizes} for product in sweep.elements
        ]
        for line in shapes.elements:
            entries = dict(line.entries)
            [weight] = entries.pop(WEIGHT).elements if WEIGHT in entries else [Node(1, line.where, line.where)]
            if not isinstance(weight.value, (int, float)) or not 0 < weight.value < math.inf:
                self.report(weight.where, f"{WEIGHT}: expected a positive number; got {as_written(weight.plain)}")
                return
            for case in self._add_products([Node(rest | entries, line.where, line.key) for rest in rests], sessions):
                self.weights[case] = self.weights.get(case, 0.0) + weight.value
            if self.issues:  # further lines would probably have the same problem
                return
        if WEIGHT not in shapes.elements[0].entries and set(self.weights.values()) <= {1}:
            self.weights = {}

    def _add_products(self, nodes: Sequence[Node], sessions: int) -> set[Case]:
        """Add the cases of some mappings, and return them: none if something is wrong."""
        products = [(node, *product) for node in nodes for product in self._products(node)]
        count = len(self.cases) + sum(math.prod(map(len, values.values())) for _, values, _ in products)
        if count * sessions > MAX_TASKS:
            many = f"{count:,} cases" + (f" in {sessions} sessions" if sessions > 1 else "")
            self.report(nodes[0].where, f"sweep: {many}; the limit is {MAX_TASKS:,}")
        cases = set()
        for node, values, model in products if not self.issues else ():
            for point in itertools.product(*values.values()):
                chosen = dict(zip(values, point, strict=True))
                case = Case(self.operator, {name: chosen[name] for name in self.info.columns}, chosen["dtype"])
                if self._has_shapes(case, node):
                    self.cases.setdefault(case, None)
                    cases.add(case)
                    models = self.models.get(case, "").split(";")
                    if model and model not in models:
                        self.models[case] = ";".join([*filter(None, models), model])
        return cases

    def _has_shapes(self, case: Case, node: Node) -> bool:
        """Whether every tensor of a case has a shape: `N/2` is none at an odd N. Reports the first case without one."""
        tensors = {**self.info.inputs, **self.info.outputs}
        for name, size in ((name, size) for name, tensor in tensors.items() for size in tensor.sizes):
            try:
                evaluate(size, case.axes)
            except SizeError as error:
                if not self.issues:
                    places = [
                        value.where
                        for axis in axes_of(size) & node.entries.keys()
                        for value in node.entries[axis].elements
                        if value.value == case.axes[axis]
                    ]
                    message = f"sweep: {error}, so {name} has no shape; the first such case is {case.label}"
                    self.report((places or [node.where])[0], f"{message}; leave such sizes out")
                return False
        return True

    def _products(self, node: Node) -> list[tuple[dict[str, Sequence[Any]], str]]:
        """The cross products of a mapping: the values of dtype, every choice, every scalar and every axis, and the model that
        the axes have their sizes of. Only axes have no default. There is one product, or one for each shape of a model."""
        present, info = node.entries, self.info
        foreign_names = [name for name in present if name not in (*info.columns, "dtype", *self.model_keys)]
        meant = {self._report_unknown(name, present[name], present) for name in foreign_names}
        points = [(dict[str, int](), "")]
        if keys := [name for name in self.model_keys if name in present or name in meant]:
            points = []
            if not info.model_axes:
                message = (
                    f"{self.operator} takes no sizes from a model; give sizes of {' and '.join(info.axes)} instead"
                )
                self.report(present[keys[0]].key, message)
            elif meant.isdisjoint(keys):
                points = self._points_of_models(node)
        covered = {*present, *meant, *(points[0][0] if points else info.axes)}
        if missing := [name for name in info.axes if name not in covered]:
            example = f"give sizes, for example {missing[0]}: [1024, 4096]"
            self.report(node.where, f"sweep: no values for {' and '.join(missing)}; {example}")
        product: dict[str, Sequence[Any]] = {}
        for name, words in self.words.items():
            meanings = {word: word for word in words}
            if name == "dtype":
                meanings |= {alias: dtype for alias, dtype in DTYPE_ALIASES.items() if dtype in meanings}
            product[name] = self._words(name, meanings, present[name]) if name in present else words[:1]
        for name, default in info.scalars.items():
            product[name] = self._scalars(name, default, present[name]) if name in present else [default]
        for name in info.axes:
            product[name] = self._integers(name, present[name]) if name in present else []
        return [(product | {axis: [size] for axis, size in sizes.items()}, model) for sizes, model in points]

    def _integers(self, name: str, node: Node, least: int = 0, why: str = "") -> Sequence[int]:
        """Sizes of an axis, or values of an integer scalar, from `least` to MAX_SIZE. `why` says why others are wrong."""
        match node.plain:
            case {"pow2": [first, last]}:
                return [2**exponent for exponent in range(first, last + 1)]
            case {"start": start, "stop": stop, "step": step}:
                return range(start, stop + 1, step)
        values = []
        for element in node.elements:
            value = element.value
            if type(value) is not int:
                allowed = "an integer" + why if why or element is not node else INTEGERS
                self.report(element.where, expected(name, allowed, element.plain))
            elif not least <= value <= MAX_SIZE:
                allowed = f"at least {least}" if value < least else f"at most {MAX_SIZE}"
                self.report(element.where, expected(name, allowed, value))
            else:
                values.append(value)
        return values

    def _scalars(self, name: str, default: float, node: Node) -> Sequence[bool | int | float]:
        """Values of a scalar, in the type of its default. Integers and text such as "1e-6" are numbers too."""
        if type(default) is int:
            return self._integers(name, node, -MAX_SIZE, f", like the default {default}")
        values: list[bool | float] = []
        for element in node.elements:
            value = scalar(element.value) if isinstance(element.value, str) else element.value
            if isinstance(value, bool) != isinstance(default, bool) or not isinstance(value, (int, float)):
                allowed = "true or false" if isinstance(default, bool) else "a number"
                self.report(element.where, expected(name, allowed, element.plain))
            elif not math.isfinite(value):
                self.report(element.where, expected(name, "a finite number", element.plain))
            else:
                # -0.0 becomes 0.0, the same case
                values.append(value if isinstance(value, bool) else float(value) + 0.0)
        return values

    def _words(self, name: str, meanings: Mapping[str, str], node: Node) -> list[str]:
        """Words of a choice, or dtypes. `meanings` maps each word that may be written to the word that it stands for."""
        words = []
        for element in node.elements:
            if isinstance(element.value, str) and element.value in meanings:
                words.append(meanings[element.value])
            elif name != "dtype":
                self.report(element.where, f"{name}: {unknown('value', element.plain, list(meanings))}")
            elif isinstance(element.value, str) and DTYPE_ALIASES.get(element.value, element.value) in ITEMSIZE:
                choices = ", ".join(dict.fromkeys(meanings.values()))
                message = f"the operator does not list the dtype {as_written(element.plain)}"
                self.report(element.where, f"{message}; choose from {choices}, or add it to dtypes= of the operator")
            else:
                self.report(element.where, unknown("dtype", element.plain, list(meanings)))
        return words

    def _points_of_models(self, node: Node) -> list[tuple[dict[str, int], str]]:
        """The points of a mapping with `model` or `tokens`, and the model of each: "" if its sizes depend on tokens only.

        There is one for each model, each shape that the model has for the operator, and each number of tokens. A model without
        experts has no layer of experts, for example. An axis with sizes of its own keeps these. Mistakes are reported; then
        there is no point.
        """
        present, points = node.entries, list[tuple[dict[str, int], str]]()
        counts = self._integers(TOKENS, present[TOKENS]) if TOKENS in present else [None]
        for place in present[MODEL].elements if MODEL in present else [node]:
            model = "" if place is node else str(place.value)
            if model and model not in MODELS:
                self.report(place.where, unknown("model", place.plain, list(MODELS)))
                continue
            dimensions = MODELS[model].dimensions if model else {}
            available = {*dimensions, *([TOKENS] if TOKENS in present else [])}
            shapes = [
                {axis: size for axis, size in shape.items() if axis not in present or axis == TOKENS}
                for shape in self.info.model_axes
            ]
            fitting = [sizes for sizes in shapes if all(axes_of(size) <= available for size in sizes.values())]
            if not fitting:
                self.report(place.where, _lacking(self.operator, shapes[0], available, model))
            for sizes, count in itertools.product(fitting, counts):
                label = model if any(axes_of(size) - {TOKENS} for size in sizes.values()) else ""
                try:
                    numbers = {**dimensions, TOKENS: count}
                    points.append(({axis: evaluate(size, numbers) for axis, size in sizes.items()}, label))
                except SizeError as error:
                    self.report(place.where, f"{error} of {model}")
        return points

    def _report_unknown(self, name: str, values: Node, present: Mapping[str, Node]) -> str | None:
        """Report a key that the operator does not have. Returns the key that was probably meant."""
        if name == "mode":
            message = f"{self.operator} has no gradients, so it has no modes; remove mode"
            self.report(values.key, f"{message}, or declare gradients= in the operator")
            return None
        if name in Measure.model_fields:
            self.report(values.key, f"{name} is a key of measure; move it there")
            return None
        info = self.info
        keys = [*info.axes, *self.words, *info.scalars, *(self.model_keys if info.model_axes else ())]
        # a bare key of --set, or a column of a file of shapes, may also be one of these
        if self.has_weights:
            keys.append(WEIGHT)
        elif not values.key.line:
            keys += [*Measure.model_fields, "baseline"]
        options = candidates(name, keys, present)
        self.report(values.key, unknown("key", name, options))
        return nearest(name, options)

    def configurations(self, providers: Node) -> tuple[Configuration, ...]:
        """One configuration per provider, or per combination of its parameters' values. The last parameter varies fastest.

        Returns none when one of them is wrong, so that no issue about a missing baseline follows from it.
        """
        by_name: dict[str, Configuration] = {}
        before = len(self.issues)
        for element in providers.elements:
            for name, entry in element.entries.items() or [(str(element.value), element)]:
                for configuration in self._configurations_of(name, entry):
                    if configuration.name in by_name:
                        self.report(entry.key, f'duplicate configuration "{configuration.name}"')
                    by_name[configuration.name] = configuration
        return tuple(by_name.values()) if len(self.issues) == before else ()

    def _configurations_of(self, name: str, entry: Node) -> list[Configuration]:
        params, info = entry.entries, self.info
        if name not in info.providers:
            self._report_provider(entry.key, name, list(info.providers))
            return []
        parameters = list(info.providers[name].parameters)
        for param, node in params.items():
            if param in info.columns:
                kind = "an axis" if param in info.axes else "a choice"
                kind = "a scalar" if param in info.scalars else kind
                self.report(node.key, f"{param} is {kind} of {self.operator}; move it to sweep")
            elif not parameters:
                self.report(node.key, f"{name} takes no parameters; remove {as_written(param)}")
            elif param not in parameters:
                self.report(node.key, unknown(f"{name} parameter", param, parameters))
        # in the provider's own order, so that a configuration has the same name in every config
        params = {param: params[param] for param in parameters if param in params}
        for param, element in ((param, element) for param, node in params.items() for element in node.elements):
            if isinstance(element.value, str) and (why := value_fault(element.value)):
                self.report(element.where, f"{name} parameter {param}: {why}")
        values = [[element.plain for element in node.elements] for node in params.values()]
        return [Configuration(name, dict(zip(params, point, strict=True))) for point in itertools.product(*values)]

    def _report_provider(self, where: SourceLocation, name: str, names: Sequence[str]) -> None:
        self.report(where, "; ".join(filter(None, [unknown("provider", name, names), self.failures])))

    def baseline(self, node: Node | None, configurations: Sequence[Configuration]) -> str | None:
        """The name of the baseline. Without a node it is the first configuration."""
        if node is None:
            return configurations[0].name if configurations else None
        matches = [configuration.name for configuration in _named(node.value, configurations)]
        if node.value in matches or len(matches) == 1:
            return str(node.value) if node.value in matches else matches[0]
        if matches:
            count = f"{len(matches)} configurations"
            self.report(node.where, f'baseline "{node.value}" has {count}; name one: {list_words(matches)}')
        elif configurations:
            self.report(node.where, unknown("baseline", node.value, _names(configurations)))
        return None

    def with_plugins(
        self, plugins: Sequence[str], configurations: Sequence[Configuration]
    ) -> tuple[Configuration, ...]:
        """The configurations, then the providers of these plug-ins that are not among them."""
        listed = {configuration.provider for configuration in configurations}
        new = [name for name, info in self.info.providers.items() if info.plugin in plugins and name not in listed]
        return (*configurations, *(Configuration(name, {}) for name in new))

    def select(self, options: Sequence[str], configurations: Sequence[Configuration]) -> tuple[Configuration, ...]:
        """The configurations that `--only` keeps: all of them without options. `--only` may also name a provider that the
        config does not list."""
        if not options:
            return tuple(configurations)
        kept: dict[str, Configuration] = {}
        for option in options:
            where = SourceLocation(f"--only {option}")
            names = split_words(option)
            if not names:
                self.report(where, "expected providers or configurations, for example triton,cuda")
            for name in names:
                matches = _named(name, configurations)
                if not matches and name in self.info.providers:
                    matches = [Configuration(name, {})]
                elif not matches and configurations:
                    if "[" in name:
                        unlisted = unknown("configuration", name, _names(configurations))
                        self.report(where, f"{unlisted}; to measure another one, list it under providers in the config")
                    else:
                        self._report_provider(where, name, _names(configurations))
                kept.update((configuration.name, configuration) for configuration in matches)
        listed = [configuration for configuration in configurations if configuration.name in kept]
        return (*listed, *(configuration for configuration in kept.values() if configuration not in listed))


def _named(name: object, configurations: Sequence[Configuration]) -> list[Configuration]:
    """The configurations that a name means: one, or all of a provider."""
    return [configuration for configuration in configurations if name in (configuration.name, configuration.provider)]


def _names(configurations: Sequence[Configuration]) -> list[str]:
    """All words that name a configuration: the providers, then the full names."""
    providers = [configuration.provider for configuration in configurations]
    names = [configuration.name for configuration in configurations]
    return list(dict.fromkeys(providers + names))


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

"""What a config means: the cases and curves that its names and ranges stand for.

Names are looked up in one operator's entry of the catalog that a worker reports:
`{"axes": [name], "choices": {name: [word]}, "dtypes": [name], "providers": {name: {"parameters": {name: default}}}}`.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbench.config.schema import POINTS, Measure
from kbench.config.yaml_source import Node, candidates, expected, listing, nearest, unknown
from kbench.errors import ConfigIssue, SourceLocation
from kbench.results.names import value_fault
from kbench.results.row import DTYPE_ALIASES, Case, Value, curve_name, format_params

MAX_CASES = 1_000_000
MAX_CURVES = 1_000


@dataclass(frozen=True)
class Curve:
    """A provider with its parameters fixed: one line of a plot. `error` says why it could not be looked up."""

    provider: str
    params: Mapping[str, Value]
    error: str | None = None

    @property
    def name(self) -> str:
        return curve_name(self.provider, format_params(self.params))


@dataclass(frozen=True)
class Sweep:
    """A config with every name looked up and every range written out.

    path       the config file, as it was named
    text       its source
    operator   name of the operator
    axes       names of the axis columns: the operator's axes, then its choices
    cases      in the order of the file, each once
    curves     in the order of the file
    baseline   name of the curve that speedup is relative to; None where `--only` leaves it out
    measure    how to measure
    plugins    absolute paths of plug-in files
    profile    name of the profile in effect
    profile_automatic   whether it is in effect only because there is no accelerator
    """

    path: Path
    text: str
    operator: str
    axes: tuple[str, ...]
    cases: tuple[Case, ...]
    curves: tuple[Curve, ...]
    baseline: str | None
    measure: Measure
    plugins: tuple[str, ...]
    profile: str | None
    profile_automatic: bool


class Names:
    """The names of one operator, and in `problems` what a config says that they do not."""

    def __init__(self, operator: str, entry: Mapping[str, Any], failures: str) -> None:
        """`failures` are the installed plug-ins that could not be imported: a provider that nobody knows may be in them."""
        self.operator = operator
        self.axes = list(entry["axes"])
        self.words: dict[str, list[str]] = {"dtype": list(entry["dtypes"])} | dict(entry["choices"])
        self.columns = (*self.axes, *entry["choices"])
        self.providers: Mapping[str, Any] = entry["providers"]
        self.failures = failures
        self.problems: list[ConfigIssue] = []

    def complain(self, where: SourceLocation, message: str) -> None:
        self.problems.append(ConfigIssue(where, message))

    def cases(self, sweep: Node) -> tuple[Case, ...]:
        """The cases of every cross product, each once, the last axis varying fastest."""
        products = [self._product(node) for node in sweep.elements]
        count = sum(math.prod(map(len, product.values())) for product in products)
        if count > MAX_CASES:
            self.complain(sweep.where, f"sweep: {count:,} cases; the limit is {MAX_CASES:,}")
        if self.problems:
            return ()
        cases: dict[Any, Case] = {}
        for product in products:
            for values in itertools.product(*product.values()):
                point = dict(zip(product, values, strict=True))
                case = Case(self.operator, {name: point[name] for name in self.columns}, point["dtype"])
                cases.setdefault(case.key, case)
        return tuple(cases.values())

    def _product(self, node: Node) -> dict[str, Sequence[Any]]:
        """The values of dtype, every choice and every axis. Dtype and choices default to the first the operator has."""
        known, present = [*self.axes, *self.words], node.entries
        missing = [name for name in self.axes if name not in present]
        for name, values in present.items():
            if name not in known:
                others = [] if values.key.line else [*Measure.model_fields, "baseline"]  # as a bare key of --set can be
                options = candidates(name, [*known, *others], present)
                an_axis = not others or nearest(name, options) in known
                self.complain(values.key, unknown("axis" if an_axis else "key", name, options))
                missing = [axis for axis in missing if axis != nearest(name, options)]
        if missing:
            self.complain(node.where, f"sweep: no values for {' and '.join(missing)}")
        product: dict[str, Sequence[Any]] = {}
        for name, words in self.words.items():
            product[name] = self._chosen(name, present[name]) if name in present else words[:1]
        return product | {name: self._sizes(name, present[name]) for name in self.axes if name in present}

    def _chosen(self, name: str, node: Node) -> list[str]:
        """Words of a choice, or dtypes by their full names."""
        known = {word: word for word in self.words[name]}
        if name == "dtype":
            known |= {alias: dtype for alias, dtype in DTYPE_ALIASES.items() if dtype in known}
        chosen = []
        for element in node.elements:
            if isinstance(element.value, str) and element.value in known:
                chosen.append(known[element.value])
            else:
                self.complain(element.where, unknown(name, element.plain, list(known)))
        return chosen

    def _sizes(self, name: str, node: Node) -> Sequence[int]:
        match node.plain:
            case {"pow2": [first, last]}:
                return [2**exponent for exponent in range(first, last + 1)]
            case {"start": start, "stop": stop, "step": step}:
                return range(start, stop + 1, step)
        sizes = []
        for element in node.elements:
            if isinstance(element.value, int):
                sizes.append(element.value)
            else:
                self.complain(element.where, expected(name, POINTS, element.plain))
        return sizes

    def curves(self, providers: Node) -> tuple[Curve, ...]:
        """One curve per provider, or per combination of its parameters' values, the last one varying fastest.

        None at all where one is wrong: a baseline that is not among the others would be a second complaint about it.
        """
        curves: dict[str, Curve] = {}
        before = len(self.problems)
        for element in providers.elements:
            [(name, entry)] = element.entries.items() or [(str(element.value), element)]
            for curve in self._curves(name, entry):
                if curve.name in curves:
                    self.complain(entry.key, f'duplicate curve "{curve.name}"')
                curves[curve.name] = curve
        return tuple(curves.values()) if len(self.problems) == before else ()

    def _curves(self, name: str, entry: Node) -> list[Curve]:
        error = None
        params = entry.entries
        if name in self.providers:
            known = list(self.providers[name]["parameters"])
            for param, node in params.items():
                if param not in known:
                    self.complain(node.key, unknown(f"{name} parameter", param, known))
            # in the provider's own order, so that a curve has one name in every config
            params = {param: params[param] for param in known if param in params}
        elif self.failures:
            error = self.failures
        else:
            self.complain(entry.key, unknown("provider", name, list(self.providers)))
            return []
        for param, node in params.items():
            for element in node.elements:
                if isinstance(element.value, str) and (why := value_fault(element.value)):
                    self.complain(element.where, f"{name} parameter {param}: {why}")
        values = [[element.plain for element in node.elements] for node in params.values()]
        count = math.prod(map(len, values))
        if count > MAX_CURVES:
            self.complain(entry.key, f"{name}: {count:,} curves; the limit is {MAX_CURVES:,}")
            return []
        return [Curve(name, dict(zip(params, point, strict=True)), error) for point in itertools.product(*values)]

    def baseline(self, node: Node | None, curves: Sequence[Curve]) -> str | None:
        """The name of the baseline's curve: the first one unless the config names another."""
        if node is None:
            return curves[0].name if curves else None
        named = [curve.name for curve in curves if node.value in (curve.name, curve.provider)]
        if node.value in named or len(named) == 1:
            return str(node.value) if node.value in named else named[0]
        if named:
            self.complain(node.where, f'baseline "{node.value}" has {len(named)} curves; name one: {listing(named)}')
        elif curves:
            self.complain(node.where, unknown("baseline", node.value, _called(curves)))
        return None

    def brought(self, plugins: Sequence[str], curves: Sequence[Curve]) -> tuple[Curve, ...]:
        """The curves, and the providers of these plug-ins that are not among them."""
        listed = {curve.provider for curve in curves}
        new = [name for name, entry in self.providers.items() if entry.get("plugin") in plugins and name not in listed]
        return (*curves, *(Curve(name, {}) for name in new))

    def only(self, options: Sequence[str], curves: Sequence[Curve]) -> tuple[Curve, ...]:
        """The curves that `--only` keeps: all of them without one. It may name providers that the file does not."""
        kept: dict[str, Curve] = {}
        for option in options:
            words = re.split(r",(?![^\[]*\])", option)  # not at commas inside a curve's brackets
            wanted = [word.strip() for word in words if word.strip()]
            if not wanted:
                self.complain(
                    SourceLocation(f"--only {option}"), "expected providers or curves, for example triton,cuda"
                )
            for name in wanted:
                named = [curve for curve in curves if name in (curve.name, curve.provider)]
                if not named and name in self.providers:
                    named = [Curve(name, {})]
                elif not named and curves:
                    known = list(dict.fromkeys([*_called(curves), *self.providers]))
                    message = "; ".join(filter(None, [unknown("provider", name, known), self.failures]))
                    self.complain(SourceLocation(f"--only {option}"), message)
                kept.update((curve.name, curve) for curve in named)
        listed = [curve for curve in curves if not options or curve.name in kept]
        return (*listed, *(curve for curve in kept.values() if curve not in listed))


def _called(curves: Sequence[Curve]) -> list[str]:
    """Everything that curves can be called: their providers, then their names."""
    return list(dict.fromkeys([curve.provider for curve in curves] + [curve.name for curve in curves]))

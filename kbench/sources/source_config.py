"""The config of a problem folder: what it asks to measure, in the form of a config file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kbench.config.load import load_config
from kbench.config.resolve import Sweep
from kbench.errors import ConfigError, ConfigIssue, SourceLocation
from kbench.protocol import Catalog, Source, SourceSweep


@dataclass(frozen=True)
class SourceConfig:
    """Stands for a `Config`, whose content the worker finds out.

    number  which of the sweeps of the source it means
    sets, only, sessions  as for `load_config`
    """

    source: Source
    number: int = 0
    sets: Sequence[str] = ()
    only: Sequence[str] = ()
    sessions: int | None = None
    plugins: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        return Path(self.source.path)

    def sweep(self, catalog: Catalog) -> SourceSweep:
        """What this config stands for. Raises ConfigError with the reason why the source cannot be used."""
        issues = [
            ConfigIssue(SourceLocation(error.where), error.message)
            for error in catalog.plugin_errors
            if error.plugin == self.source.path
        ]
        if issues:
            raise ConfigError(issues)
        return catalog.sweeps[self.number]

    def resolve(self, catalog: Catalog) -> Sweep:
        """Look up every name of the settings, as `Config.resolve` does. Raises ConfigError."""
        content = as_config(self.sweep(catalog))
        sweep = load_config(content, sets=self.sets, only=self.only, sessions=self.sessions).resolve(catalog)
        return replace(sweep, source=self.source.path)


def as_config(sweep: SourceSweep) -> dict[str, Any]:
    """The content of a config file that asks for the same. Axes with the same values in all cases are written once."""
    return {
        "operator": sweep.operator,
        "sweep": _products(sweep.points),
        "providers": [
            {name: {each: list(values) for each, values in params.items()}} if params else name
            for name, params in sweep.providers.items()
        ],
    }


def _products(points: Sequence[Mapping[str, Any]]) -> Any:
    """The cases as one cross product if they are one, in its order, and otherwise as a list of points."""
    product: dict[str, list[Any]] = {}
    for point in points:
        for name, value in point.items():
            values = product.setdefault(name, [])
            if value not in values:
                values.append(value)
    count = 1
    for values in product.values():
        count *= len(values)
    if count == len(points) and len({tuple(point.items()) for point in points}) == count:
        return {name: values if len(values) > 1 else values[0] for name, values in product.items()}
    return [dict(point) for point in points]

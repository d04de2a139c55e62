"""The config of a problem folder: what it asks to measure, in the form of a config file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kbench.config.load import load_config
from kbench.config.resolve import Sweep
from kbench.errors import ConfigError, ConfigIssue, SourceLocation
from kbench.protocol import Catalog


@dataclass(frozen=True)
class SourceConfig:
    """Stands for a `Config`, whose content the worker finds out.

    source  the absolute path of the problem
    sets, only, sessions  as for `load_config`
    """

    source: str
    sets: Sequence[str] = ()
    only: Sequence[str] = ()
    sessions: int | None = None
    plugins: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        return Path(self.source)

    def resolve(self, catalog: Catalog) -> Sweep:
        """Look up every name of the settings, as `Config.resolve` does. Raises ConfigError, also with the reason why the source
        cannot be used."""
        faults = [error for error in catalog.plugin_errors if error.plugin == self.source]
        if faults:
            raise ConfigError([ConfigIssue(SourceLocation(fault.where), fault.message) for fault in faults])
        assert catalog.sweep
        operator, points = catalog.sweep.operator, list(map(dict, catalog.sweep.points))
        content = {"operator": operator, "sweep": points, "providers": list(catalog.providers(operator))}
        sweep = load_config(content, sets=self.sets, only=self.only, sessions=self.sessions).resolve(catalog)
        return replace(sweep, source=self.source)

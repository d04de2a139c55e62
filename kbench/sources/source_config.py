"""What a command measures: a config, or a problem in the form of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kbench.config.load import Config, load_config
from kbench.config.resolve import Sweep
from kbench.errors import ConfigError, ConfigIssue, SourceLocation, UsageError
from kbench.protocol import Catalog, Measure
from kbench.sources import SourceKind, source_of


@dataclass(frozen=True)
class SourceConfig:
    """Stands for a `Config`, whose content the worker finds out.

    source   the absolute path of the problem
    plugins  absolute paths of further solutions
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

    @property
    def chooses_cases(self) -> bool:
        keys = [setting.partition("=")[0].strip().removeprefix("measure.") for setting in self.sets]
        return any(key not in Measure.model_fields for key in keys)

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


def load_source_or_config(
    path: Path,
    *,
    sets: Sequence[str] = (),
    only: Sequence[str] = (),
    profile: str | None = None,
    plugins: Sequence[str] = (),
    shapes: Path | None = None,
    sessions: int | None = None,
) -> Config | SourceConfig:
    """A config, as `load_config` reads it, or a problem, whose plug-ins are further solutions. Raises ConfigError and
    UsageError."""
    if source_of(path) is not SourceKind.FOLDER:
        return load_config(
            path, sets=sets, only=only, profile=profile, plugins=plugins, shapes=shapes, sessions=sessions
        )
    if refused := [name for name, value in {"--profile": profile, "--shapes": shapes}.items() if value]:
        raise UsageError(f"{path}: {', '.join(refused)} cannot be used with a benchmark problem; leave it out")
    for solution in plugins:
        if not Path(solution).is_file():
            raise UsageError(f"--plugin {solution}: no such file; name a solution of the problem")
    solutions = tuple(str(Path(solution).resolve()) for solution in plugins)
    return SourceConfig(str(path.absolute()), sets=sets, only=only, sessions=sessions, plugins=solutions)

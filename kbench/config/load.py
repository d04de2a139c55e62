"""A YAML sweep, read in two steps.

`load` reads the file and checks its structure, which needs nothing but the file. `Config.resolve` gives its names a
meaning: it takes the catalog that a worker reports (operators, providers and their parameters, plug-ins included), lays
the profile and the command line over the file, and writes everything out as cases and curves. Either step reports all
the errors it finds, each with its place. Nothing is evaluated as code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kbench.config import builtin, yaml_source
from kbench.config.resolve import Curve, Names, Sweep
from kbench.config.schema import File, Measure, Overlay, keys, schema
from kbench.config.yaml_source import Node, check, code, parse, read, unknown
from kbench.errors import ConfigError, ConfigIssue, SourceLocation

__all__ = ["Config", "ConfigError", "Curve", "Measure", "Sweep", "load", "schema"]


@dataclass(frozen=True)
class Setting:
    """One `--set key=value`, as an overlay that holds nothing else."""

    section: str
    name: str
    value: Node

    @classmethod
    def read(cls, argument: str) -> Setting:
        """Raises ConfigError. A bare key belongs to `measure` if it is one of its keys, else to `sweep`."""
        where = SourceLocation(f"--set {argument}")
        key, _, text = (part.strip() for part in argument.partition("="))
        if not key or not text:
            raise ConfigError([ConfigIssue(where, "expected key=value, for example N=1024,4096 or rounds=3")])
        if key == "baseline":  # not YAML: a curve's name has brackets and commas of its own
            return cls("", key, Node(text, where, where))
        values = parse(f"[{text}\n]", "", where)
        section, _, name = key.rpartition(".")
        if not section:
            section = "measure" if name in Measure.model_fields else "sweep"
        return cls(section, name, values.elements[0] if len(values.elements) == 1 else values)

    @property
    def overlay(self) -> Node:
        where = self.value.where
        entry = Node({self.name: self.value}, where, where)
        return Node({self.section: entry}, where, where) if self.section else entry


@dataclass(frozen=True)
class Config:
    """A config file whose structure is right. `places` says of each plug-in, which a worker imports before it reports its
    catalog, where it is named; `brought` are those of the command line, whose providers are measured without being listed."""

    path: Path
    text: str
    document: Node
    places: Mapping[str, SourceLocation]
    brought: tuple[str, ...]
    profile: str | None
    settings: tuple[Setting, ...]
    only: tuple[str, ...]

    @property
    def plugins(self) -> tuple[str, ...]:
        return tuple(self.places)

    def resolve(self, catalog: Mapping[str, Any]) -> Sweep:
        """Look up every name and write out every range. Raises ConfigError with everything that is wrong.

        A plug-in that the user names has to import: without it, or with half of it, something else would be measured than
        was asked for. A provider that nobody knows is an error too, unless the plug-in of an installed package failed and
        may have held it: then its curve carries that error, and the other curves are measured.
        """
        failed = [(self._place(e["plugin"]), e) for e in catalog["plugin_errors"]]
        if named := [(place, e) for place, e in failed if place]:
            raise ConfigError(
                [ConfigIssue(place, f"the plug-in failed: {e['where']}: {e['message']}") for place, e in named]
            )
        profiles = self.document.section("profiles")
        automatic = self.profile is None and catalog["device"]["type"] == "cpu" and "cpu" in profiles
        profile = "cpu" if automatic else self.profile if self.profile in profiles else None
        document = self.document
        for overlay in [*([profiles[profile]] if profile else []), *(setting.overlay for setting in self.settings)]:
            document = _merge(document, overlay, 2)

        failures = plugin_failures(catalog)
        operator = document.entries["operator"]
        if operator.value not in catalog["operators"]:
            message = "; ".join([unknown("operator", operator.value, list(catalog["operators"])), *failures])
            raise ConfigError([ConfigIssue(operator.where, message)])
        names = Names(str(operator.value), catalog["operators"][operator.value], "; ".join(failures))
        cases = names.cases(document.entries["sweep"])
        curves = names.curves(document.entries["providers"])
        baseline = names.baseline(document.entries.get("baseline"), curves)
        kept = names.only(self.only, names.brought(self.brought, curves))
        if names.problems:
            raise ConfigError(names.problems)
        return Sweep(
            path=self.path,
            text=self.text,
            operator=names.operator,
            axes=names.columns,
            cases=cases,
            curves=kept,
            baseline=baseline if any(curve.name == baseline for curve in kept) else None,
            measure=Measure.model_validate({key: node.plain for key, node in document.section("measure").items()}),
            plugins=self.plugins,
            profile=profile,
            profile_automatic=automatic,
        )

    def _place(self, plugin: str) -> SourceLocation | None:
        """Where a plug-in is named, None for that of an installed package. A worker on another host may have the file in
        another folder."""
        alike = [place for file, place in self.places.items() if Path(file).name == Path(plugin).name]
        return self.places.get(plugin) or (alike[0] if alike else None)


def plugin_failures(catalog: Mapping[str, Any]) -> list[str]:
    """A sentence for each plug-in that a worker could not import."""
    return [f"plug-in {e['plugin']} failed: {e['where']}: {e['message']}" for e in catalog["plugin_errors"]]


def load(
    source: str | Path | Mapping[str, Any],
    *,
    sets: Sequence[str] = (),
    only: Sequence[str] = (),
    profile: str | None = None,
    plugins: Sequence[str] = (),
) -> Config:
    """Read a config file, or a built-in config by its name, and check its structure and that of its profiles. A mapping is
    what such a file holds: its results are called as its operator, and its plug-ins lie in the working directory.

    Raises ConfigError.

    sets      `key=value` with the value in YAML: an axis, a choice, `dtype`, `baseline` or a key of `measure`; also
              `sweep.key` and `measure.key`. They win over the profile, which wins over the file.
    only      providers or curves to keep; a string may name several, separated by commas
    profile   name of a profile, or "none" for no profile at all; by default `cpu` where there is no accelerator
    plugins   Python files to import in addition to those of the file, relative to the working directory; their
              providers of the config's operator are measured too
    """
    if isinstance(source, Mapping):
        document = yaml_source.of(source, "config")
        path = Path(Path(f"{document.plain.get('operator', 'config')}.yaml").name)
        text = yaml.safe_dump(document.plain, sort_keys=False, allow_unicode=True)
    else:
        path = builtin.find(Path(source))
        text = read(path)
        document = parse(text, str(path))
    if sign := next((sign for sign in path.name if not sign.isprintable()), None):
        what = f"its name holds a character that cannot be printed, {code(sign)}, and results are called after it; rename it"
        raise ConfigError([ConfigIssue(SourceLocation(str(path)), what)])
    problems = check(File, document, keys)
    settings = []
    for argument in sets:
        try:
            settings.append(Setting.read(argument))
        except ConfigError as error:
            problems += error.issues
    for setting in settings:
        problems += check(Overlay, setting.overlay, lambda location: keys(("profiles", "", *location)))
    profiles = document.section("profiles")
    if "none" in profiles:
        problems.append(ConfigIssue(profiles["none"].key, 'the name "none" is taken: --profile none means no profile'))
    if profile not in (None, "none", *profiles):
        problems.append(
            ConfigIssue(SourceLocation(f"--profile {profile}"), unknown("profile", profile, [*profiles, "none"]))
        )
    listed = document.entries["plugins"].elements if "plugins" in document.entries else []
    files = [(node.where, path.parent / node.value) for node in listed if isinstance(node.value, str)]
    files += [(SourceLocation(f"--plugin {plugin}"), Path(plugin)) for plugin in plugins]
    problems += [ConfigIssue(where, f"no such file: {file}") for where, file in files if not _is_file(file)]
    if problems:
        raise ConfigError(problems)
    places: dict[str, SourceLocation] = {}
    for where, file in files:
        places.setdefault(str(file.resolve()), where)
    brought = tuple(str(Path(plugin).resolve()) for plugin in plugins)
    return Config(path, text, document, places, brought, profile, tuple(settings), tuple(only))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is longer than any file's
        return False


def _merge(base: Node, over: Node, depth: int) -> Node:
    """`over` laid over `base`: mappings merge `depth` levels down and replace each other below that. A list in the base
    stands for each of its elements."""
    if not depth or not isinstance(over.value, dict):
        return over
    if isinstance(base.value, list):
        return Node([_merge(element, over, depth) for element in base.value], base.where, base.key)
    merged = {k: _merge(base.entries[k], v, depth - 1) if k in base.entries else v for k, v in over.value.items()}
    return Node(base.entries | merged, base.where, base.key)

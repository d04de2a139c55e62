"""Reads a config in two steps.

`load_config` reads the file and checks its structure. `Config.resolve` applies the profile and the command line to it, looks up
its names in the catalog that a worker reports, and writes it out as cases and configurations. Each step reports all the
errors that it finds, with their locations. Nothing is evaluated as code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import all_suffixes
from pathlib import Path
from typing import Any

import yaml

from kbench.config import builtin, yaml_source
from kbench.config.model_axes import without_replaced_axes
from kbench.config.resolve import ConfigResolver, Sweep
from kbench.config.schema import File, Measure, Overlay, keys
from kbench.config.shapes_file import ShapesFile, read_shapes
from kbench.config.validation import validate
from kbench.config.yaml_source import Node, code_point, parse, read_config_text
from kbench.errors import ConfigError, ConfigIssue, SourceLocation
from kbench.protocol import Catalog, OperatorInfo
from kbench.results.timers import default_cache
from kbench.text.suggest import unknown


@dataclass(frozen=True)
class Setting:
    """One `--set key=value`. A bare key belongs to `measure` if it is one of its keys, otherwise to `sweep`."""

    section: str
    name: str
    value: Node

    @classmethod
    def read(cls, argument: str) -> Setting:
        """Parse the argument of `--set`, or a whole option such as `--sessions=3`. Raises ConfigError."""
        where = SourceLocation(argument if argument.startswith("--") else f"--set {argument}")
        key, _, text = (part.strip() for part in argument.removeprefix("--").partition("="))
        if not key or not text:
            raise ConfigError([ConfigIssue(where, "expected key=value, for example N=1024,4096 or rounds=3")])
        if key == "baseline":  # not YAML: the name may contain brackets and commas
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
    """A config file whose structure is right.

    places       where each plug-in file is named: in the config or on the command line
    cli_plugins  plug-in files of the command line; their providers are measured even if the config does not list them
    only         arguments of `--only`
    shapes       the sizes to measure instead of those of the sweep
    """

    path: Path
    text: str
    document: Node
    places: Mapping[str, SourceLocation]
    cli_plugins: tuple[str, ...]
    profile: str | None
    settings: tuple[Setting, ...]
    only: tuple[str, ...]
    shapes: ShapesFile | None = None

    @property
    def plugins(self) -> tuple[str, ...]:
        """Absolute paths of the plug-in files."""
        return tuple(self.places)

    @property
    def source(self) -> None:
        """A config file needs no other source."""
        return None

    def resolve(self, catalog: Catalog) -> Sweep:
        """Look up every name and write out every range. Raises ConfigError with everything that is wrong.

        A plug-in that the user names has to import. An unknown provider is an error, unless a plug-in of an installed
        package failed and may have contained it: then its configuration carries that error, and kbench measures the others.
        """
        failed = [(self._place(error.plugin), error) for error in catalog.plugin_errors]
        if named := [(place, error) for place, error in failed if place]:
            raise ConfigError(
                [ConfigIssue(place, f"the plug-in failed: {error.where}: {error.message}") for place, error in named]
            )
        profiles = self.document.section("profiles")
        automatic = self.profile is None and catalog.device.type == "cpu" and "cpu" in profiles
        profile = "cpu" if automatic else self.profile if self.profile in profiles else None
        failures = plugin_failures(catalog)
        operator = self.document.entries["operator"]
        if operator.value not in catalog.operators:
            message = "; ".join([unknown("operator", operator.value, list(catalog.operators)), *failures])
            raise ConfigError([ConfigIssue(operator.where, message)])
        name = str(operator.value)
        info = catalog.operators[name]
        document = self.document
        for overlay in [*([profiles[profile]] if profile else []), *(setting.overlay for setting in self.settings)]:
            document = _merge(_without_replaced_axes(document, overlay, info), overlay, 2)
        resolver = ConfigResolver(name, info, "; ".join(failures))
        self._check_settings(resolver)
        found = resolver.resolve_cases(document.entries["sweep"], self.shapes)
        listed = resolver.resolve_configurations(document.entries["providers"])
        baseline = resolver.resolve_baseline(document.entries.get("baseline"), listed)
        kept = resolver.select(self.only, resolver.plugin_configurations(self.cli_plugins, listed))
        measure = document.section("measure")
        if "max_ms" in measure and "precision" not in measure:  # `precision: null` of a profile turns both off
            what = "max_ms limits the rounds that are added for `precision`; either also set `precision`, or leave out max_ms"
            resolver.issues.append(ConfigIssue(measure["max_ms"].key, what))
        if resolver.issues:
            raise ConfigError(resolver.issues)
        return Sweep(
            path=self.path,
            text=self.text,
            operator=name,
            axes=resolver.columns,
            cases=tuple(found.cases.values()),
            configurations=kept,
            baseline=baseline if any(one.name == baseline for one in kept) else None,
            measure=Measure.model_validate(
                {"cache": default_cache(catalog.device.type)} | {key: node.plain for key, node in measure.items()}
            ),
            info=info,
            plugins=self.plugins,
            profile=profile,
            profile_automatic=automatic,
            models=found.models,
            weights=found.weights,
        )

    def _check_settings(self, resolver: ConfigResolver) -> None:
        """Report a --set of what the file of shapes gives."""
        if self.shapes is None:
            return
        given = {*resolver.axes, *resolver.model_axes.keys, *self.shapes.columns}
        for setting in self.settings:
            if setting.section == "sweep" and setting.name in given:
                what = (
                    f"{self.shapes.where.source} gives the shapes already; leave out --set {setting.name}, or --shapes"
                )
                resolver.report(setting.value.where, what)

    def _place(self, plugin: str) -> SourceLocation | None:
        """Where a plug-in is named; None for a plug-in of an installed package. A worker on another host may have the file in
        another folder."""
        alike = [place for file, place in self.places.items() if Path(file).name == Path(plugin).name]
        return self.places.get(plugin) or (alike[0] if alike else None)


def plugin_failures(catalog: Catalog) -> list[str]:
    """A sentence for each plug-in that failed."""
    return [f"plug-in {error.plugin} failed: {error.where}: {error.message}" for error in catalog.plugin_errors]


def load_config(
    source: str | Path | Mapping[str, Any],
    *,
    sets: Sequence[str] = (),
    only: Sequence[str] = (),
    profile: str | None = None,
    plugins: Sequence[str] = (),
    shapes: Path | None = None,
) -> Config:
    """Read a config file, or a built-in config by its name, and check its structure and that of its profiles.

    A mapping has the content of such a file. Its results are named after its operator, and its plug-ins are relative to
    the working directory. Raises ConfigError.

    sets      `key=value` with the value in YAML. The key is an axis, a choice, `dtype`, `baseline` or a key of `measure`;
              also `sweep.key` and `measure.key`. Settings override the profile, and the profile overrides the file.
              `--sessions=3` is a setting too: errors then name that option
    only      providers or configurations to keep; a string may name several, separated by commas
    profile   name of a profile, or "none" for no profile; by default `cpu` where there is no accelerator
    plugins   Python files to import in addition to those of the file, relative to the working directory; kbench also
              measures their providers of the config's operator
    shapes    a CSV with the sizes to measure instead of those of the sweep: see kbench/config/shapes_file.py
    """
    if isinstance(source, Mapping):
        document = yaml_source.from_mapping(source, "config")
        path = Path(Path(f"{document.plain.get('operator', 'config')}.yaml").name)
        text = yaml.safe_dump(document.plain, sort_keys=False, allow_unicode=True)
    else:
        path = builtin.find_config(Path(source))
        text = read_config_text(path)
        document = parse(text, str(path))
    if sign := next((sign for sign in path.name if not sign.isprintable()), None):
        what = f"the file name contains the unprintable character {code_point(sign)}; rename the file"
        raise ConfigError([ConfigIssue(SourceLocation(str(path)), what)])
    problems = validate(File, document, keys)
    settings = []
    for argument in sets:
        try:
            settings.append(Setting.read(argument))
        except ConfigError as error:
            problems += error.issues
    for setting in settings:
        problems += validate(Overlay, setting.overlay, lambda location: keys(("profiles", "", *location)))
    profiles = document.section("profiles")
    if "none" in profiles:
        problems.append(
            ConfigIssue(
                profiles["none"].key,
                "a profile cannot have the name `none`, because `--profile none` means no profile; rename it",
            )
        )
    if profile not in (None, "none", *profiles):
        problems.append(
            ConfigIssue(SourceLocation(f"--profile {profile}"), unknown("profile", profile, [*profiles, "none"]))
        )
    listed = document.entries["plugins"].elements if "plugins" in document.entries else []
    files = [(node.where, path.parent / node.value) for node in listed if isinstance(node.value, str)]
    files += [(SourceLocation(f"--plugin {plugin}"), Path(plugin)) for plugin in plugins]
    problems += [ConfigIssue(where, why) for where, file in files if (why := _plugin_fault(file))]
    found = None
    try:
        found = None if shapes is None else read_shapes(shapes)
    except ConfigError as error:
        problems += error.issues
    if problems:
        raise ConfigError(problems)
    places: dict[str, SourceLocation] = {}
    for where, file in files:
        places.setdefault(str(file.resolve()), where)
    cli_plugins = tuple(str(Path(plugin).resolve()) for plugin in plugins)
    return Config(path, text, document, places, cli_plugins, profile, tuple(settings), tuple(only), found)


def _plugin_fault(path: Path) -> str:
    """What is wrong with the path of a plug-in; "" if nothing is."""
    try:
        there = path.is_file()
    except OSError:  # the name is too long for a file
        there = False
    if not there:
        return f"no such file: {path}; name a Python file"
    return "" if path.name.endswith(tuple(all_suffixes())) else f"{path} is not a Python file; its name must end in .py"


def _without_replaced_axes(document: Node, overlay: Node, info: OperatorInfo) -> Node:
    if "sweep" not in overlay.entries:
        return document
    sweep = without_replaced_axes(document.entries["sweep"], overlay.entries["sweep"], info)
    return Node(document.entries | {"sweep": sweep}, document.where, document.key)


def _merge(base: Node, over: Node, depth: int) -> Node:
    """`base` with the entries of `over`. Mappings merge `depth` levels down; below that they replace each other. When the
    base is a list, `over` applies to each of its elements."""
    if not depth or not isinstance(over.value, dict):
        return over
    if isinstance(base.value, list):
        return Node([_merge(element, over, depth) for element in base.value], base.where, base.key)
    merged = {k: _merge(base.entries[k], v, depth - 1) if k in base.entries else v for k, v in over.value.items()}
    return Node(base.entries | merged, base.where, base.key)

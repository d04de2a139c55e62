"""Reads a config in two steps: `load_config` checks the structure of the file, and `Config.resolve` looks its names up in the
catalog that a worker reports. Each step reports all the errors that it finds. Nothing is evaluated as code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from kbench.config import builtin
from kbench.config.document import WEIGHT, Node, from_mapping, parse, read_shapes, read_text
from kbench.config.plan import Plan
from kbench.config.resolve import Resolver, without_sizes_of_models
from kbench.config.schema import Overlay, check
from kbench.errors import ConfigError, ConfigIssue, SourceLocation
from kbench.protocol import Catalog, Measure, OperatorInfo
from kbench.results.timers import default_cache
from kbench.sources import is_problem
from kbench.text.suggest import unknown


@dataclass(frozen=True)
class Config:
    """A config whose structure is right, with what the command line changes in it.

    path         the file, as the user named it
    text         its source
    document     its content; empty for a problem
    places       where each plug-in file is named: in the config or on the command line
    cli_plugins  plug-in files of the command line; their providers are measured even if the config does not list them
    profile      name of the profile to apply; None for the automatic one
    changes      what each `--set` lays over the document
    only         arguments of `--only`
    shapes       the sizes to measure instead of those of the sweep: a list of mappings
    source       the absolute path of a problem; "" for a config file
    """

    path: Path
    text: str
    document: Node
    places: Mapping[str, SourceLocation]
    cli_plugins: tuple[str, ...]
    profile: str | None
    changes: tuple[Node, ...]
    only: tuple[str, ...]
    shapes: Node | None = None
    source: str = ""

    @property
    def operator(self) -> str:
        return str(self.document.entries["operator"].value)

    @property
    def plugins(self) -> tuple[str, ...]:
        """Absolute paths of the plug-in files, or of further solutions of a problem."""
        return tuple(self.places)

    @property
    def chooses_cases(self) -> bool:
        """Whether the command line chooses what to measure, and not only how."""
        return self.profile is not None or any("sweep" in change.entries for change in self.changes)

    def resolve(self, catalog: Catalog) -> Plan:
        """Look up every name and write out every range. Raises ConfigError with everything that is wrong."""
        if self.source and not self.document.entries:
            return self._of_problem(catalog).resolve(catalog)
        check_plugins(catalog, self.places)
        failures = "; ".join(map(str, catalog.plugin_errors))
        info = catalog.operators.get(self.operator)
        if info is None:
            advice = "" if self.plugins else " (an operator of your own is in a plug-in: name the file under plugins)"
            words = [unknown("operator", self.operator, list(catalog.operators)) + advice, failures]
            message = "; ".join(filter(None, words))
            raise ConfigError.at(self.document.entries["operator"].where, message)
        profiles = self.document.section("profiles")
        profile = self.profile
        if profile is None and catalog.device.type == "cpu":
            profile = "cpu"
        profile = profile if profile in profiles else None
        document = self._merged(profiles[profile] if profile else None, info)
        written = document.section("measure")
        measure = Measure.model_validate(
            {"cache": default_cache(catalog.device.type)} | {key: node.plain for key, node in written.items()}
        )
        resolver = Resolver(self.operator, info, failures)
        self._check_sizes_of_set(resolver)
        resolver.add_cases(document.entries["sweep"], self.shapes, measure.sessions)
        listed = resolver.configurations(document.entries["providers"])
        if profile and "providers" in profiles[profile].entries:
            resolver.configurations(self.document.entries["providers"])  # another machine may measure these
        baseline = resolver.baseline(document.entries.get("baseline"), listed)
        configurations = resolver.select(self.only, resolver.with_plugins(self.cli_plugins, listed))
        # `precision: null` of a profile turns both off
        if "max_ms" in written and "precision" not in written:
            resolver.report(
                written["max_ms"].key,
                "max_ms limits the rounds that are added for `precision`; either also set `precision`, or leave out max_ms",
            )
        if resolver.issues:
            raise ConfigError(resolver.issues)
        return Plan(
            path=self.path,
            text=self.text,
            catalog=catalog,
            operator=self.operator,
            cases=tuple(resolver.cases),
            configurations=configurations,
            baseline=baseline if any(configuration.name == baseline for configuration in configurations) else None,
            measure=measure,
            profile=profile,
            models=resolver.models,
            weights=resolver.weights,
            source=self.source,
        )

    def _of_problem(self, catalog: Catalog) -> Config:
        """The config with the content that the worker has found out. Raises ConfigError with the reason why the problem cannot
        be used."""
        if faults := [error for error in catalog.plugin_errors if error.plugin == self.source]:
            raise ConfigError([ConfigIssue(SourceLocation(fault.where), fault.message) for fault in faults])
        assert catalog.config
        operator, points = catalog.config["operator"], catalog.config["sweep"]
        changes = list(self.changes)
        for change in self.changes:
            for name, node in change.section("sweep").items():
                words = node.plain if isinstance(node.value, list) else [node.plain]
                chosen = [point for point in points if point.get(name) in words]
                if name in catalog.operators[operator].choices and len(chosen) == len(words):
                    points = chosen  # a word of a choice selects a point, with its sizes
                    changes.remove(change)
        content = {
            "operator": operator,
            "sweep": points,
            "providers": list(catalog.providers(operator)),
        }
        path, text, document = _written_out(content)
        return replace(self, path=path, text=text, document=document, changes=tuple(changes))

    def _merged(self, profile: Node | None, info: OperatorInfo) -> Node:
        """The document with the profile and the changes of the command line."""
        document = self.document
        for over in [*([profile] if profile else []), *self.changes]:
            if "sweep" in over.entries:
                sweep = without_sizes_of_models(document.entries["sweep"], over.entries["sweep"], info)
                document = Node(document.entries | {"sweep": sweep}, document.where, document.key)
            document = document.merged(over, 2)
        return document

    def _check_sizes_of_set(self, resolver: Resolver) -> None:
        """Report each --set of a size, or of something else that the file of shapes has a column for."""
        if self.shapes is None:
            return
        columns = {*resolver.info.axes, *resolver.model_keys, *self.shapes.elements[0].entries} - {WEIGHT}
        for name, node in ((name, node) for change in self.changes for name, node in change.section("sweep").items()):
            if name in columns:
                message = f"{self.shapes.where} gives the shapes already; leave out --set {name}, or --shapes"
                resolver.report(node.where, message)


def load_config(
    source: str | Path | Mapping[str, Any],
    *,
    sets: Sequence[str] = (),
    only: Sequence[str] = (),
    profile: str | None = None,
    plugins: Sequence[str] = (),
    shapes: Path | None = None,
    sessions: int | None = None,
) -> Config:
    """Read a config file, or a built-in config by its name, and check its structure and that of its profiles.

    A problem of another benchmark is also a config, whose content only a worker knows. A mapping has the content of a config
    file. Its results are named after its operator, and its plug-ins are relative to the working directory.

    The options are those of `kbench run`. The key of `sets` is an axis, a choice, `dtype`, `baseline` or a key of `measure`;
    also `sweep.key` and `measure.key`. Settings override the profile, and the profile overrides the file. Raises ConfigError.
    """
    changes, issues = _changes(sets, sessions)
    problem = ""
    if isinstance(source, Mapping):
        path, text, document = _written_out(source)
    elif str(source) not in builtin.config_names() and is_problem(Path(source)):
        path, text, problem = Path(source), "", str(Path(source).absolute())
        document = Node({}, SourceLocation(str(path)), SourceLocation(str(path)))
    else:
        path = builtin.find_config(Path(source))
        text = read_text(path)
        document = parse(text, str(path))
    profiles = document.section("profiles")
    if problem:
        if refused := [name for name, value in {"--profile": profile, "--shapes": shapes}.items() if value]:
            message = f"{', '.join(refused)} cannot be used with a benchmark problem; leave it out"
            issues.append(ConfigIssue(document.where, message))
    else:
        issues += check(document)
        if profile not in (None, "none", *profiles):
            where = SourceLocation(f"--profile {profile}")
            issues.append(ConfigIssue(where, unknown("profile", profile, [*profiles, "none"])))
    listed = document.entries["plugins"].value if "plugins" in document.entries else []
    files = []
    for node in listed if isinstance(listed, list) else ():
        if isinstance(node.value, str):
            files.append((node.where, path.parent / node.value))
    files += [(SourceLocation(f"--plugin {plugin}"), Path(plugin)) for plugin in plugins]
    fault_of = _solution_fault if problem else plugin_fault
    issues += [ConfigIssue(where, why) for where, file in files if (why := fault_of(file))]
    points = None
    try:
        points = None if shapes is None or problem else read_shapes(shapes)
    except ConfigError as error:
        issues += error.issues
    if issues:
        raise ConfigError(issues)
    places: dict[str, SourceLocation] = {}
    for where, file in files:
        places.setdefault(str(file.resolve()), where)
    cli_plugins = () if problem else tuple(str(Path(plugin).resolve()) for plugin in plugins)
    return Config(path, text, document, places, cli_plugins, profile, tuple(changes), tuple(only), points, problem)


def _written_out(content: Mapping[str, Any]) -> tuple[Path, str, Node]:
    """The path, the text and the document of a config that is no file."""
    document = from_mapping(content, "config")
    path = Path(Path(f"{document.plain.get('operator', 'config')}.yaml").name)
    return path, yaml.safe_dump(document.plain, sort_keys=False, allow_unicode=True), document


def measure_settings(sets: Sequence[str], sessions: int | None) -> Measure:
    """The section `measure` that `--set` and `--sessions` make, for a script, which has no config. Raises ConfigError, also for
    a `--set` of anything else."""
    changes, issues = _changes(sets, sessions)
    settings: dict[str, Any] = {}
    for change in changes:
        settings |= {name: node.plain for name, node in change.section("measure").items()}
        if "measure" not in change.entries:
            message = "a script chooses what it measures; --set takes only keys of measure, for example rounds=3"
            issues.append(ConfigIssue(change.where, message))
    if issues:
        raise ConfigError(issues)
    return Measure.model_validate(settings)


def _changes(sets: Sequence[str], sessions: int | None) -> tuple[list[Node], list[ConfigIssue]]:
    """What each `--set` and `--sessions` lay over a document, and what is wrong with them."""
    arguments = [(f"--set {argument}", argument) for argument in sets]
    arguments += [] if sessions is None else [(f"--sessions={sessions}", f"sessions={sessions}")]
    changes: list[Node] = []
    issues: list[ConfigIssue] = []
    for option, argument in arguments:
        try:
            change = _change(SourceLocation(option), argument)
        except ConfigError as error:
            issues += error.issues
        else:
            changes.append(change)
            issues += check(change, Overlay)
    return changes, issues


def _change(where: SourceLocation, argument: str) -> Node:
    """What `key=value` lays over a document. A bare key belongs to `measure` if it is one of its keys, otherwise to
    `sweep`. Raises ConfigError."""
    key, _, text = (part.strip() for part in argument.partition("="))
    if not key or not text:
        raise ConfigError.at(where, "expected key=value, for example N=1024,4096 or rounds=3")
    if key == "baseline":  # not YAML: the name may contain brackets and commas
        return Node({key: Node(text, where, where)}, where, where)
    values = parse(f"[{text}\n]", "", where)
    section, _, name = key.rpartition(".")
    section = section or ("measure" if name in Measure.model_fields else "sweep")
    value = values.elements[0] if len(values.elements) == 1 else values
    return Node({section: Node({name: value}, where, where)}, where, where)


def plugin_fault(path: Path) -> str:
    """What is wrong with the path of a plug-in; "" if nothing is."""
    if not path.is_file():
        return f"no such file: {path}; name a Python file"
    return "" if path.suffix == ".py" else f"{path} is not a Python file; its name must end in .py"


def _solution_fault(path: Path) -> str:
    return "" if path.is_file() else "no such file; name a solution of the problem"


def check_plugins(catalog: Catalog, places: Mapping[str, SourceLocation]) -> None:
    """Raise ConfigError if a plug-in that the user names failed. That of an installed package may fail: it may not be needed.
    A worker on another host may have a plug-in in another folder."""
    issues = []
    for error in catalog.plugin_errors:
        alike = [place for file, place in places.items() if Path(file).name == Path(error.plugin).name]
        if place := places.get(error.plugin, next(iter(alike), None)):
            issues.append(ConfigIssue(place, f"the plug-in failed: {error.where}: {error.message}"))
    if issues:
        raise ConfigError(issues)

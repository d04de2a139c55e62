"""Makes a revision ready to be measured: checks it out, finds its config, builds it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from kbench.config import builtin
from kbench.config.load import load_config
from kbench.errors import ConfigError, UsageError
from kbench.revisions import side as sides
from kbench.revisions.repository import Repository
from kbench.revisions.session import SideSessions
from kbench.revisions.side import WORKING_TREE, RevisionSide


class ConfigMissing(UsageError):
    """A side has no config. `side` is its name."""

    def __init__(self, message: str, side: str) -> None:
        super().__init__(message)
        self.side = side


@dataclass(frozen=True)
class ReadySide:
    """A side that is checked out. `start` is the folder in which it is measured, `config` names its config there."""

    side: RevisionSide
    start: Path
    config: str


@dataclass(frozen=True)
class Preparer:
    """Prepares revisions of a repository.

    folder     temporary folder for worktrees, environments and results
    config     the config, relative to the top of the repository
    given      the config as the user gave it
    arguments  further arguments of `kbench run`
    build      shell command that builds a revision; "" for none
    """

    repository: Repository
    folder: Path
    config: Path
    given: Path
    arguments: Sequence[str]
    build: str
    note: Callable[[str], None]

    def check_out(self, label: str, revision: str | None) -> ReadySide:
        """Check a revision out; None is the working tree. Raises UsageError."""
        side = sides.check_out(label, revision, self.repository, self.folder, bool(self.build), self.note)
        start = sides.folder_of(side, self.repository, Path.cwd())
        self._check_named_plugins(side, start)
        found = self._find(side)
        if found is None:
            name = self.given.name.removesuffix(builtin.SUFFIX)
            self.note(f"{side.name} has no file {self.config}, so kbench measures its built-in config {name}")
            return ReadySide(side, start, self.given.name)
        self._check_plugins(side, found)
        config = os.path.join(os.curdir, os.path.relpath(found, start))  # noqa: PTH118  Path would drop the dot
        return ReadySide(side, start, config)

    def check_out_both(self, base: str, head: str | None) -> list[ReadySide]:
        """Check out the base and the head; None is the working tree. Raises UsageError."""
        try:
            first = self.check_out("base", base)
        except ConfigMissing as missing:
            try:
                self.check_out("head", head)
            except ConfigMissing as other:
                what = f"no such file in {missing.side} or in {other.side}"
                raise UsageError(f"{self.config}: {what}; check the name") from None
            raise
        return [first, self.check_out("head", head)]

    def build_ready(self, ready: ReadySide) -> ReadySide:
        """Build a side, if there is a build command. Raises BuildFailed."""
        if not self.build:
            return ready
        self.note(f"building {ready.side.name}: {self.build}")
        return replace(ready, side=sides.build_side(ready.side, self.build, self.repository, self.folder, self.note))

    def sessions(self, ready: ReadySide, csv: Path) -> SideSessions:
        """No sessions yet of a side, with results that will be written to `csv`. Moves earlier results aside. Raises
        ResultsError."""
        scratch = self.folder / f"results-{ready.side.label}"
        scratch.mkdir()
        arguments = [ready.config, *self.arguments]
        made = SideSessions(ready.side, self.repository, ready.start, arguments, scratch, csv)
        for earlier in made.prepare():
            self.note(f"the earlier results were moved to {earlier}")
        return made

    def _find(self, side: RevisionSide) -> Path | None:
        """The file of a side that the config means; None for a built-in config. Raises UsageError."""
        path = side.root / self.config
        bare = str(self.given) == self.given.name
        if path.is_file():
            return path
        if bare and not path.suffix and (named := path.with_name(path.name + builtin.SUFFIX)).is_file():
            return named
        if bare and self.given.name.removesuffix(builtin.SUFFIX) in builtin.config_names():
            return None
        raise ConfigMissing(f"{self.config}: {side.name} has no such file; {_advice(side)}", side.name)

    def _check_plugins(self, side: RevisionSide, config: Path) -> None:
        """Raises UsageError if a plug-in of the config would come from the working tree in all revisions."""
        try:
            plugins = [Path(plugin) for plugin in load_config(config).plugins]
        except ConfigError:  # the child reports it
            return
        for plugin in plugins:
            if plugin.is_relative_to(side.root):
                continue
            if plugin.is_relative_to(self.repository.top):
                raise UsageError(
                    f"{config.name}: in {side.name}, the plug-in is named by an absolute path ({plugin}); write it "
                    "relative to the config, so that each revision has its own"
                )
            self.note(_outside(plugin))

    def _check_named_plugins(self, side: RevisionSide, start: Path) -> None:
        """Raises UsageError if a side lacks a plug-in that --plugin names. A build may make it."""
        for option, plugin in pairwise(self.arguments):
            if option == "--plugin" and not self.build and not (start / plugin).is_file():
                raise UsageError(f"--plugin {plugin}: {side.name} has no such file; {_advice(side)}")


def plugin_arguments(repository: Repository, plugins: Sequence[Path], note: Callable[[str], None]) -> list[str]:
    """The option --plugin of `kbench run` for each plug-in. A child runs in the folder of its revision that stands for the
    working folder, so a path from there names the revision's own file."""
    arguments = []
    for plugin in plugins:
        place = plugin.absolute().parent.resolve() / plugin.name
        if place.is_relative_to(repository.top):
            arguments += ["--plugin", os.path.relpath(place, Path.cwd().resolve())]
        else:
            note(_outside(plugin))
            arguments += ["--plugin", str(place)]
    return arguments


def _outside(plugin: Path) -> str:
    return f"{plugin}: lies outside of the repository, so all revisions measure the same file"


def _advice(side: RevisionSide) -> str:
    """What to do if a side has no config."""
    if side.label == "base":
        return "name a base that has it, or measure both revisions with kbench run and compare them with kbench compare"
    if side.label == "head":
        return "restore it, or name another config" if side.name == WORKING_TREE else "commit it, or name another head"
    return "every revision needs the config"


def config_in(repository: Repository, config: Path) -> Path:
    """The config relative to the top of the repository. Raises UsageError."""
    if config.suffix == ".py":
        raise UsageError(
            f"{config}: revisions are measured with a config, not a script; measure the script in both revisions with kbench "
            "run, and compare the results with kbench compare"
        )
    folder = (Path.cwd() / config).parent.resolve()
    if not folder.is_relative_to(repository.top):
        raise UsageError(
            f"{config}: lies outside of the repository {repository.top}; name a config of the repository, so that each "
            "revision has its own plug-ins"
        )
    return folder.relative_to(repository.top) / config.name

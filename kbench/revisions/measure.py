"""A whole `kbench ab`: checks out and builds two revisions, measures them in turn, compares them, and cleans up."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kbench import interrupts
from kbench.comparison.options import CompareOptions
from kbench.config import builtin
from kbench.config.load import load_config
from kbench.errors import ConfigError, UsageError
from kbench.revisions import side as sides
from kbench.revisions.alternate import Alternated, alternate
from kbench.revisions.repository import Repository
from kbench.revisions.session import SideSessions
from kbench.revisions.side import RevisionSide
from kbench.revisions.temporary_folder import remove_stale, temporary_folder


@dataclass(frozen=True)
class RevisionOptions:
    """What is measured.

    base, head  revisions; None as `head` is the working tree
    config      as the user gave it: a path in the repository, or the name of a built-in config
    arguments   further arguments of `kbench run`
    build       shell command that builds a revision; "" for none
    budget_s    how long to measure, in seconds; checking out and building do not count
    out         folder for base.csv and head.csv
    """

    base: str
    head: str | None
    config: Path
    arguments: Sequence[str] = ()
    build: str = ""
    budget_s: float = 600.0
    out: Path = Path("results/ab")


def measure_revisions(options: RevisionOptions, comparing: CompareOptions, note: Callable[[str], None]) -> Alternated:
    """Measure two revisions of the repository of the working folder, and compare them.

    Raises UsageError, ConfigError, BuildFailed, ExecutionError, ResultsError, and KeyboardInterrupt. No worktree, environment
    or temporary folder is left in any case.
    """
    repository = Repository.of(Path.cwd())
    config = _config_in(repository, options.config)
    for revision in filter(None, (options.base, options.head)):
        repository.commit(revision)
    with interrupts.once():
        remove_stale(repository, note)
        with temporary_folder(repository) as folder:
            revisions = (("base", options.base), ("head", options.head))
            ready = [
                _sessions(
                    sides.check_out(label, revision, repository, folder, bool(options.build), note),
                    repository,
                    folder,
                    config,
                    options,
                    note,
                )
                for label, revision in revisions
            ]
            for sessions in ready if options.build else ():
                note(f"building {sessions.side.name}: {options.build}")
                sessions.side = sides.build_side(sessions.side, options.build, repository, folder, note)
            base, head = ready
            for sessions in ready:
                for earlier in sessions.prepare():
                    note(f"the earlier results were moved to {earlier}")
            return alternate(base, head, comparing, options.budget_s, note)


def _config_in(repository: Repository, config: Path) -> Path:
    """The config relative to the top of the repository. Raises UsageError."""
    if config.suffix == ".py":
        raise UsageError(
            f"{config}: kbench ab takes a config, not a script; make one with: kbench init {config} > {config.stem}.yaml, "
            "and commit it with its plug-in"
        )
    folder = (Path.cwd() / config).parent.resolve()
    if not folder.is_relative_to(repository.top):
        raise UsageError(
            f"{config}: lies outside of the repository {repository.top}; name a config of the repository, so that each "
            "revision has its own plug-ins"
        )
    return folder.relative_to(repository.top) / config.name


def _sessions(
    side: RevisionSide,
    repository: Repository,
    folder: Path,
    config: Path,
    options: RevisionOptions,
    note: Callable[[str], None],
) -> SideSessions:
    start = sides.folder_of(side, repository, Path.cwd())
    given = _find(side, config, options.config)
    if given is None:
        argument = options.config.name
    else:
        _check_plugins(side, repository, given, note)
        argument = os.path.join(os.curdir, os.path.relpath(given, start))  # noqa: PTH118  Path would drop the dot
    scratch = folder / f"results-{side.label}"
    scratch.mkdir()
    csv = options.out.absolute() / f"{side.label}.csv"
    return SideSessions(side, repository, start, [argument, *options.arguments], scratch, csv)


def _find(side: RevisionSide, config: Path, given: Path) -> Path | None:
    """The file of a side that the config means; None for a built-in config. Raises UsageError."""
    path = side.root / config
    bare = str(given) == given.name
    if path.is_file():
        return path
    if bare and not path.suffix and (named := path.with_name(path.name + builtin.SUFFIX)).is_file():
        return named
    if bare and given.name.removesuffix(builtin.SUFFIX) in builtin.config_names():
        return None
    raise UsageError(f"{config}: {side.name} has no such file; kbench ab needs the config in both revisions")


def _check_plugins(side: RevisionSide, repository: Repository, config: Path, note: Callable[[str], None]) -> None:
    """Raises UsageError if a plug-in of the config would come from the working tree on both sides."""
    try:
        plugins = [Path(plugin) for plugin in load_config(config).plugins]
    except ConfigError:  # the child reports it
        return
    for plugin in plugins:
        if plugin.is_relative_to(side.root):
            continue
        if plugin.is_relative_to(repository.top):
            raise UsageError(
                f"{config.name}: in {side.name}, the plug-in is named by an absolute path ({plugin}); write it "
                "relative to the config, so that each revision has its own"
            )
        note(f"{plugin}: lies outside of the repository, so both sides measure the same file")

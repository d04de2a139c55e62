"""A whole `kbench ab`: checks out and builds two revisions, measures them in turn, compares them, and cleans up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kbench import interrupts
from kbench.comparison.options import CompareOptions
from kbench.revisions.alternate import Alternated, alternate
from kbench.revisions.prepare import Preparer, config_in, plugin_arguments
from kbench.revisions.repository import Repository
from kbench.revisions.session import alone_in
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
    plugins     further plug-ins; each revision has its own if they are in the repository
    """

    base: str
    head: str | None
    config: Path
    arguments: Sequence[str] = ()
    build: str = ""
    budget_s: float = 600.0
    out: Path = Path("results/ab")
    plugins: Sequence[Path] = ()


def measure_revisions(options: RevisionOptions, comparing: CompareOptions, note: Callable[[str], None]) -> Alternated:
    """Measure two revisions of the repository of the working folder, and compare them.

    Raises UsageError, ConfigError, BuildFailed, ExecutionError, ResultsError, and KeyboardInterrupt. No worktree, environment
    or temporary folder is left in any case.
    """
    repository = Repository.of(Path.cwd())
    config = config_in(repository, options.config)
    arguments = [*options.arguments, *plugin_arguments(repository, options.plugins, note)]
    for revision in filter(None, (options.base, options.head)):
        repository.commit(revision)
    with interrupts.once(), alone_in(options.out, note):
        remove_stale(repository, note)
        with temporary_folder(repository) as folder:
            preparer = Preparer(repository, folder, config, options.config, arguments, options.build, note)
            checked_out = preparer.check_out_both(options.base, options.head)
            built = [preparer.build_ready(ready) for ready in checked_out]
            base, head = (
                preparer.sessions(ready, options.out.absolute() / f"{ready.side.label}.csv") for ready in built
            )
            return alternate(base, head, comparing, options.budget_s, note)

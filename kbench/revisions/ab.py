"""A whole `kbench ab`: checks out and builds two revisions, measures them in turn, compares them, and cleans up."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kbench import interrupts
from kbench.comparison.compare import compare_results
from kbench.comparison.model import CompareOptions, Comparison
from kbench.comparison.verdict import Verdict
from kbench.errors import UsageError
from kbench.execute.lock import hold
from kbench.execute.writer import check_writable
from kbench.results.stamps import digest
from kbench.revisions.repository import Repository
from kbench.revisions.side import RevisionSide, SessionLimit, check_out
from kbench.text import terminal
from kbench.text.words import plural

FEWEST_SESSIONS = 3
"""So many sessions on both sides show small changes: see docs/comparing.md."""

MOST_SESSIONS = 30
"""kbench measures no more sessions on a side than this, whatever the budget: rows that are unclear then stay unclear."""


def measure_revisions(
    base: str,
    head: str | None,
    config: Path,
    comparing: CompareOptions,
    *,
    arguments: Sequence[str],
    plugins: Sequence[Path],
    build: str,
    budget_s: float,
    out: Path,
) -> Comparison:
    """Measure two revisions of the repository of the working folder, and compare them. None as `head` is the working tree.

    `config` is a path in the repository or the name of a built-in config, and each revision has its own `plugins` if they are
    in the repository. `arguments` are further ones of `kbench run`, and `build` is the shell command that builds a revision; ""
    for none. Measuring takes `budget_s` at most; checking out and building do not count. base.csv and head.csv go to `out`.

    Raises UsageError, ConfigError, ExecutionError, ResultsError, and KeyboardInterrupt. No worktree, environment or temporary
    folder is left in any case.
    """
    repository = Repository.of(Path.cwd())
    if config.suffix == ".py":
        raise UsageError(
            f"{config}: revisions are measured with a config, not a script; measure the script in both revisions with "
            "kbench run, and compare the results with kbench compare"
        )
    arguments = [_of_each_revision(repository, config), *arguments]
    for plugin in plugins:
        arguments += ["--plugin", _of_each_revision(repository, plugin)]
    for revision in filter(None, (base, head)):
        repository.commit(revision)
    with interrupts.once(), _temporary_folder(repository) as folder:
        old_csv, new_csv = out / "base.csv", out / "head.csv"
        for csv in (old_csv, new_csv):
            check_writable(csv)
        old = check_out(base, repository, folder / "base", old_csv)
        new = check_out(head, repository, folder / "head", new_csv)
        for side in (old, new) if build else ():
            side.build(build)
        ended = _alternate(old, new, arguments, comparing, budget_s)
        terminal.note(
            f"measured {plural(old.count, 'session')} of base and {plural(new.count, 'session')} of head: {ended}"
        )
        terminal.note(f"the results are in {old_csv} and {new_csv}")
        return _compare(old, new, comparing)


def _of_each_revision(repository: Repository, path: Path) -> str:
    """The path by which each revision finds its own file: a child runs in the folder of its revision that stands for the
    working folder. A file outside of the repository keeps its path. The name of a built-in config is such a path, too."""
    place = path.absolute().parent.resolve() / path.name
    if place.is_relative_to(repository.top):
        return os.path.relpath(place, Path.cwd().resolve())
    terminal.note(f"{path}: lies outside of the repository, so all revisions measure the same file")
    return str(place)


@contextmanager
def _temporary_folder(repository: Repository) -> Iterator[Path]:
    """An empty folder for worktrees, environments and results. At the end, it is removed with all worktrees in it, also after
    a signal. A repository always has the same folder, so that the next one removes what a killed one left. One process at a
    time has it: two that measure at once would disturb each other."""
    folder = Path(tempfile.gettempdir()).resolve() / f"kbench-ab-{digest(str(repository.common))}"
    with hold(folder.with_suffix(".lock"), f"kbench ab of {repository.top}", wait=True):
        if folder.exists():
            _remove(repository, folder)
            terminal.note(f"removed what a killed kbench left behind: {folder}")
        try:
            folder.mkdir()
            yield folder
        finally:
            with interrupts.noted():
                _remove(repository, folder)


def _remove(repository: Repository, folder: Path) -> None:
    """Delete the folder, and then git's entries of the worktrees in it."""
    shutil.rmtree(folder, ignore_errors=True)
    repository.forget_worktrees(folder)


def _alternate(
    base: RevisionSide, head: RevisionSide, arguments: Sequence[str], options: CompareOptions, budget_s: float
) -> str:
    """Measure base, head, head, base, base, head, ... so that a drift of the machine affects both sides alike. Returns why it
    ended.

    Stops when both sides have FEWEST_SESSIONS and no row is unclear, when both have MOST_SESSIONS, or when another pair of
    sessions would probably exceed the budget. The first pair is measured in any case; none of its sessions may take longer
    than the whole budget. Raises what RevisionSide.measure and compare_results raise.
    """
    began, longest_s, order = time.monotonic(), 0.0, (base, head)
    while True:
        pair_began = time.monotonic()
        for side in order:
            session_began = time.monotonic()
            try:
                side.measure(arguments, budget_s)
            except SessionLimit as error:
                if base.count and head.count:
                    return str(error)
                raise SessionLimit(f"{error}; give more, or measure fewer cases") from None
            seconds = time.monotonic() - session_began
            terminal.note(f"session {side.count} of {side.name}: {seconds:.1f} s")
        order = (order[1], order[0])
        longest_s = max(longest_s, time.monotonic() - pair_began)
        if head.count >= FEWEST_SESSIONS:
            if all(row.verdict is not Verdict.UNCLEAR for row in _compare(base, head, options).rows):
                return "no row is unclear"
            if head.count >= MOST_SESSIONS:
                return f"{MOST_SESSIONS} sessions of each side are the most that kbench measures"
        if time.monotonic() - began + longest_s > budget_s:
            few = f", before each side had {FEWEST_SESSIONS} sessions: only large changes show"
            return f"the budget is spent{few if head.count < FEWEST_SESSIONS else ''}"


def _compare(base: RevisionSide, head: RevisionSide, options: CompareOptions) -> Comparison:
    return compare_results(f"base={base.csv}", f"head={head.csv}", options=options)

"""A whole `kbench bisect`: halves the commits between two revisions. Each step is an `ab` against the good revision.

git ranks the commits (`git rev-list --bisect-all`), as it does for `git bisect`. The state is in this process only: no bisect
is ever begun in the repository, so none can be left half done.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kbench import interrupts
from kbench.comparison.model import JudgedRow
from kbench.comparison.options import CompareOptions
from kbench.comparison.verdict import Verdict
from kbench.errors import ExecutionError, KbenchError, UsageError
from kbench.revisions.alternate import alternate
from kbench.revisions.bisecting.bisected import Bisected, Compared, Ending, StepMark
from kbench.revisions.bisecting.one_row import arguments_for, blaming_the_row, name_of_row
from kbench.revisions.prepare import Preparer, ReadySide, config_in
from kbench.revisions.repository import CommitInfo, Repository
from kbench.revisions.session import SessionLimit, alone_in
from kbench.revisions.side import BuildFailed
from kbench.revisions.temporary_folder import remove_stale, temporary_folder

SOUGHT = (Verdict.SLOWER, Verdict.FASTER)

DECIDED = (*SOUGHT, Verdict.SAME)
"""A revision with another verdict is skipped."""


@dataclass(frozen=True)
class BisectOptions:
    """What is searched.

    good, bad  revisions; `good` is an ancestor of `bad`
    config     as the user gave it: a path in the repository, or the name of a built-in config
    row        terms that match one row, as kbench/results/row_filter.py reads them
    arguments  further arguments of `kbench run`
    build      shell command that builds a revision; "" for none
    margin     smallest change of interest, as a share; None for that of `kbench compare`
    budget_s   how long to measure each revision, in seconds; checking out and building do not count
    out        folder for the results of each step
    """

    good: str
    bad: str
    config: Path
    row: str
    arguments: Sequence[str] = ()
    build: str = ""
    margin: float | None = None
    budget_s: float = 600.0
    out: Path = Path("results/bisect")


class RevisionNotMeasured(ExecutionError):
    """A revision that is to be tested cannot be measured. The message says why."""


def bisect_revisions(options: BisectOptions, note: Callable[[str], None]) -> Bisected:
    """Find the first commit after `good` that changes the row as `bad` does.

    Raises UsageError, ConfigError, BuildFailed, ExecutionError, ResultsError, and KeyboardInterrupt. No worktree, environment
    or temporary folder is left in any case.
    """
    repository = Repository.of(Path.cwd())
    config = config_in(repository, options.config)
    arguments = [*arguments_for(options.row), *options.arguments]
    good, bad = _ends(repository, options)
    with interrupts.once(), alone_in(options.out, note):
        remove_stale(repository, note)
        with temporary_folder(repository) as folder:
            preparer = Preparer(repository, folder, config, options.config, arguments, options.build, note)
            return _Search(repository, preparer, options, good, note).run(bad)


def _ends(repository: Repository, options: BisectOptions) -> tuple[CommitInfo, CommitInfo]:
    """The good and the bad revision. Raises UsageError."""
    good, bad = (repository.describe(repository.commit(each)) for each in (options.good, options.bad))
    if good == bad:
        raise UsageError(f"--good {options.good} and --bad {options.bad} are the same commit; name two revisions")
    if repository.is_ancestor(bad.commit, good.commit):
        raise UsageError(
            f"--good {options.good} comes after --bad {options.bad}; --good must be the older revision, even if it is the "
            "slower one"
        )
    if not repository.is_ancestor(good.commit, bad.commit):
        raise UsageError(
            f"--good {options.good} is not an ancestor of --bad {options.bad}; set --good to the last common ancestor of "
            f"both, which this command prints: git merge-base {options.good} {options.bad}"
        )
    return good, bad


class _Search:
    """A bisect while it runs.

    ready    the revisions that are checked out and built, by hash; they may be measured again
    skipped  the commits that cannot be built or measured, or whose row is not decided
    """

    def __init__(
        self,
        repository: Repository,
        preparer: Preparer,
        options: BisectOptions,
        good: CommitInfo,
        note: Callable[[str], None],
    ) -> None:
        self.repository, self.preparer, self.options, self.good, self.note = repository, preparer, options, good, note
        self.comparing = CompareOptions(where=options.row, margin=options.margin)
        self.name = ""
        self.ready: dict[str, ReadySide] = {}
        self.steps: list[Compared] = []
        self.skipped: set[str] = set()

    def run(self, bad: CommitInfo) -> Bisected:
        self._prepare(self.good, self.options.good)
        self.name = self._name_of_row()
        self._prepare(bad, self.options.bad)
        row = self._measure(self.good, bad, bad.short)
        self.note(f"{bad.short} against {self.good.short}: {row.verdict}")
        if row.verdict not in SOUGHT:
            return self._no_change(bad, row)
        self.steps.append(Compared(bad, self.good, row, StepMark.BAD))
        candidates = self._halve(bad, row.verdict)
        if len(candidates) > 1:
            why = f"the commits directly before {candidates[-1].short} were skipped"
            return self._ended(bad, row.verdict, candidates, None, Ending.SEVERAL, why)
        confirming = self._confirm(candidates[0], row.verdict)
        if confirming.mark is StepMark.BAD:
            return self._ended(bad, row.verdict, candidates, confirming, Ending.FOUND)
        return self._ended(bad, row.verdict, candidates, confirming, Ending.UNCONFIRMED, confirming.why)

    def _no_change(self, bad: CommitInfo, row: JudgedRow) -> Bisected:
        """Raises ExecutionError if the revisions have no times to compare."""
        reason = row.reason and f": {row.reason}"
        if row.verdict is Verdict.SAME:
            reason = f": the change is smaller than the margin, which is {self.comparing.rules.margin * 100:g}%"
        if row.verdict not in (Verdict.SAME, Verdict.UNCLEAR):
            raise ExecutionError(
                f"{self.name}: the comparison of {bad.short} with {self.good.short} gives {row.verdict}{reason}; kbench "
                "bisect needs a time of both revisions"
            )
        mark = StepMark.GOOD if row.verdict is Verdict.SAME else StepMark.SKIPPED
        self.steps.append(Compared(bad, self.good, row, mark))
        why = f"the comparison of {bad.short} with {self.good.short} gives {row.verdict}{reason}"
        return self._ended(bad, None, [], None, Ending.NO_CHANGE, why)

    def _halve(self, bad: CommitInfo, sought: Verdict) -> list[CommitInfo]:
        """Test commits until none is left. Returns those that can be the first bad one, the oldest first."""
        first_bad, last_good, goods = bad, self.good, [self.good.commit]
        while True:
            left = self.repository.candidates(first_bad.commit, goods)
            untested = [each for each in left if each != first_bad.commit and each not in self.skipped]
            if not untested:
                return [self.repository.describe(each) for each in self.repository.history(first_bad.commit, goods)]
            self.note(f"{len(left)} commits can be the first {sought} one")
            step = self._compare(self.good, self.repository.describe(untested[0]), sought)
            self.steps.append(step)
            done = step.commit
            if step.mark is StepMark.BAD:
                done, first_bad = first_bad, step.commit
            elif step.mark is StepMark.GOOD:
                done, last_good = last_good, step.commit
                goods.append(last_good.commit)
            else:
                self.skipped.add(step.commit.commit)
            if done != self.good:
                self._forget(done)

    def _confirm(self, first: CommitInfo, sought: Verdict) -> Compared:
        """Measure the first bad commit and its parent in turn."""
        parent = self.repository.describe(self.repository.first_parent(first.commit))
        self.note(f"measuring {first.short} and its parent {parent.short} in turn")
        found = self._compare(parent, first, sought, f"{first.short}-and-parent")
        if found.mark is StepMark.GOOD and found.row:
            why = f"compared with its parent {parent.short}, {first.short} is {found.row.verdict}"
            cause = ": the change probably adds up over several commits" if found.row.verdict is Verdict.SAME else ""
            return replace(found, why=f"{why}{cause}")
        return found

    def _compare(self, older: CommitInfo, commit: CommitInfo, sought: Verdict, folder: str = "") -> Compared:
        """Compare a commit with an older one. If that does not tell which is faster, the commit is skipped."""
        row, why = None, ""
        try:
            for each in (older, commit):
                if each.commit not in self.ready:
                    self._prepare(each, each.commit)
            row = self._measure(older, commit, folder or commit.short)
        except (RevisionNotMeasured, BuildFailed, UsageError) as error:
            why = str(error)
        if row is not None and row.verdict not in DECIDED:
            why = f"the comparison of {commit.short} with {older.short} gives {row.verdict}{row.reason and f': {row.reason}'}"
        mark = StepMark.SKIPPED if row is None or why else StepMark.BAD if row.verdict is sought else StepMark.GOOD
        self.note(f"{commit.short} {commit.subject}: {f'skipped: {why}' if row is None or why else row.verdict}")
        return Compared(commit, older, row, mark, why)

    def _measure(self, older: CommitInfo, commit: CommitInfo, folder: str) -> JudgedRow:
        """Measure two commits in turn. Raises what `alternate` raises, and RevisionNotMeasured if the newer one cannot be
        measured."""
        place = self.options.out.absolute() / folder
        base, head = (
            self.preparer.sessions(ready, place / f"{ready.side.label}.csv")
            for ready in (self.ready[older.commit], self.ready[commit.commit])
        )
        try:
            done = alternate(base, head, self.comparing, self.options.budget_s, self.note)
        except KbenchError as error:
            if base.failed:  # also if the disk is full, because the older one is measured first
                raise
            raise RevisionNotMeasured(str(error)) from None
        for row in done.comparison.rows:
            if row.key.label == self.name:
                return row
        raise RevisionNotMeasured(f"{head.side.name}: its results have no row {self.name}")

    def _name_of_row(self) -> str:
        """The name of the row, from a first session of the good revision."""
        first = self.preparer.sessions(self.ready[self.good.commit], self.options.out.absolute() / "good.csv")
        try:
            with blaming_the_row(self.options.row):
                first.measure(self.options.budget_s)
        except SessionLimit as error:
            raise error.with_advice() from None
        return name_of_row(first.csv, self.options.row)

    def _prepare(self, commit: CommitInfo, revision: str) -> None:
        """Check out and build a revision. Raises UsageError and BuildFailed."""
        label = "good" if commit == self.good else commit.short
        try:
            self.ready[commit.commit] = self.preparer.check_out(label, revision)
            self.ready[commit.commit] = self.preparer.build_ready(self.ready[commit.commit])
        except KbenchError:
            self._forget(commit)
            raise

    def _forget(self, commit: CommitInfo) -> None:
        """Delete the worktree and the environment of a revision."""
        if ready := self.ready.pop(commit.commit, None):
            self.preparer.discard(ready)

    def _ended(
        self,
        bad: CommitInfo,
        sought: Verdict | None,
        candidates: Sequence[CommitInfo],
        confirming: Compared | None,
        ending: Ending,
        why: str = "",
    ) -> Bisected:
        steps, repeat = tuple(self.steps), tuple(self._commands(bad, confirming))
        return Bisected(self.good, bad, self.name, sought, steps, tuple(candidates), confirming, ending, repeat, why)

    def _commands(self, bad: CommitInfo, confirming: Compared | None) -> list[str]:
        """The commands that measure the answer again: the commit and its parent, or the bad revision and the good one."""
        older, newer = (confirming.against, confirming.commit) if confirming else (self.good, bad)
        options = self.options
        words = ["kbench", "ab", older.short, newer.short, str(options.config), *self.preparer.arguments]
        words += ["--build", options.build] if options.build else []
        words += ["--margin", f"{options.margin:g}"] if options.margin is not None else []
        return [shlex.join(words), *([f"git show {newer.short}"] if confirming else [])]

"""What a bisect found."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from kbench.comparison.model import JudgedRow
from kbench.comparison.verdict import Verdict
from kbench.revisions.repository import CommitInfo


class StepMark(enum.StrEnum):
    """What a step says about a revision, in the words of `git bisect`."""

    GOOD = "good"
    BAD = "bad"
    SKIPPED = "skipped"


class Ending(enum.StrEnum):
    """How a bisect ended.

    FOUND        one commit changed the row, and a comparison with its parent confirms that
    NO_CHANGE    the bad revision is not shown to differ from the good one
    SEVERAL      all commits between the last good and the first bad one were skipped
    UNCONFIRMED  the first bad commit is not shown to differ from its parent
    """

    FOUND = "found"
    NO_CHANGE = "no change"
    SEVERAL = "several commits"
    UNCONFIRMED = "not confirmed"


@dataclass(frozen=True)
class Compared:
    """A revision that was measured in turn with an older one.

    commit   the revision
    against  the older one
    row      its row of the comparison; None if it could not be measured
    mark     what follows from it
    why      why it was skipped
    """

    commit: CommitInfo
    against: CommitInfo
    row: JudgedRow | None
    mark: StepMark
    why: str = ""


@dataclass(frozen=True)
class Bisected:
    """The result of a bisect.

    good, bad   the revisions that were given
    row         name of the row
    sought      `slower` or `faster`: the verdict on the bad revision; None if it is neither
    steps       every comparison with the good revision, the bad one first
    candidates  the commits that can be the first bad one, the oldest first; one if it is known
    confirming  the first bad commit against its parent; None if no commit was found
    ending      how it ended
    repeat      the commands that measure the answer again
    why         why no commit was found
    """

    good: CommitInfo
    bad: CommitInfo
    row: str
    sought: Verdict | None
    steps: tuple[Compared, ...]
    candidates: tuple[CommitInfo, ...]
    confirming: Compared | None
    ending: Ending
    repeat: tuple[str, ...]
    why: str = ""

    @property
    def first(self) -> Compared:
        """The comparison of the bad revision with the good one."""
        return self.steps[0]

    @property
    def found(self) -> CommitInfo | None:
        """The commit that changed the row."""
        return self.candidates[0] if self.ending is Ending.FOUND else None

    @property
    def measured(self) -> int:
        """The number of revisions that were measured, the good one included."""
        return 1 + sum(step.row is not None for step in self.steps)

"""The result of a bisect as JSON, for programs. Its schema is `schema()`; `kbench schema bisect` prints it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from kbench.comparison.presentation.wording import finite
from kbench.comparison.verdict import Verdict
from kbench.revisions.bisecting.bisected import Bisected, Compared, Ending, StepMark
from kbench.revisions.repository import CommitInfo
from kbench.text.printable import printable, safe_reason

FORMAT: Literal["kbench.bisect/1"] = "kbench.bisect/1"


class _Model(BaseModel):
    """No number is NaN or infinite, and no key is one that the schema does not have."""

    model_config = ConfigDict(allow_inf_nan=False, extra="forbid", field_title_generator=lambda name, _: name)


class BisectCommit(_Model):
    """A commit. `date` is its day."""

    commit: str
    author: str
    date: str
    subject: str


class BisectStep(_Model):
    """A revision that was measured in turn with an older one."""

    commit: BisectCommit
    against: str = Field(description="The hash of the older revision.")
    mark: StepMark = Field(
        description="What the comparison says about the commit. A commit is skipped if its verdict is unclear or if it could "
        "not be measured."
    )
    verdict: Verdict | None = Field(description="Null if the revision could not be built or measured.")
    ratio: float | None = Field(description="The new time divided by the old one.")
    ci: tuple[float, float] | None = Field(description="The 95 % interval of the ratio.")
    reason: str


class BisectDocument(_Model):
    """What `kbench bisect --json` prints."""

    version: Literal["kbench.bisect/1"] = Field(
        alias="schema", description="The version of this format. It changes if programs that read it have to change."
    )
    ending: Ending = Field(
        description="found: the first bad commit is known. no change: the bad revision is not shown to differ from the good "
        "one. several commits: any of the candidates can be the first bad one, because commits before the last of them were "
        "skipped. not confirmed: the commit is not shown to differ from its parent."
    )
    why: str = Field(description="Why no commit was found. Empty if one was.")
    row: str
    good: BisectCommit
    bad: BisectCommit
    sought: Verdict | None = Field(
        description="The verdict on the bad revision: slower or faster. Null if it is neither."
    )
    candidates: list[BisectCommit] = Field(
        description="The commits that can be the first bad one, the oldest first. One if the commit is known."
    )
    confirming: BisectStep | None = Field(
        description="The first bad commit against its parent: the size of its change. Null if no commit is known."
    )
    steps: list[BisectStep] = Field(description="The comparisons with the good revision, the bad one first.")
    measured: int = Field(description="The number of revisions that were measured, the good one included.")
    repeat: list[str] = Field(description="The commands that measure the answer again.")


def text(found: Bisected) -> str:
    document = BisectDocument(
        schema=FORMAT,
        ending=found.ending,
        why=safe_reason(found.why),
        row=printable(found.row),
        good=_commit(found.good),
        bad=_commit(found.bad),
        sought=found.sought,
        candidates=[_commit(each) for each in found.candidates],
        confirming=_step(found.confirming) if found.confirming else None,
        steps=[_step(each) for each in found.steps],
        measured=found.measured,
        repeat=[printable(each) for each in found.repeat],
    )
    return document.model_dump_json(by_alias=True, indent=1)


def schema() -> dict[str, Any]:
    """The document as JSON Schema (draft 2020-12)."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return head | BisectDocument.model_json_schema(mode="serialization") | {"title": "kbench bisect"}


def _commit(commit: CommitInfo) -> BisectCommit:
    return BisectCommit(
        commit=commit.commit,
        author=printable(commit.author),
        date=commit.date,
        subject=printable(commit.subject),
    )


def _step(step: Compared) -> BisectStep:
    row = step.row
    ends = [finite(end) for end in row.ci] if row and row.ci else [None]
    low, high = ends[0], ends[-1]
    return BisectStep(
        commit=_commit(step.commit),
        against=step.against.commit,
        mark=step.mark,
        verdict=row.verdict if row else None,
        ratio=finite(row.ratio) if row else None,
        ci=None if low is None or high is None else (low, high),
        reason=safe_reason(step.why or (row.reason if row else "")),
    )

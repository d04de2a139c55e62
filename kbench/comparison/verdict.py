"""The verdicts of a comparison, and their reasons. This module imports nothing heavy: `kbench explain` starts with it."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field


class Verdict(enum.StrEnum):
    """What a comparison says about a row. The verdicts that need attention come first."""

    glyph: str
    """A sign beside the word, so that the eye finds it in a column: `!` needs attention."""
    explanation: str
    """The paragraph that `kbench explain` prints."""
    rank: int
    """Its place in the order of verdicts."""

    def __new__(cls, word: str, glyph: str = "", explanation: str = "") -> Verdict:
        verdict = str.__new__(cls, word)
        verdict._value_ = word
        verdict.glyph, verdict.explanation, verdict.rank = glyph, explanation, len(cls.__members__)
        return verdict

    SLOWER = (
        "slower",
        "!",
        """The new side takes longer. `kbench compare` is certain of that (a false discovery rate of 1 % over all rows
        of the report), and the interval of the change reaches beyond the margin (2 %, or the value of `--margin`). With
        one session on a side, a change must exceed a limit of at least 3 %, and the reason says "1 session". Sessions
        count as trials, samples do not: see docs/comparing.md.""",
    )
    FAILED = (
        "failed",
        "!",
        """The new side failed and the old side did not: the row is wrong, tampered, error, oom, timeout or crashed in at least
        one session. Both sides can fail in some of their sessions. The row is then `failed` if the old side has a time in
        at least one session and the new side has none; otherwise it is `untimed`. The reason shows the status and its
        message.""",
    )
    MISSING = (
        "missing",
        "!",
        """The old side has a time for this row, and the new side lacks one in at least one session: the row is absent, or
        its provider declined the case or could not run. Nothing failed, but the row is no longer measured in every session.
        A row that was `checked` and now is not is `missing` too. `--fail-on missing` makes this an error.""",
    )
    SUSPECT = (
        "suspect",
        "!",
        """At least one side is faster than it can be. The flag `suspect` explains how that happens.""",
    )
    FASTER = (
        "faster",
        "+",
        """The new side takes less time. The same rule applies as for `slower`: the change is certain, and its interval
        reaches beyond the margin. A gate that fails on `slower` accepts it.""",
    )
    FIXED = (
        "fixed",
        "+",
        """The old side failed and the new side has a time in every session. The old side lacks a time in at least one
        session, so this comparison says nothing about speed.""",
    )
    NEW = (
        "new",
        "+",
        """The new side has a time for this row in every session. The old side lacks one in at least one session and did
        not fail, so there is nothing to compare with yet.""",
    )
    INCOMPARABLE = (
        "incomparable",
        "x",
        """Both sides have a time, but they were measured in different ways: on another device, with another timer or cache
        mode, or with another definition of the case (the operator's source, inputs, bytes or tolerance). The reason says
        which. `--vary` allows a difference that you made on purpose, as `--vary case_hash` allows a rewritten reference. With
        `--strict`, such a row makes the command exit with code 3.""",
    )
    UNCLEAR = (
        "unclear",
        "?",
        """The measurements do not show that one provider (or side) is faster, and do not show that both are equally fast
        (`?` in tables). In `kbench compare` the reason says why: there are too few sessions, the sessions
        vary too much (the reason then says about how many sessions would suffice), the drift of the machine between the two
        files may explain the change, or the change is less than two ticks of the clock. More sessions on both sides, measured
        in alternation, usually help: `kbench ab` measures two git revisions so. If no row is clear, the exit code is 3.""",
    )
    SAME = (
        "same",
        "=",
        """The measurements show that the sides agree: the whole interval of the change lies within the margin. A change can be
        certain and `same`: it is then certainly smaller than the margin.""",
    )
    UNTIMED = (
        "untimed",
        "-",
        """There is nothing to compare: neither side has a time in every session, because the provider declines the
        case, cannot run here, was only checked, or fails on both sides. The reason shows the status and its message. Or a
        side has a time, but not the metric that `--metric` names: the reason then says which side lacks it.""",
    )

    @property
    def mark(self) -> str:
        """`! slower`"""
        return f"{self.glyph} {self.value}"

    @property
    def needs_attention(self) -> bool:
        """Whether it is a warning in a report."""
        return self.glyph == "!"

    @property
    def welcome(self) -> bool:
        """Whether the new side is better than the old one, or new."""
        return self.glyph == "+"

    @property
    def quiet(self) -> bool:
        """Whether nothing changed, or nothing that can be told. Reports fold such rows."""
        return self in (Verdict.UNCLEAR, Verdict.SAME, Verdict.UNTIMED)


class Cause(enum.Enum):
    """The causes of verdicts. The value is the sentence, with the fields of the reason in braces."""

    STATUS = "{outcome}"
    FAILED_ON_BOTH_SIDES = "failed on both sides: {outcome}"
    EARLIER_STATUS = "was {outcome}"
    NO_METRIC = "the {side} side has no {metric} in {lacking} of {timed}"
    OTHER_CONDITIONS = "{conditions}"
    IMPLAUSIBLE = "{who} an implausible time (kbench explain suspect)"
    ONE_MEASUREMENT = "both sides are the same measurement"
    ONE_SAMPLE = "a session has only one sample; raise measure.rep_ms"
    NOISY_MACHINE = "too noisy for 1 session (noise floor {noise_floor}); quieten the machine, and add sessions"
    TOO_NOISY = "too noisy: the margin needs {sessions} sessions per side; quieten the machine, or widen --margin"
    NOISY = "noisy: about {sessions} sessions per side would settle it"
    PROBABLE = "probably {direction}: about {sessions} sessions per side would decide it"
    DRIFT = "the machine drifted by {drift:+.1%}, which may explain changes from {low:+.1%} to {high:+.1%}"
    BELOW_TWO_TICKS = "the change is less than two ticks of the clock; on a GPU, timer: graph resolves smaller changes"
    ADD_SESSIONS = "add sessions"
    ONE_SESSION = "1 session: only changes above {smallest:.1%} count"
    TWO_SESSIONS = "only 2 sessions"
    CODE = "{what_ran}"


@dataclass(frozen=True)
class Reason:
    """A cause, and the values of the fields in its sentence."""

    cause: Cause
    fields: dict[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.cause.value.format(**self.fields)


def because(cause: Cause, **fields: object) -> Reason:
    return Reason(cause, fields)

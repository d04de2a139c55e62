"""Why a row has its verdict. A reason is a cause with its numbers and words; `str` makes the sentence that readers get."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field


class Cause(enum.Enum):
    """The causes of verdicts. The value is the sentence, with the fields of the reason in braces."""

    STATUS = "{outcome}"
    FAILED_ON_BOTH_SIDES = "failed on both sides: {outcome}"
    EARLIER_STATUS = "was {outcome}"
    NO_METRIC = "the {side} side has no {metric}"
    NO_METRIC_IN_SOME_SESSIONS = "the {side} side has no {metric} in {lacking} of {timed} sessions"
    NO_METRIC_ON_BOTH_SIDES = "neither side has {metric}"
    OTHER_CONDITIONS = "{conditions}"
    IMPLAUSIBLE = "{who} an implausible time (kbench explain suspect)"
    ONE_MEASUREMENT = "both sides are the same measurement"
    ONE_SAMPLE = "a session has only one sample; raise measure.rep_ms"
    NOISY_MACHINE = "too noisy for 1 session (noise floor {noise_floor}); quieten the machine, and add sessions"
    TOO_NOISY = "too noisy: {sessions} sessions per side would be needed; quieten the machine, or set a wider --margin"
    NOISY = "noisy: about {sessions} sessions per side would settle it"
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


def sentence_of(reasons: Iterable[Reason]) -> str:
    """`only 2 sessions; other machine code`"""
    return "; ".join(filter(None, map(str, reasons)))

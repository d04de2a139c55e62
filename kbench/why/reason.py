"""A reason for the time of a row."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """A reason for the time of a row.

    kind    a word for programs
    weight  0 to 1: about which share of the time it explains
    """

    kind: str
    weight: float
    sentence: str

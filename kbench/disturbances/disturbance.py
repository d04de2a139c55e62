"""What a disturbance is, and all that are found on this machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Disturbance:
    """Something that distorts timings.

    what     what is so on this machine, as a sentence
    why      what it does to a reading, as a sentence
    command  the command line that changes it, or shows more
    """

    what: str
    why: str
    command: str

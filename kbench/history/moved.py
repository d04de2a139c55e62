"""What else changed where a series changed: the code of the provider, the baseline, the machine, the stack or the settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

STACK = ("packages", "cuda", "hip", "nvcc", "python", "kbench", "triton_interpreter")
SETTINGS = ("measure", "variables", "profile", "baseline", "threads")
"""The beginnings of the names of properties, see `environment_properties`. All others are those of the machine."""

NOT_CAUSES = ("uncommitted changes",)
"""Properties that are left out. The commit already shows uncommitted changes."""

COMMIT = "commit"
"""The name of the property that holds the git commits."""

GONE = "none"
"""The value of a property that one side lacks."""


@dataclass(frozen=True)
class MovedProperty:
    """A property with its values before and after. Either is GONE if that side lacks it or knows no value."""

    name: str
    old: str
    new: str

    @property
    def text(self) -> str:
        """`torch 2.9.0 -> 2.10.0`. Commits are cut as git does."""
        old, new = (self.old, self.new) if self.name != COMMIT else map(_short_commit, (self.old, self.new))
        return f"{self.name.removeprefix('packages.')} {old} -> {new}"


@dataclass(frozen=True)
class Moved:
    """What moved with a change.

    code      the git commits, if both are known, and the hash of the provider's code
    baseline  the name of the baseline, and its own change as a ratio
    machine   driver, limits and the UUID of the device
    copies    by what ratio the copies of the machine became slower, which kbench subtracts; None if by less than the margin
    stack     versions of packages, of CUDA and of Python
    settings  settings of the measurement and environment variables
    """

    code: tuple[MovedProperty, ...] = ()
    baseline: tuple[str, float] | None = None
    machine: tuple[MovedProperty, ...] = ()
    copies: float | None = None
    stack: tuple[MovedProperty, ...] = ()
    settings: tuple[MovedProperty, ...] = ()

    @property
    def code_text(self) -> str:
        """The commits, or the hashes of the code if the commits are not known; "" if the code is the same."""
        return self.code[0].text if self.code else ""

    @property
    def anything(self) -> bool:
        return bool(self.code or self.baseline or self.machine or self.copies or self.stack or self.settings)


def moved_properties(old: Mapping[str, str], new: Mapping[str, str]) -> list[MovedProperty]:
    """The properties that differ. None if one side has no properties, because its environment is not known."""
    if not old or not new:
        return []
    return [
        MovedProperty(name, old.get(name) or GONE, new.get(name) or GONE)
        for name in dict.fromkeys([*old, *new])
        if (old.get(name) or GONE) != (new.get(name) or GONE) and name not in NOT_CAUSES
    ]


def sorted_out(found: list[MovedProperty]) -> dict[str, tuple[MovedProperty, ...]]:
    """The properties by the field of `Moved` that they belong to."""
    groups: dict[str, list[MovedProperty]] = {"machine": [], "stack": [], "settings": []}
    for each in found:
        top = each.name.partition(".")[0]
        groups["stack" if top in STACK else "settings" if top in SETTINGS else "machine"].append(each)
    return {name: tuple(members) for name, members in groups.items()}


def _short_commit(commit: str) -> str:
    return commit[:10] + "+" * (len(commit) > 10 and commit.endswith("+"))

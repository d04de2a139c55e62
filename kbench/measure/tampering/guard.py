"""The guard around each step of a provider: finds what the step has changed, names it, and puts it right for the next one."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any

from kbench.contract.operator import Operator
from kbench.measure.tampering import audit_events
from kbench.measure.tampering.patches import Patches
from kbench.measure.tampering.settings import (
    UNREADABLE,
    Effect,
    ProcessSetting,
    Switches,
    present_settings,
    read,
    write,
)
from kbench.measure.tampering.streams import StandardStreams

CHANGES_NAMED = 3
"""How many changes a reason names."""

FRESH_NS = 1_000_000
"""A step that begins so soon after the last look needs no look of its own. A thread can replace something in this time, but
it can do so while the next provider runs, too."""


@dataclass
class ProviderChanges:
    """What a provider, or the import of its plug-in, did outside of its outputs, in words.

    tampering  for which its time cannot be believed: `replaced time.perf_counter_ns (while timing)`
    altered    settings that it changed: `torch.set_num_threads from 1 to 8`
    own        the settings with which it has to run from now on, by name
    script     it is a line of a script, whose switches are its own
    """

    tampering: list[str] = field(default_factory=list)
    altered: list[str] = field(default_factory=list)
    own: dict[str, Any] = field(default_factory=dict)
    script: bool = False

    def add(self, other: ProviderChanges) -> None:
        self.tampering += [each for each in other.tampering if each not in self.tampering]
        self.altered += [each for each in other.altered if each not in self.altered]
        self.own |= other.own


class Guard:
    """Remembers what no provider may replace, as it is now. Make it before any plug-in is imported."""

    def __init__(self) -> None:
        self._patches = Patches()  # first: this imports Triton, which has settings
        self._streams = StandardStreams()
        self._settings: list[ProcessSetting] = present_settings(self._streams)
        self.switches = Switches(self._settings)
        self._plugins: dict[str, ProviderChanges] = {}
        self._running: tuple[ProviderChanges, str] | None = None
        self._common: dict[str, Any] = {}
        self._before: dict[str, Any] = {}
        self._looked_ns: int | None = None

    def watch(self, operator: Operator) -> None:
        """Watch the functions of an operator and its present providers as well. The next step begins with a look of its own:
        kbench may have changed settings for the operator."""
        self._patches.watch_operator(operator)
        self._looked_ns = None

    def of_plugin(self, plugin: str | None) -> ProviderChanges:
        """The changes of a provider that has not run: those of the import of its plug-in."""
        found = ProviderChanges()
        found.add(self._plugins.get(plugin or "", found))
        return found

    def plugin_runs(self, plugin: str) -> None:
        """Code of a plug-in runs from now on, outside of steps; an empty name: no more."""
        self.end()
        if plugin:
            self.begin(self._plugins.setdefault(plugin, ProviderChanges()), "when its plug-in was imported")

    def begin(self, changes: ProviderChanges, when: str, timed: bool = False) -> None:
        """Code of a provider runs from now on, with its own settings. `when` is part of what `end` says. `timed`: it is being
        timed, so it may start no process.

        What has changed since the last `end` is the work of a thread of some provider. It is put right, and a note says so,
        but no provider is blamed.
        """
        fresh = self._looked_ns is not None and perf_counter_ns() - self._looked_ns < FRESH_NS
        if not fresh:
            self._put_right_unblamed()
            self._common = read(self._settings)
        self._before = self._common
        if changes.own:
            write(self._settings, changes.own)
            self._before = read(self._settings)
        self._running = changes, when
        audit_events.begin_watching(timed)

    def _put_right_unblamed(self) -> None:
        for verb, found in (
            ("closed or redirected", self._streams.put_descriptors_right()),
            ("replaced", self._patches.undone()),
        ):
            if found:
                what = f"something {verb} {listed(found)} between the calls of providers"
                who = "probably a background thread that a provider has started"
                print(f"kbench: {what}, {who}; kbench put it right", file=sys.stderr)

    def end(self) -> None:
        """Add to the changes that `begin` received what has changed since, and put it right. Does nothing without `begin`."""
        if self._running is None:
            return
        (changes, when), self._running = self._running, None
        seen = audit_events.end_watching()
        replaced, now = self._patches.undone(), read(self._settings)
        self._looked_ns = perf_counter_ns()
        deeds = [*([f"replaced {listed(replaced)}"] if replaced else []), *seen]
        if deeds or now != self._before:
            changes.add(self._found(deeds, now, when, script=changes.script))
        if now != self._common:
            write(self._settings, self._common)
            self._looked_ns = None  # not every setting can be written back: the next step reads what they are

    def _found(self, deeds: list[str], now: Mapping[str, Any], when: str, *, script: bool) -> ProviderChanges:
        found, advice = ProviderChanges(), ""
        for setting in self._settings:
            old, new = self._before[setting.name], now[setting.name]
            if old == new or UNREADABLE in (old, new) or setting.effect is Effect.SILENT or (script and setting.switch):
                continue
            if setting.effect is Effect.TIMING:
                deeds.append(f"changed {setting.name}")
                advice = advice or setting.advice
            else:
                found.altered.append(f"{setting.name} from {_shown(old)} to {_shown(new)}")
            if setting.effect is Effect.OWN:
                found.own[setting.name] = new
        if deeds:
            found.tampering.append(f"{listed(deeds)} ({when}){f'; {advice}' if advice else ''}")
        return found


def listed(found: Sequence[str]) -> str:
    """The first changes as a list, and how many more there are."""
    more = f", and {len(found) - CHANGES_NAMED} more" if len(found) > CHANGES_NAMED else ""
    return ", ".join(found[:CHANGES_NAMED]) + more


def _shown(value: Any) -> str:
    return "nothing" if value is None or value == "" else str(getattr(value, "__name__", value))

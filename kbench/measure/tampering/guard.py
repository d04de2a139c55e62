"""The guard around each step of a provider: finds what the step has changed, names it, and puts it right for the next one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kbench.contract.operator import Operator
from kbench.measure.tampering import settings
from kbench.measure.tampering.audit import the_audit
from kbench.measure.tampering.settings import EFFECTS, UNREADABLE, Effect
from kbench.measure.tampering.watched import StandardStreams, WatchedFunctions

CHANGES_NAMED = 3
"""How many changes a reason names."""

ADVICE = {
    "the current stream": "; work on the current stream, or inside `with torch.cuda.stream(...)`, and let the current stream "
    "wait for it"
}
"""What a provider can do instead of changing a setting."""


@dataclass
class ProviderChanges:
    """What a provider, or the import of its plug-in, did outside of its outputs, in words.

    tampering  for which its time cannot be believed: `replaced time.perf_counter_ns (while timing)`
    altered    what it changed and kbench put back: `torch.set_num_threads from 1 to 8`
    own        the settings with which it has to run from now on, by name
    """

    tampering: list[str] = field(default_factory=list)
    altered: list[str] = field(default_factory=list)
    own: dict[str, Any] = field(default_factory=dict)


class Guard:
    """Remembers what no provider may replace, as it is now. Make it before any plug-in is imported."""

    def __init__(self) -> None:
        self._functions = WatchedFunctions()
        self._streams = StandardStreams()
        self._plugins: dict[str, ProviderChanges] = {}
        self._running: tuple[ProviderChanges, str] | None = None
        self._common: Mapping[str, Any] = {}
        self._before: Mapping[str, Any] = {}

    def watch(self, operator: Operator) -> None:
        """Watch an operator and its present providers as well."""
        self._functions.watch_operator(operator)

    def of_plugin(self, plugin: str | None) -> ProviderChanges:
        """The changes of a provider that has not run: those of the import of its plug-in."""
        changes = self._plugins.get(plugin or "", ProviderChanges())
        return ProviderChanges(list(changes.tampering), list(changes.altered), dict(changes.own))

    def begin_plugin(self, plugin: str) -> None:
        """Code of a plug-in runs from now on, outside of steps. Without a name, it is no plug-in's."""
        if plugin:
            self.begin(self._plugins.setdefault(plugin, ProviderChanges()), "when its plug-in was imported")

    def begin(self, changes: ProviderChanges, when: str, timed: bool = False) -> None:
        """Code of a provider runs, with its own settings. While it is `timed`, it may start no process."""
        self._before = self._common = settings.read()
        if changes.own:
            settings.write(changes.own)
            self._before = settings.read()
        self._running = changes, when
        the_audit().begin(timed=timed)

    def end(self) -> None:
        """Add to the changes that `begin` received what has changed since, and put it right."""
        if self._running is None:
            return
        (changes, when), self._running = self._running, None
        deeds = the_audit().end()
        if replaced := self._functions.put_back():
            deeds.insert(0, f"replaced {listed(replaced)}")
        altered = [f"{name}, which it closed or redirected" for name in self._streams.put_back()]
        now, own, advice = settings.read(), {}, ""
        for name, value in now.items():
            before, effect = self._before[name], EFFECTS[name]
            if value == before or UNREADABLE in (value, before) or effect is Effect.SILENT:
                continue
            if effect is Effect.TIMING:
                deeds.append(f"changed {name}")
                advice = ADVICE.get(name, advice)
            else:
                altered.append(f"{name} from {_shown(before)} to {_shown(value)}")
            if effect is Effect.OWN:
                own[name] = value
        if now != self._common:
            settings.write(self._common)
        tampering = [f"{listed(deeds)} ({when}){advice}"] if deeds else []
        changes.tampering += [sentence for sentence in tampering if sentence not in changes.tampering]
        changes.altered += [change for change in altered if change not in changes.altered]
        changes.own |= own


def listed(names: Sequence[str]) -> str:
    """The first of some changes, and how many more there are."""
    more = f", and {len(names) - CHANGES_NAMED} more" if len(names) > CHANGES_NAMED else ""
    return ", ".join(names[:CHANGES_NAMED]) + more


def _shown(value: Any) -> str:
    return "nothing" if value is None or value == "" else str(getattr(value, "__name__", value))

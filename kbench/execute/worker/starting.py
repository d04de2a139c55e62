"""Starts a worker, whatever the plug-ins do that it imports.

A plug-in of an installed package may hang or end the worker, and so may one of its providers when it is asked whether it
is available. Nobody need have asked for either. The worker says what it is at; what takes it down is left out of the
next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kbench.errors import WorkerLost
from kbench.execute.worker.worker_process import Worker

LOSS_LIMIT = 10
"""So many workers may be lost to plug-ins before the last one's loss is the answer."""


@dataclass
class Plugins:
    """The plug-in files that the user names, and what all workers of a run leave out: `plugin`, `operator` and `provider`
    (both empty for a whole plug-in) and the `reason`, see registry.load_plugins."""

    files: Sequence[str]
    without: list[Mapping[str, str]] = field(default_factory=list)

    def copy(self) -> Plugins:
        """For a worker on another device, which goes its own way from here."""
        return Plugins(self.files, list(self.without))


def start(
    plugins: Plugins, note: Callable[[str], None] = lambda line: None, variables: Mapping[str, str] | None = None
) -> Worker:
    """Raises WorkerLost, also for a file that the user names: nothing is to be measured without it."""
    for _ in range(LOSS_LIMIT):
        try:
            return Worker(plugins.files, note, variables, plugins.without)
        except WorkerLost as lost:
            if lost.loading is None:
                raise
            at = lost.loading
            if at.plugin in plugins.files and not at.provider:
                raise WorkerLost(lost.status, f"plug-in {at.plugin}: {lost.reason}") from None
            plugins.without.append(
                {"plugin": at.plugin, "operator": at.operator, "provider": at.provider, "reason": lost.reason}
            )
            last = lost
    raise last

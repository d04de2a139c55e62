"""Starts a worker, whatever its plug-ins do.

A plug-in of an installed package may hang or end the worker while it is imported, and so may one of its providers when
it is asked whether it is available. The user may not even know of the plug-in. The worker announces each such call, so
that the next worker can leave out what took this one down.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kbench.execute.worker.template import Template
from kbench.execute.worker.worker_failed import WorkerFailed
from kbench.execute.worker.worker_process import Worker
from kbench.protocol import CatalogRequest, Exclusion, Source

MAX_STARTS = 10
"""How many workers may be lost to plug-ins before `start` gives up."""


@dataclass
class PluginFiles:
    """The plug-in files that the user names, what the workers of a run leave out, and the script or folder that is measured."""

    files: Sequence[str]
    without: list[Exclusion] = field(default_factory=list)
    source: Source | None = None

    def copy(self) -> PluginFiles:
        """For a worker on another device, which may leave out other plug-ins from here on."""
        return PluginFiles(self.files, list(self.without), self.source)


def start(
    plugins: PluginFiles,
    note: Callable[[str], None] = lambda line: None,
    variables: Mapping[str, str] | None = None,
    template: Template | None = None,
) -> Worker:
    """Start a worker, with `variables` in its environment, from a template if there is one. Leaves out plug-ins that take it
    down, and adds them to `plugins.without`.

    Raises WorkerLost, also when a file that the user names takes the worker down: kbench measures nothing without it.
    """
    for _ in range(MAX_STARTS):
        try:
            request = CatalogRequest(tuple(plugins.files), tuple(plugins.without), plugins.source)
            return Worker(request, note, variables, template)
        except WorkerFailed as lost:
            if lost.call is None:
                raise
            call = lost.call
            if plugins.source and call.plugin == plugins.source.path and not call.provider:
                why = lost.reason.replace("while the plug-in was imported", "while the script or problem was loaded")
                raise WorkerFailed(lost.status, f"{call.plugin}: {why}") from None
            if call.plugin in plugins.files and not call.provider:
                raise WorkerFailed(lost.status, f"plug-in {call.plugin}: {lost.reason}") from None
            plugins.without.append(Exclusion(call.plugin, call.operator, call.provider, lost.reason))
            last = lost
    raise last

"""Why a worker was lost, as its supervisor has to know it."""

from __future__ import annotations

from kbench.errors import WorkerLost
from kbench.protocol.events import PluginCall, StepBegun
from kbench.results.vocabulary import Status


class WorkerFailed(WorkerLost):
    """The worker process died, hung or lost its device.

    status   what a row that it was measuring becomes
    reason   the reason of that row
    during   the step or the call of a plug-in that was running; None between them
    killed   the worker was ended from outside: by a person, or by a system short of memory
    exited   the worker ended by itself, which any thread of any provider can do
    """

    def __init__(
        self,
        status: Status,
        reason: str,
        during: StepBegun | PluginCall | None = None,
        *,
        killed: bool = False,
        exited: bool = False,
    ) -> None:
        super().__init__(reason)
        self.status, self.reason, self.during = status, reason, during
        self.killed, self.exited = killed, exited

    @property
    def index(self) -> int | None:
        """The index of the configuration that was in a step; None if no provider was running."""
        return self.during.index if isinstance(self.during, StepBegun) else None

    @property
    def step(self) -> str:
        """The name of the step that was running; empty if no provider was running."""
        return self.during.step if isinstance(self.during, StepBegun) else ""

    @property
    def call(self) -> PluginCall | None:
        """The call of a plug-in that was running."""
        return self.during if isinstance(self.during, PluginCall) else None

"""Who is to blame when a worker ends: the configuration that ran, or another one."""

from __future__ import annotations

from kbench.execute.worker.worker_failed import WorkerFailed
from kbench.protocol import StepBegun

BLAMED_LIMIT = 2
"""How many configurations may take the worker down in a case before those that have not run in it are tried alone."""

UNBLAMED_LIMIT = 2
"""How often a worker may die outside any provider's step before the rest of the case is given up."""


def may_be_anothers(lost: WorkerFailed, *, tried_alone: bool) -> bool:
    """Whether code of another provider than the running one may have ended the worker, such as a thread that it started.
    While a provider is built and checked, it is far more likely to be at fault itself, as long as nothing speaks against
    it."""
    if not isinstance(lost.during, StepBegun):
        return True
    return lost.exited and (tried_alone or lost.during.step == "time")

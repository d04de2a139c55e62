"""Which configurations took their worker down in the last cases: they are tried alone, and after two such cases no more."""

from __future__ import annotations

from typing import NamedTuple

from kbench.execute.worker.worker_failed import WorkerFailed
from kbench.protocol import Configuration
from kbench.results.vocabulary import Status

MAX_FAILURES = 2
"""After this many failures in a row a configuration is not tried again. One alone may depend on the size of the case."""


class Failure(NamedTuple):
    """How a configuration took its worker down, and on which case or edge input."""

    where: str
    status: Status
    reason: str


class FailureHistory:
    """The failures in a row of each configuration, by its name, in the order in which this process measures cases.

    A run that is continued begins a new history.
    """

    def __init__(self) -> None:
        self._failures: dict[str, list[Failure]] = {}

    def add(self, one: Configuration, where: str, lost: WorkerFailed) -> None:
        self._failures.setdefault(one.name, []).append(Failure(where, lost.status, lost.reason))

    def clear(self, one: Configuration) -> None:
        """The worker has survived a case with this configuration."""
        self._failures.pop(one.name, None)

    def failed_last(self, one: Configuration) -> bool:
        return one.name in self._failures

    def give_up(self, one: Configuration) -> tuple[Status, str] | None:
        """The status and the reason of a configuration that is not tried again; None if it is."""
        failures = self._failures.get(one.name, [])
        if len(failures) < MAX_FAILURES:
            return None
        last = failures[-1]
        where = ", ".join(f"{each.status.value} on {each.where}" for each in failures[-MAX_FAILURES:])
        return last.status, f"not tried again: {where} ({last.reason})"

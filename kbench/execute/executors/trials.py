"""Tries an operator before anything is measured, so that its faults are reported once, and not as faults of providers.

A fault may lie in one dtype, or in one value of a scalar, a choice or the mode. So each of them is tried.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import prod

from kbench.config.resolve import Sweep
from kbench.execute.plan import Task
from kbench.results.case import FORWARD, Value

MOST_TRIALS = 12
"""How many cases are tried at most. A trial takes about 20 ms on a host."""

TRIALS_S = 3.0
"""After this many seconds no other case is tried: the reference of some operators takes long on any case."""


def try_operator(try_task: Callable[[Task], None], tasks: Sequence[Task], sweep: Sweep) -> None:
    """Call `try_task`, which tries the operator on a case, for some cases of a sweep: see `find_trials`. Raises ConfigError."""
    start = time.monotonic()
    for task in find_trials(tasks, sweep):
        try_task(task)
        if time.monotonic() - start > TRIALS_S:
            return


def find_trials(tasks: Sequence[Task], sweep: Sweep) -> list[Task]:
    """The tasks to try an operator on: the smallest case of each combination of dtype, scalars, choices and mode. If there are
    more than MOST_TRIALS, only those with a value that no smaller case has. A trial in another mode is one in mode `forward`
    too."""
    kinds: dict[tuple[Value, ...], set[str]] = {}
    found = []
    for task in sorted(tasks, key=lambda task: _size(task, sweep)):
        modes = kinds.setdefault(_kind(task, sweep), set())
        if task.case.mode not in modes:
            modes |= {task.case.mode, FORWARD}
            found.append(task)
    if len(found) > MOST_TRIALS:
        seen: set[tuple[int, Value]] = set()
        found = [task for task in found if _adds_a_value(task, sweep, seen)]
    return found[:MOST_TRIALS]


def _size(task: Task, sweep: Sweep) -> tuple[bool, int]:
    """Cases with gradients come first, and then those with the smallest product of their axes."""
    case = task.case
    return case.mode == FORWARD, prod(case.axes[name] for name in sweep.info.axes)  # type: ignore[misc]


def _kind(task: Task, sweep: Sweep) -> tuple[Value, ...]:
    """The dtype, the scalars and the choices of a case, without the mode."""
    info, axes = sweep.info, task.case.axes
    return (task.case.dtype, *(axes[name] for name in (*info.scalars, *info.choices) if name != "mode"))


def _adds_a_value(task: Task, sweep: Sweep, seen: set[tuple[int, Value]]) -> bool:
    """Whether a case has a value that is not among those `seen`, which get its values."""
    values = {*enumerate((*_kind(task, sweep), task.case.mode))}
    new = not values <= seen
    seen |= values
    return new

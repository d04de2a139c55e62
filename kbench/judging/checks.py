"""Checks providers in cases: those that the user chooses and, for a judgement, random shapes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from kbench.config.plan import Plan, find_extremes
from kbench.errors import ConfigError
from kbench.execute import progress
from kbench.execute.prepare import try_operator
from kbench.execute.worker import WorkerFailed
from kbench.judging.random_shapes import draw_beyond_int32, draw_shapes
from kbench.judging.two_workers import TwoWorkers
from kbench.protocol import Task
from kbench.results.row import Row
from kbench.results.vocabulary import Status
from kbench.text import terminal
from kbench.text.words import plural

RANDOM_S = 5.0
"""After so many seconds in the reference of a problem, no further random shape is drawn. Such a reference often loops over rows
in Python."""

BEYOND_S = 15.0
"""How long the reference, or a provider, may take for the shape beyond 2^31 elements. Loops over rows in Python take hours."""


@dataclass
class Checks:
    """The rows of the checks, and how many of the `chosen` cases and of the `drawn` random shapes were `checked`. `refused` has
    the faults of the operator in random shapes. `slow` counts the random shapes left out because the reference is slow."""

    chosen: int
    drawn: int
    checked: int = 0
    rows: list[Row] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    slow: int = 0
    interrupted: bool = False

    @property
    def random_shapes(self) -> int:
        return self.drawn - len(self.refused) - self.slow

    @property
    def left_out_cases(self) -> int:
        """The number of cases that were not checked: because of a fault of the operator in a chosen one, because each provider
        has failed in earlier ones, or after Ctrl-C."""
        return self.chosen + self.random_shapes - self.checked

    def of(self, name: str) -> list[Row]:
        return [row for row in self.rows if row.configuration_name == name]


def check_cases(
    chosen: Sequence[Task],
    check: Callable[[Task, progress.PlainProgress], Iterable[Row]],
    drawn: Sequence[Task] = (),
    *,
    until_failed: bool = False,
    reference_s: Callable[[], float] = lambda: 0.0,
) -> Checks:
    """Check the configurations of tasks on edge inputs: in the cases that the user has chosen, and in random shapes, until
    `reference_s`, the seconds in the reference, says that these take too long. With `until_failed`, the rest is left out when
    each configuration has failed: their authors know enough to go on."""
    tasks = [*chosen, *drawn]
    checks = Checks(len(chosen), len(drawn))
    failed: set[str] = set()
    try:
        with progress.make_progress(tasks) as display:
            before_s = 0.0  # the seconds of the chosen cases
            for number, task in enumerate(tasks):
                if number == len(chosen):
                    before_s = reference_s()
                if number > len(chosen) and reference_s() - before_s > RANDOM_S:
                    checks.slow = len(tasks) - number
                    break
                display.begin(task)
                failures: dict[str, str] = {}
                outcome = "nothing checked"
                try:
                    for row in check(task, display):
                        checks.rows.append(row)
                        if not row.status.declined:
                            outcome = "checked"
                        if row.status.failed:
                            failures.setdefault(row.configuration_name, f"{row.configuration_name} {row.status.value}")
                except (ConfigError, WorkerFailed) as fault:  # of the operator
                    if task in drawn:
                        checks.refused.append(str(fault))
                    else:
                        terminal.note(
                            f"{task.case.label}: {fault}; mend the operator, or leave the case out with --set"
                        )
                    display.advance(task, "left out")
                    continue
                display.advance(task, "; ".join(filter(None, [outcome, ", ".join(failures.values())])))
                checks.checked += 1
                failed |= set(failures)
                if until_failed and len(failed) == len(task.configurations):
                    break
    except KeyboardInterrupt:
        checks.interrupted = True
    return checks


def check_in_cases(
    workers: TwoWorkers, plan: Plan, names: Collection[str], count: int, *, timed_beside: bool
) -> Checks:
    """Check providers in the smallest and the largest cases of the config, and in random shapes, until each has failed. With
    `timed_beside`, the worker that will time begins to start meanwhile."""
    judged = tuple(configuration for configuration in plan.configurations if configuration.name in names)
    like = replace(plan.tasks[0], configurations=judged)
    first = [replace(like, case=case) for case in find_extremes(plan)]
    try_operator(workers.judge.try_operator, plan)
    shapes, beyond = _random_tasks(plan, like, count)
    drawn = [*shapes, *beyond]
    terminal.note(f"checking {plural(len(first), 'case')} of the config and {plural(len(drawn), 'random shape')}")

    def check(task: Task, display: progress.PlainProgress) -> Iterator[Row]:
        if timed_beside and task is not first[0]:  # a provider was right in the first case
            workers.begin_timing()
        for row in workers.check(task, display, plan.info, without_edges=task in beyond):
            if task in beyond and row.status in (Status.OOM, Status.TIMEOUT):
                terminal.note(f"{task.case.label}: left out {row.configuration_name}: {row.reason}")
            else:
                yield row

    seconds = workers.slow_reference_s
    checks = check_cases(first, check, drawn, until_failed=True, reference_s=seconds)
    if refused := checks.refused:
        terminal.note(
            f"left out {plural(len(refused), 'random shape')}, which the operator does not accept: {refused[0]}"
        )
    if checks.slow:
        terminal.note(
            f"left out {plural(checks.slow, 'random shape')}: the reference has taken {RANDOM_S:g} s on others"
        )
    return checks


def _random_tasks(plan: Plan, like: Task, count: int) -> tuple[list[Task], list[Task]]:
    """Tasks with up to `count` random shapes and, if there are any and memory allows, one beyond 2^31 elements."""
    seed = plan.measure.seed
    accelerated = plan.catalog.device.type != "cpu"
    shapes = draw_shapes(plan.info, plan.cases, count, seed=seed, accelerated=accelerated)
    memory_bytes = plan.catalog.memory_bytes if accelerated and count else None
    beyond = draw_beyond_int32(plan.info, plan.cases, memory_bytes, seed=seed)
    hasty = like.settings.model_copy(update={"timeout_s": min(like.settings.timeout_s, BEYOND_S)})
    last = [replace(like, case=beyond, settings=hasty)] if beyond else []
    return [replace(like, case=case) for case in shapes], last

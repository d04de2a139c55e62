"""Judges every provider that one file registers for an operator.

First kbench checks each on the edge inputs of the operator, in the smallest and the largest cases of the config and in cases
with random shapes. It stops when all have failed. The file is imported in one worker, and its outputs are judged in another. It
then measures those that are right together with the baselines, exactly as `kbench run` does.
"""

from __future__ import annotations

import random
import secrets
import shlex
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from kbench import interrupts
from kbench.analysis import analyse
from kbench.config.load import Config, load_config
from kbench.config.plan import Plan, spread_cases
from kbench.errors import ExitStatus, SourceLocation, UsageError
from kbench.execute import progress
from kbench.execute.existing_results import ResumeMode
from kbench.execute.prepare import note_choices, start_worker
from kbench.execute.run import RunResult, execute
from kbench.execute.supervisor import WorkerSupervisor
from kbench.judging.answer import JudgeAnswer, JudgedProvider, check_provider, exit_status, judge_provider
from kbench.judging.champion import contend
from kbench.judging.checks import Checks, check_in_cases
from kbench.judging.claims import held_against_clock
from kbench.judging.speeds import against, gaps, profile_of
from kbench.judging.two_workers import TwoWorkers
from kbench.protocol import Catalog, ClockReading, ClockRequest
from kbench.results.case import Case
from kbench.results.row import Row
from kbench.text import terminal
from kbench.text.suggest import unknown
from kbench.text.words import list_words, plural

CASES = 12
"""How many cases of a config are timed, if the user chooses none with `--set` or `--profile`."""

SEEDS = 10**12
"""Seeds are drawn from the system's randomness below this number: nobody foresees the shapes and the inputs."""


@dataclass(frozen=True)
class JudgeOptions:
    """The options of `kbench judge`, which says what they are."""

    against: str
    providers: Sequence[str] = ()
    baselines: Sequence[str] = ()
    sets: Sequence[str] = ()
    profile: str | None = None
    shapes: int = 20
    seed: int | None = None
    min_speedup: float | None = None
    out: Path | None = None
    champion: Path | None = None
    ledger: Path | None = None


def judge(file: Path, options: JudgeOptions) -> JudgeAnswer:
    """Judge the providers of a file. Raises UsageError, ConfigError, WorkerLost, ExecutionError and KeyboardInterrupt."""
    config = _load(file, options, secrets.randbelow(SEEDS) if options.seed is None else options.seed)
    trusted = load_config(Path(options.against), sets=options.sets, profile=options.profile).plugins
    with (
        TwoWorkers(config.plugins, trusted, config.source) as workers,
        tempfile.TemporaryDirectory(prefix="kbench-") as scratch,
    ):
        with interrupts.once():
            catalog = workers.start()
            plan = config.resolve(catalog)
            note_choices(config, plan)
            entrants = _entrants(plan, file, options)
            terminal.note(f"{plan.operator} on {catalog.device.name}: {', '.join(entrants.judged)} of {file.name}")
            workers.settle(plan.operator)
            timed_beside = workers.apart and bool(entrants.baselines) and not options.ledger
            checks = check_in_cases(workers, plan, entrants.judged, options.shapes, timed_beside=timed_beside)
        reproduce = partial(command_again, options.against, [file], plan.measure.seed)
        check = partial(check_provider, reproduce=reproduce, left_out_cases=checks.left_out_cases)
        correct = [name for name in entrants.judged if check(name, checks.of(name)).correct]
        if not workers.apart:
            workers.stop()  # the device may take only one process
        beside = [plan.baseline] if entrants.champion and plan.baseline else []
        only = (",".join(dict.fromkeys([*beside, *entrants.baselines, *correct])),)
        chosen, timed, contest = replace(config, only=only), RunResult(Path()), None
        cases = plan.cases if config.chooses_cases else spread_cases(plan, CASES)
        if correct and entrants.champion and options.ledger:
            fresh = replace(_load(file, options, secrets.randbelow(SEEDS)), only=only)
            runs = [partial(_time, chosen, cases), partial(_time, fresh, cases)]
            timed, contest = contend(runs, correct[0], entrants.champion, options.ledger)
        elif correct and entrants.baselines:
            terminal.note(f"timing {plural(len(cases), 'case')} of the config")
            path = (options.out or Path(scratch)) / f"{plan.path.stem}.csv"
            timed = _time(chosen, cases, path, worker=workers.timing)
            for earlier in timed.moved:
                terminal.note(f"the earlier results were moved to {earlier}")
        if timed.rows and not timed.interrupted and workers.apart:
            timed.rows = _held(workers, chosen.resolve(catalog), timed.rows, correct)
        judged = partial(
            judge_provider,
            reproduce=reproduce,
            config_cases=set(plan.cases),
            contest=contest,
            min_speedup=0.0 if entrants.champion and options.min_speedup is None else options.min_speedup,
            left_out_cases=checks.left_out_cases,
        )
        return _answer(file, plan, entrants, checks, timed, judged)


def _answer(
    file: Path, plan: Plan, entrants: Entrants, checks: Checks, timed: RunResult, judged: Callable[..., JudgedProvider]
) -> JudgeAnswer:
    """What follows from the checks and the times. `judged` is the verdict on a provider, from its rows."""
    analysis = analyse(timed.rows, plan.baseline)
    providers = []
    for name in entrants.judged:
        speeds = [speed for other in entrants.baselines if (speed := against(analysis, plan.info, name, other))]
        named = entrants.baselines_named
        rows = [row for row in timed.rows if row.of_provider and row.configuration_name == name]
        verdict = judged(
            name,
            [*checks.of(name), *rows],
            baselines=speeds,
            not_compared=[gap for other in entrants.baselines for gap in gaps(analysis, name, other, named=named)],
            profile=profile_of(name, timed.rows, speeds, timed.csv),
        )
        providers.append(verdict)
    interrupted = checks.interrupted or timed.interrupted
    status = exit_status(providers, interrupted=interrupted)
    return JudgeAnswer(
        file=str(file),
        operator=plan.operator,
        device=plan.catalog.device.name,
        seed=plan.measure.seed,
        passed=status is ExitStatus.OK,
        random_shapes=checks.random_shapes,
        cases=len({row.case for row in timed.rows}),
        of_cases=len(plan.cases),
        interrupted=interrupted,
        noise=analysis.noise.sentence(f"the baseline {plan.baseline}") if analysis.cases else "",
        providers=providers,
        exit_status=status,
    )


def _load(file: Path, options: JudgeOptions, seed: int) -> Config:
    """The config with this seed, unless `--set seed=` gives another, and with the files of the candidate and the champion."""
    files = [file, *filter(None, [options.champion])]
    # a ledger adds sessions
    sets = [f"seed={seed}", *options.sets, *(["sessions=1"] if options.champion else [])]
    plugins = [str(path) for path in files]
    config = load_config(Path(options.against), sets=sets, profile=options.profile, plugins=plugins)
    # the user wrote no --plugin
    places = {str(path.resolve()): SourceLocation(str(path)) for path in files}
    return replace(config, places={**config.places, **places})


@dataclass(frozen=True)
class Entrants:
    """The names of the configurations that are judged, of the champion, and of the baselines that count, the champion among
    them. `baselines_named`: the user has named these."""

    judged: Sequence[str]
    champion: str | None
    baselines: Sequence[str]
    baselines_named: bool


def _entrants(plan: Plan, file: Path, options: JudgeOptions) -> Entrants:
    """Raises UsageError unless there are one champion and one candidate, if the options name a champion."""
    judged = _judged_names(plan, file, options.providers)
    champions = _judged_names(plan, options.champion, ()) if options.champion else []
    if len(champions) > 1:
        raise UsageError(
            f"--champion {options.champion}: registers {list_words(champions)}; a champion is one provider"
        )
    if champions and len(judged) > 1:
        raise UsageError(f"--champion needs one candidate, not {list_words(judged)}; name one with --provider")
    requested = [*champions, *options.baselines]
    return Entrants(judged, next(iter(champions), None), _baselines(plan, file, requested), bool(requested))


def command_again(config: str, plugins: Sequence[str | Path], seed: int, row: Row) -> str:
    """The shell command that checks the provider of a row again on the same inputs, or times it again in the case."""
    words = [word for plugin in plugins for word in ("--plugin", str(plugin))]
    words += ["--only", row.configuration_name, *row.case.set_options(), "--set", f"seed={seed}"]
    return shlex.join(["kbench", "check" if row.edge else "run", config, *words])


def _baselines(plan: Plan, file: Path, requested: Sequence[str]) -> list[str]:
    """The configurations to compare with, by name. Raises UsageError for one that is unknown, or that the file registers."""
    registered = _registered(plan.operator, file, plan.catalog)
    providers = {entry.name: entry.provider for entry in plan.configurations if entry.provider not in registered}
    if not requested:
        return list(providers)
    choices = [*providers.values(), *providers, *plan.info.providers]
    choices = [choice for choice in dict.fromkeys(choices) if choice not in registered]
    baselines = []
    for name in requested:
        if name in registered:
            raise UsageError(
                f"--baseline {name}: {file} registers this provider, so it is judged; choose from {list_words(choices)}"
            )
        if name not in choices:
            raise UsageError(f"--baseline {name}: {unknown('provider', name, choices)}")
        matches = [entry for entry, provider in providers.items() if name in (entry, provider)]
        baselines += matches or [name]
    return baselines


def _registered(operator: str, file: Path, catalog: Catalog) -> list[str]:
    plugin = str(file.resolve())
    return [name for name, info in catalog.providers(operator).items() if info.plugin == plugin]


def _judged_names(plan: Plan, file: Path, requested: Sequence[str]) -> list[str]:
    """The names of the configurations to judge. Raises UsageError if there is none."""
    registered = _registered(plan.operator, file, plan.catalog)
    if not registered:
        inputs = ", ".join(plan.info.inputs)
        scalars = "".join(f", {name}" for name in plan.info.scalars)
        signature = f"mine({inputs}{', *' + scalars if scalars else ''})"
        other_operators = [name for name in plan.catalog.operators if _registered(name, file, plan.catalog)]
        has = f", only of {', '.join(other_operators)}" if other_operators else ""
        raise UsageError(
            f"{file} registers no provider of operator {plan.operator}{has}; register one: write "
            f'@kbench.operator("{plan.operator}").provider("mine") above def {signature}'
        )
    if unknown := [name for name in requested if name not in registered]:
        raise UsageError(f"{file} registers no provider {unknown[0]!r}; it registers {', '.join(registered)}")
    return [
        configuration.name
        for configuration in plan.configurations
        if configuration.provider in (requested or registered)
    ]


def _held(workers: TwoWorkers, plan: Plan, rows: Sequence[Row], names: Sequence[str]) -> list[Row]:
    """The rows of a plan. Those of these candidates are `suspect` if another clock contradicts their times."""
    configurations = {configuration.name: configuration for configuration in plan.configurations}

    def read(row: Row, claimed_ms: float, here: bool) -> ClockReading:
        task = replace(plan.tasks[0], case=row.case, configurations=(configurations[row.configuration_name],))
        reading = workers.judge.read_clock(ClockRequest(task, claimed_ms, here), display)
        if row.ms and reading.least_ms is None and (here or not reading.wrong):
            terminal.note(f"{row.case.label}: no other clock could take the time of {row.configuration_name}")
        return reading

    terminal.note("checking the times with the clock of another process")
    with progress.make_progress(()) as display:
        accelerated = plan.catalog.device.type != "cpu"
        return held_against_clock(rows, names, read, accelerated=accelerated, timer=plan.measure.timer)


def _time(
    config: Config,
    cases: tuple[Case, ...],
    path: Path,
    continuing: ResumeMode | None = None,
    worker: WorkerSupervisor | None = None,
) -> RunResult:
    """Measure these cases of a config as `kbench run` does, in a worker that has begun to start if there is one. The order of
    the configurations is drawn anew each time: what comes first may get better memory."""
    with worker or start_worker(config) as executor:
        plan = config.resolve(executor.start())
        configurations = random.SystemRandom().sample(plan.configurations, len(plan.configurations))
        shuffled = replace(plan, configurations=tuple(configurations), cases=cases)
        return execute(executor, shuffled, path, continuing=continuing)

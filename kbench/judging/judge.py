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
from kbench.config.load import Config
from kbench.config.resolve import Sweep
from kbench.errors import ConfigError, ExitStatus, SourceLocation, UsageError
from kbench.execute import progress
from kbench.execute.plan import Plan, find_extremes, make_plan, requirements, spread_cases
from kbench.execute.prepare import prepare, try_operator
from kbench.execute.run import RunOptions, execute
from kbench.execute.worker import WorkerFailed
from kbench.judging.answer import JudgeAnswer, exit_status, judge_provider
from kbench.judging.claims import held_against_clock
from kbench.judging.ledger import Timing, contend
from kbench.judging.profile import profile_of
from kbench.judging.random_shapes import draw_beyond_int32, draw_shapes
from kbench.judging.speeds import against, gaps
from kbench.judging.two_workers import TwoWorkers
from kbench.protocol import Catalog, ClockReading
from kbench.results.row import Row
from kbench.results.vocabulary import Role, Status
from kbench.sources.source_config import SourceConfig, load_source_or_config
from kbench.text.printable import printable
from kbench.text.suggest import unknown
from kbench.text.words import list_words, plural

Note = Callable[[str], None]

CASES = 12
"""How many cases of a config are timed, if the user chooses none with `--set` or `--profile`."""

FAULT_SHOWN = 200
"""The most characters of the fault of a random shape that a note has."""

BEYOND_S = 15.0
"""How long the reference may take for the shape beyond 2^31 elements. One that loops over rows in Python takes hours."""

SEEDS = 10**12
"""Seeds are drawn from the system's randomness below this number: nobody foresees the shapes and the inputs."""


@dataclass(frozen=True)
class JudgeOptions:
    """What the caller of a judgement chooses.

    against      a built-in config, a config file, or a problem of another benchmark
    providers    the providers to judge; none: all that the file registers
    baselines    the providers to compare with; none: those of the config
    shapes       the number of random shapes
    seed         of the shapes and the inputs; None: a new one
    min_speedup  how many times as fast as each baseline a provider has to be to pass
    out          the folder for the results of the timing; None: they are not kept
    champion     the file of the provider that the judged one has to beat, with the folder of the ledger
    """

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


def judge(file: Path, options: JudgeOptions, note: Note) -> JudgeAnswer:
    """Judge the providers of a file. Raises UsageError, ConfigError, WorkerLost, ExecutionError and KeyboardInterrupt."""
    config = _load(file, options, secrets.randbelow(SEEDS) if options.seed is None else options.seed)
    trusted = load_source_or_config(Path(options.against), sets=options.sets, profile=options.profile).plugins
    with TwoWorkers(config.plugins, trusted, config.source, note) as workers:
        return _judge(workers, config, file, options, note)


def _judge(
    workers: TwoWorkers, config: Config | SourceConfig, file: Path, options: JudgeOptions, note: Note
) -> JudgeAnswer:
    with interrupts.once():
        catalog = workers.start()
        plan = make_plan(config.resolve(catalog), catalog)
        sweep = plan.sweep
        names = _judged_names(sweep, file, catalog, options.providers)
        champion = _champion(sweep, catalog, names, options)
        requested = list(filter(None, [champion, *options.baselines]))
        baselines = _baselines(sweep, file, catalog, requested)
        note(f"{sweep.operator} on {plan.catalog.device.name}: {', '.join(names)} of {file.name}")
        checks = _check(workers, catalog, plan, names, options.shapes, note)
    judged = partial(
        judge_provider,
        reproduce=partial(command_again, options.against, [file], sweep.measure.seed),
        config_cases=set(sweep.cases),
        left_out_cases=checks.left_out_cases,
        min_speedup=0.0 if champion and options.min_speedup is None else options.min_speedup,
    )
    correct = [name for name in names if judged(name, checks.rows[name]).correct]
    if workers.why_in_one_process(sweep.operator):
        workers.stop()  # the device may take only one process
    timing = Timing()
    with tempfile.TemporaryDirectory(prefix="kbench-") as scratch:
        beside = [sweep.baseline, *baselines] if champion and sweep.baseline else baselines
        timed = TimedConfig(config, list(dict.fromkeys([*beside, *correct])), one_session=champion is not None)
        if correct and champion and options.ledger:
            fresh = replace(timed, config=_load(file, options, secrets.randbelow(SEEDS)))
            timing = contend([timed, fresh], correct[0], champion, options.ledger, note)
        elif correct and baselines:
            timing = _time(timed, options.out or Path(scratch), note)
        if timing.rows and not timing.interrupted and not workers.why_in_one_process(sweep.operator):
            timing = replace(timing, rows=_held(workers, plan, timed.resolve(catalog), timing.rows, correct, note))
        analysis = analyse(timing.rows, sweep.baseline)
        providers = []
        for name in names:
            speeds = [speed for baseline in baselines if (speed := against(analysis, sweep.info, name, baseline))]
            lacking = [gaps(analysis, name, baseline, named=bool(requested)) for baseline in baselines]
            verdict = judged(
                name,
                [*checks.rows[name], *rows_of(timing.rows, name)],
                baselines=speeds,
                not_compared=[gap for of_baseline in lacking for gap in of_baseline],
                profile=profile_of(name, timing.rows, speeds, timing.csv),
                contest=timing.contest,
            )
            providers.append(verdict)
    interrupted = checks.interrupted or timing.interrupted
    status = exit_status(providers, interrupted=interrupted)
    return JudgeAnswer(
        file=str(file),
        operator=sweep.operator,
        device=plan.catalog.device.name,
        seed=sweep.measure.seed,
        passed=status is ExitStatus.OK,
        random_shapes=checks.random_shapes,
        cases=len({row.case for row in timing.rows}),
        of_cases=len(sweep.cases),
        interrupted=interrupted,
        noise=analysis.noise.sentence(f"the baseline {sweep.baseline}") if analysis.cases else "",
        providers=providers,
        exit_status=status,
    )


def _load(file: Path, options: JudgeOptions, seed: int) -> Config | SourceConfig:
    """The config with this seed, unless `--set seed=` gives another one, and with the files of the candidate and the
    champion."""
    files = [file, *filter(None, [options.champion])]
    sets = [f"seed={seed}", *options.sets]
    plugins = [str(path) for path in files]
    config = load_source_or_config(Path(options.against), sets=sets, profile=options.profile, plugins=plugins)
    if isinstance(config, SourceConfig):
        return config
    places = {str(path.resolve()): SourceLocation(str(path)) for path in files}  # the user wrote no --plugin
    return replace(config, places={**config.places, **places})


def _champion(sweep: Sweep, catalog: Catalog, names: Sequence[str], options: JudgeOptions) -> str | None:
    """The name of the champion. Raises UsageError unless there are one champion and one candidate."""
    if options.champion is None:
        return None
    champions = _judged_names(sweep, options.champion, catalog, ())
    if len(champions) > 1:
        raise UsageError(
            f"--champion {options.champion}: registers {list_words(champions)}; a champion is one provider"
        )
    if len(names) > 1:
        raise UsageError(f"--champion needs one candidate, not {list_words(names)}; name one with --provider")
    return champions[0]


def command_again(config: str, plugins: Sequence[str | Path], seed: int, row: Row) -> str:
    """The shell command that checks the provider of a row again on the same inputs, or times it again in the case."""
    case = {"dtype": row.case.dtype, **row.case.axes, "seed": seed}
    words = [word for plugin in plugins for word in ("--plugin", str(plugin))]
    words += ["--only", row.configuration_name]
    words += [word for name, value in case.items() for word in ("--set", f"{name}={value}")]
    return shlex.join(["kbench", "check" if row.edge else "run", config, *words])


def _baselines(sweep: Sweep, file: Path, catalog: Catalog, requested: Sequence[str]) -> list[str]:
    """The configurations to compare with, by name. Raises UsageError for one that is unknown, or that the file registers."""
    registered = _registered(sweep.operator, file, catalog)
    providers = {entry.name: entry.provider for entry in sweep.configurations if entry.provider not in registered}
    if not requested:
        return list(providers)
    choices = [*providers.values(), *providers, *catalog.providers(sweep.operator)]
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


def _judged_names(sweep: Sweep, file: Path, catalog: Catalog, requested: Sequence[str]) -> list[str]:
    """The names of the configurations to judge. Raises UsageError if there is none."""
    registered = _registered(sweep.operator, file, catalog)
    if not registered:
        inputs = ", ".join(sweep.info.inputs)
        scalars = "".join(f", {name}" for name in sweep.info.scalars)
        signature = f"mine({inputs}{', *' + scalars if scalars else ''})"
        other_operators = [name for name in catalog.operators if _registered(name, file, catalog)]
        has = f", only of {', '.join(other_operators)}" if other_operators else ""
        raise UsageError(
            f"{file} registers no provider of operator {sweep.operator}{has}; register one: write "
            f'@kbench.operator("{sweep.operator}").provider("mine") above def {signature}'
        )
    if unknown := [name for name in requested if name not in registered]:
        raise UsageError(f"{file} registers no provider {unknown[0]!r}; it registers {', '.join(registered)}")
    return [
        configuration.name
        for configuration in sweep.configurations
        if configuration.provider in (requested or registered)
    ]


@dataclass
class Checks:
    """What the checks have shown: the rows of each provider. Cases are left out when each provider has failed, or after
    Ctrl-C."""

    rows: dict[str, list[Row]]
    random_shapes: int
    left_out_cases: int
    interrupted: bool = False


def _check(workers: TwoWorkers, catalog: Catalog, plan: Plan, names: Sequence[str], count: int, note: Note) -> Checks:
    """Check each provider on edge inputs. When each has failed in a case, the others are left out: their authors know enough
    to go on."""
    sweep = plan.sweep
    judged = tuple(configuration for configuration in sweep.configurations if configuration.name in names)
    required = requirements(catalog, sweep.operator, {configuration.provider for configuration in judged})
    like = replace(plan.tasks[0], configurations=judged, requirements=required)
    first = [replace(like, case=case) for case in find_extremes(sweep)]
    accelerated = plan.catalog.device.type != "cpu"
    try_operator(workers.try_operator, first, sweep)
    drawn = draw_shapes(sweep.info, sweep.cases, count, seed=sweep.measure.seed, accelerated=accelerated)
    shapes = [replace(like, case=case) for case in drawn]
    memory_bytes = catalog.memory_bytes if accelerated and count else None
    beyond = draw_beyond_int32(sweep.info, sweep.cases, memory_bytes, seed=sweep.measure.seed)
    hasty = like.settings.model_copy(update={"timeout_s": min(like.settings.timeout_s, BEYOND_S)})
    last = [replace(like, case=beyond, settings=hasty)] if beyond else []
    tasks = [*first, *shapes, *last]
    checks = Checks({name: [] for name in names}, len(shapes) + len(last), len(tasks))
    if reason := workers.why_in_one_process(sweep.operator):
        note(f"one process runs the file and judges it, and no other clock holds its times: {reason}")
    note(f"checking {plural(len(first), 'case')} of the config and {plural(checks.random_shapes, 'random shape')}")
    refused: list[str] = []
    try:
        with progress.make_progress(tasks) as display:
            for task in tasks:
                display.begin(task)
                done = "checked"
                try:
                    for row in workers.check(task, display, sweep.info, without_edges=task in last):
                        if task in last and row.status is Status.OOM:
                            done = f"left out: {row.configuration_name}: {row.reason}"
                            continue
                        checks.rows[row.configuration_name].append(row)
                except (ConfigError, WorkerFailed) as fault:  # of the operator
                    done = "left out"
                    if task in first:
                        display.note(f"{task.case.label}: {fault}; mend the operator, or leave the case out")
                        display.advance(task, done)
                        continue
                    refused.append(str(fault))
                display.advance(task, done)
                checks.left_out_cases -= 1
                if all(any(row.status.failed for row in rows) for rows in checks.rows.values()):
                    break
    except KeyboardInterrupt:
        checks.interrupted = True
    if refused:
        checks.random_shapes -= len(refused)
        reason = printable(refused[0], FAULT_SHOWN)
        note(f"left out {plural(len(refused), 'random shape')}, which the operator does not accept: {reason}")
    return checks


def _held(
    workers: TwoWorkers, plan: Plan, timed: Sweep, rows: Sequence[Row], names: Sequence[str], note: Note
) -> list[Row]:
    """The rows, of which those of these candidates are `suspect` whose times another clock contradicts."""
    configurations = {configuration.name: configuration for configuration in timed.configurations}

    def read(row: Row, claimed_ms: float, here: bool) -> ClockReading:
        task = replace(plan.tasks[0], case=row.case, configurations=(configurations[row.configuration_name],))
        return workers.read_clock(replace(task, requirements={}), claimed_ms, display, here=here)

    note("holding the times against the clock of another process")
    with progress.make_progress(()) as display:
        return held_against_clock(rows, names, read, accelerated=plan.catalog.device.type != "cpu")


@dataclass(frozen=True)
class TimedConfig:
    """The configurations of a config that a judgement times, in its cases: all that the user chose, or some of them. Their
    order is drawn anew each time: what comes first may get better memory."""

    config: Config | SourceConfig
    names: Sequence[str]
    one_session: bool = False

    @property
    def plugins(self) -> tuple[str, ...]:
        return self.config.plugins

    @property
    def source(self) -> str:
        return self.config.source

    def resolve(self, catalog: Catalog) -> Sweep:
        sweep = replace(self.config, only=(",".join(self.names),)).resolve(catalog)
        configurations = random.SystemRandom().sample(sweep.configurations, len(sweep.configurations))
        sweep = replace(sweep, configurations=tuple(configurations))
        if self.one_session:
            sweep = replace(sweep, measure=sweep.measure.model_copy(update={"sessions": 1}))
        return sweep if self.config.chooses_cases else replace(sweep, cases=spread_cases(sweep, CASES))


def _time(config: TimedConfig, out: Path, note: Note) -> Timing:
    """Measure as `kbench run` does."""
    options = RunOptions(out)
    with prepare(config, options, note, tried=True) as prepared:
        note(f"timing {plural(len(prepared.plan.sweep.cases), 'case')} of the config")
        result = execute(prepared, options, note)
    return Timing(result.rows, result.csv, interrupted=result.interrupted)


def rows_of(rows: Sequence[Row], name: str) -> list[Row]:
    """The rows of a configuration, without those of a control of the same name."""
    return [row for row in rows if row.role == Role.PROVIDER and row.configuration_name == name]

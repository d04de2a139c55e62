"""Judges every provider that one file registers for an operator.

First kbench checks each on the edge inputs of the operator, in the smallest and the largest cases of the shape set and in cases
with random shapes. It then measures those that are right together with the baselines, exactly as `kbench run` does.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from kbench import interrupts
from kbench.analysis import Analysis, CaseKey, analyse
from kbench.config.load import Config, load_config
from kbench.config.resolve import Sweep
from kbench.errors import ConfigError, SourceLocation, UsageError
from kbench.execute import progress
from kbench.execute.plan import Plan, find_extremes, make_plan, traits
from kbench.execute.prepare import prepare, try_operator
from kbench.execute.run import RunOptions, execute
from kbench.execute.supervisor import WorkerSupervisor
from kbench.execute.writer import ROWS_STAY
from kbench.judging.judgement import CaseSpeed, CheckedInput, ProviderJudgement, many, mean_speed
from kbench.judging.random_shapes import draw_shapes
from kbench.judging.uncompared import absent, uncompared
from kbench.protocol import Catalog, CatalogRequest, Configuration, Task
from kbench.results.vocabulary import Role
from kbench.text.suggest import list_words, unknown

Note = Callable[[str], None]

ROWS_LOST = "kbench judge keeps no rows without --out; give --out a folder with more space"
"""What becomes of the rows if they cannot be written to the temporary folder any more."""


@dataclass(frozen=True)
class JudgeOptions:
    """What the caller of a judgement chooses.

    against    an operator whose built-in config is the shape set, or a config file
    providers  the providers to judge; none: all that the file registers
    baselines  the providers to compare with; none: those of the config
    shapes     the number of random shapes
    out        the folder for the results of the timing; None: they are not kept
    """

    against: str
    providers: Sequence[str] = ()
    baselines: Sequence[str] = ()
    sets: Sequence[str] = ()
    profile: str | None = None
    shapes: int = 20
    out: Path | None = None


@dataclass(frozen=True)
class FileJudgement:
    """The judgements of all providers of a file.

    baselines  the names of the configurations that they were compared with
    shapes     the number of random shapes that the providers were called with
    timed      the number of cases of the shape set that were measured
    noise      a sentence on how far two timings of the same code differed; empty if none was timed
    """

    file: Path
    operator: str
    device: str
    judgements: Sequence[ProviderJudgement]
    baselines: Sequence[str]
    shapes: int
    timed: int
    interrupted: bool = False
    noise: str = ""


def judge(file: Path, options: JudgeOptions, note: Note) -> FileJudgement:
    """Judge the providers of a file. Raises UsageError, ConfigError, WorkerLost and ExecutionError."""
    config = load_config(
        options.against, sets=options.sets, only=options.baselines, profile=options.profile, plugins=[str(file)]
    )
    places = {**config.places, str(file.resolve()): SourceLocation(str(file))}  # the user wrote no --plugin
    config = replace(config, places=places)
    with interrupts.once(), WorkerSupervisor(CatalogRequest(config.plugins), note) as supervisor:
        catalog = supervisor.start()
        _refuse_baselines(config, file, catalog, options.baselines)
        plan = make_plan(_with_own(config, file, catalog, options), catalog)
        own = _own(plan.sweep, file, catalog, options.providers)
        note(f"{plan.sweep.operator} on {plan.device}: {', '.join(own)} of {file.name}")
        checks, shapes = _check(supervisor, catalog, plan, own, options.shapes, note)
    judgements = {name: ProviderJudgement(name, checks[name]) for name in own}
    right = [name for name, found in judgements.items() if found.right]
    registered = _registered(plan.sweep, file, catalog)
    others = [one.name for one in plan.sweep.configurations if one.provider not in registered]
    missing = {name: plan.unavailable[name] for name in others if options.baselines and name in plan.unavailable}
    judged = FileJudgement(file, plan.sweep.operator, plan.device, [], others, shapes, 0)
    if right and (baselines := [name for name in others if name not in plan.unavailable]):
        timed, interrupted = _time(config, [*right, *baselines], options, note)
        named = bool(options.baselines)
        judgements |= {name: _timed(judgements[name], timed, baselines, named=named) for name in right}
        judged = replace(
            judged,
            baselines=baselines,
            timed=len({row.case for row in timed.rows}),
            interrupted=interrupted,
            noise=timed.noise.sentence() if timed.cases else "",
        )
    for name in right:
        found = judgements[name]
        judgements[name] = replace(found, uncompared=[*found.uncompared, *absent(missing, found.timed)])
    return replace(judged, judgements=list(judgements.values()))


def _refuse_baselines(config: Config, file: Path, catalog: Catalog, wanted: Sequence[str]) -> None:
    """Raise UsageError for a baseline that is unknown, or that the file registers itself."""
    if not wanted:
        return
    sweep = replace(config, only=()).resolve(catalog)
    registered = _registered(sweep, file, catalog)
    listed = [one for one in sweep.configurations if one.provider not in registered]
    known = [word for one in listed for word in (one.provider, one.name)] + list(catalog.providers(sweep.operator))
    known = [name for name in dict.fromkeys(known) if name not in registered]
    for name in wanted:
        if name in registered:
            raise UsageError(
                f"--baseline {name}: {file} registers this provider, so it is judged; choose from {list_words(known)}"
            )
        if name not in known:
            raise UsageError(f"--baseline {name}: {unknown('provider', name, known)}")


def _with_own(config: Config, file: Path, catalog: Catalog, options: JudgeOptions) -> Sweep:
    """The sweep of the config with the providers of the file, also if `--baseline` left them out."""
    sweep = config.resolve(catalog)
    known = {one.provider for one in sweep.configurations}
    added = [Configuration(name, {}) for name in _registered(sweep, file, catalog) if name not in known]
    return replace(sweep, configurations=(*sweep.configurations, *added))


def _registered(sweep: Sweep, file: Path, catalog: Catalog) -> list[str]:
    return _registered_for(sweep.operator, file, catalog)


def _registered_for(operator: str, file: Path, catalog: Catalog) -> list[str]:
    plugin = str(file.resolve())
    return [name for name, info in catalog.providers(operator).items() if info.plugin == plugin]


def _own(sweep: Sweep, file: Path, catalog: Catalog, wanted: Sequence[str]) -> list[str]:
    """The names of the configurations to judge. Raises UsageError if there is none."""
    registered = _registered(sweep, file, catalog)
    if not registered:
        inputs = ", ".join(sweep.info.inputs)
        scalars = "".join(f", {name}" for name in sweep.info.scalars)
        signature = f"mine({inputs}{', *' + scalars if scalars else ''})"
        others = [name for name in catalog.operators if _registered_for(name, file, catalog)]
        has = f", only of {', '.join(others)}" if others else ""
        raise UsageError(
            f"{file} registers no provider of operator {sweep.operator}{has}; register one: write "
            f'@kbench.operator("{sweep.operator}").provider("mine") above def {signature}'
        )
    if unknown := [name for name in wanted if name not in registered]:
        raise UsageError(f"{file} registers no provider {unknown[0]!r}; it registers {', '.join(registered)}")
    return [one.name for one in sweep.configurations if one.provider in (wanted or registered)]


def _check(
    supervisor: WorkerSupervisor, catalog: Catalog, plan: Plan, own: Sequence[str], count: int, note: Note
) -> tuple[dict[str, list[CheckedInput]], int]:
    """The results of each provider on edge inputs, and the number of random shapes."""
    sweep = plan.sweep
    mine = tuple(one for one in sweep.configurations if one.name in own)
    needs = traits(catalog, sweep.operator, {one.provider for one in mine})
    like = replace(plan.tasks[0], configurations=mine, needs=needs)
    extremes = find_extremes(sweep)
    first = [replace(like, case=case) for case in extremes]
    try_operator(supervisor.try_operator, first, sweep)
    drawn = draw_shapes(sweep.info, sweep.cases, count, seed=sweep.measure.seed, accelerated=plan.device_type != "cpu")
    tasks = first + _allowed(supervisor, [replace(like, case=case) for case in drawn], note)
    found: dict[str, list[CheckedInput]] = {name: [] for name in own}
    counts = f"{many(len(first), 'case')} of the config and {many(len(tasks) - len(first), 'random shape')}"
    note(f"checking {counts}")
    with progress.make_progress(tasks) as display:
        for number, task in enumerate(tasks):
            display.begin(task)
            for row in supervisor.check(task, display):
                of_a_random_shape = number >= len(first)
                checked = CheckedInput(
                    task.case.label, row.edge, of_a_random_shape, row.status, row.reason, row.deterministic
                )
                found[row.configuration_name].append(checked)
            display.advance(task)
    return found, len(tasks) - len(first)


def _allowed(supervisor: WorkerSupervisor, tasks: Sequence[Task], note: Note) -> list[Task]:
    """The tasks whose shapes the operator's own functions accept. A note names each of the others."""
    kept = []
    for task in tasks:
        try:
            supervisor.try_operator(task, whole=True)
        except ConfigError as fault:  # the reference has no value there: no fault of a provider
            note(f"left out {task.case.label}: {fault}")
            continue
        kept.append(task)
    return kept


def _time(config: Config, names: Sequence[str], options: JudgeOptions, note: Note) -> tuple[Analysis, bool]:
    """Measure some configurations on the shape set. Returns the rows' analysis, and whether Ctrl-C ended the run."""
    with ExitStack() as stack:
        out = options.out or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kbench-")))
        run_options = RunOptions(out, unwritten=ROWS_STAY if options.out else ROWS_LOST)
        prepared = stack.enter_context(prepare(replace(config, only=(",".join(names),)), run_options, note))
        note(f"timing {many(len(prepared.plan.sweep.cases), 'case')} of the config")
        outcome = execute(prepared, run_options, note)
    return analyse(outcome.rows, prepared.plan.sweep.baseline), outcome.interrupted


def _timed(
    judgement: ProviderJudgement, found: Analysis, baselines: Sequence[str], *, named: bool
) -> ProviderJudgement:
    rows = [row for row in found.rows if row.role == Role.PROVIDER and row.configuration_name == judgement.provider]
    speeds = {name: _speeds(found, judgement.provider, name) for name in baselines}
    against = [mean_speed(name, cases) for name, cases in speeds.items() if cases]
    gaps = [gap for name in baselines for gap in uncompared(found, judgement.provider, name, named=named)]
    return replace(judgement, rows=rows, against=sorted(against, key=lambda each: each.geomean), uncompared=gaps)


def _speeds(found: Analysis, provider: str, baseline: str) -> list[CaseSpeed]:
    both = [key for key, timed in found.cases.items() if provider in timed and baseline in timed]
    return [_speed(found, key, provider, baseline) for key in both]


def _speed(found: Analysis, key: CaseKey, provider: str, baseline: str) -> CaseSpeed:
    """The interval covers the scatter of the rounds, and what two measurements of the same code differ by in this case."""
    pair = found.compare_pair(key, baseline, provider)
    speedup = 1 / pair.ratio
    half = math.exp(max(pair.half_width, found.noise.pairs.get(key, found.noise.proof)))
    label = found.cases[key][provider][0].case.label
    return CaseSpeed(label, speedup, (speedup / half, speedup * half), pair.outcome)

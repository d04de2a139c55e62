"""The command line: parse, call, render. Imports nothing heavy before a command needs it."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from kbench.version import __version__

if TYPE_CHECKING:
    from kbench.execute.history import Continuing

app = typer.Typer(
    name="kbench",
    help="Which implementation of this operator is fastest here, by how much, and can I believe it?",
    epilog="Start with: kbench run configs/softmax.yaml",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

BAD_INPUT, NOTHING, BUG, INTERRUPTED, UNREAD = 2, 3, 70, 130, 141

ConfigFile = Annotated[Path, typer.Argument(metavar="CONFIG", help="A YAML sweep, such as configs/softmax.yaml.")]
Sets = Annotated[
    Optional[list[str]], typer.Option("--set", metavar="KEY=VALUE", help="Override the file: N=1024,4096, rounds=2.")
]
Only = Annotated[Optional[list[str]], typer.Option("--only", metavar="PROVIDERS", help="Only these: triton,cuda.")]
Profile = Annotated[
    Optional[str], typer.Option("--profile", metavar="NAME", help="Apply a profile of the file; none: not even cpu.")
]
Plugins = Annotated[
    Optional[list[str]], typer.Option("--plugin", metavar="FILE", help="A Python file with operators or providers.")
]
Where = Annotated[
    str, typer.Option("--where", metavar="TERMS", help="Only these rows: 'dtype=bf16,N>=4096,provider=triton*'.")
]
OutDir = Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Where results go.")]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"kbench {__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    show_traceback: Annotated[bool, typer.Option("--traceback", help="Show Python's traceback with an error.")] = False,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    """Options of every command."""


@app.command()
def run(
    config: ConfigFile,
    sets: Sets = None,
    only: Only = None,
    profile: Profile = None,
    plugin: Plugins = None,
    out: OutDir = Path("results"),
    sessions: Annotated[
        Optional[int], typer.Option("--sessions", metavar="N", help="Fresh processes to repeat it all in.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted run's file.")] = False,
    append: Annotated[bool, typer.Option("--append", help="Add sessions to a finished run's file.")] = False,
    devices: Annotated[
        Optional[str],
        typer.Option("--devices", metavar="all|0,2|UUIDS", help="Measure on several devices side by side."),
    ] = None,
    scheduler: Annotated[
        Optional[str],
        typer.Option("--scheduler", metavar="ADDRESS", help="Measure on a dask cluster: tcp://host:8786."),
    ] = None,
    spread: Annotated[bool, typer.Option("--spread", help="Let each session of a case go to any device.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait while another run has the device.")] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop.")] = False,
    plots: Annotated[bool, typer.Option("--plot/--no-plot", help="Draw GB/s when done.")] = True,
) -> None:
    """Check and time every provider on every case; write a CSV and a plot.

    Exit code: 0 all well, 1 some row wrong or failed, 2 bad input, 3 nothing could be measured, 130 interrupted.
    """
    from kbench import config as configs
    from kbench.commands import run as command
    from kbench.execute.run import Target

    if devices is not None and scheduler is not None:
        raise typer.BadParameter("are of this host, --scheduler has those of others: take one", param_hint="--devices")
    if resume and append:
        raise typer.BadParameter("finishes a run, --append adds to a finished one: take one", param_hint="--resume")
    changes = [*(sets or ()), *([f"measure.sessions={sessions}"] if sessions is not None else [])]
    loaded = configs.load(config, sets=changes, only=only or (), profile=profile, plugins=plugin or ())
    continuing: Continuing | None = "resume" if resume else "append" if append else None
    try:
        target = Target(devices, scheduler, spread)
        code = command.run(loaded, out, target=target, continuing=continuing, wait=wait, dry_run=dry_run, plots=plots)
    except KeyboardInterrupt:  # while there is no run yet, or no more
        print("interrupted; what was measured before is kept", file=sys.stderr)
        code = INTERRUPTED
    raise typer.Exit(code)


@app.command()
def check(
    config: ConfigFile,
    sets: Sets = None,
    only: Only = None,
    profile: Profile = None,
    plugin: Plugins = None,
    every_case: Annotated[bool, typer.Option("--all", help="All cases, not only the smallest and largest.")] = False,
) -> None:
    """Show what every provider does with edge inputs: -inf, NaN, large offsets, strided rows. Times nothing.

    Exit code: 0 all right or declined, 1 something wrong or failed.
    """
    from kbench import config as configs
    from kbench.commands import check as command

    loaded = configs.load(config, sets=sets or (), only=only or (), profile=profile, plugins=plugin or ())
    raise typer.Exit(command.check(loaded, every_case=every_case))


@app.command()
def compare(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE.csv...", help="Results, the baseline first. LABEL=FILE names one.")
    ],
    baseline: Annotated[
        Optional[str], typer.Option("--baseline", metavar="LABEL", help="Compare with this file or provider.")
    ] = None,
    by: Annotated[
        str, typer.Option("--by", metavar="file|provider", help="provider: tell the providers of one file apart.")
    ] = "file",
    where: Where = "",
    metric: Annotated[str, typer.Option("--metric", metavar="NAME", help="ms, gbps, roofline, host_ms ...")] = "ms",
    margin: Annotated[str, typer.Option("--margin", metavar="SHARE", help="The smallest change of interest.")] = "2%",
    vary: Annotated[
        Optional[str], typer.Option("--vary", metavar="NAMES", help="What is meant to differ: torch,driver,device.")
    ] = None,
    sort: Annotated[
        str, typer.Option("--sort", metavar="ORDER", help="The table's order: verdict, key, change or time.")
    ] = "verdict",
    only: Annotated[
        Optional[str], typer.Option("--only", metavar="VERDICTS", help="Show only these: changed, or slower,missing.")
    ] = None,
    fail_on: Annotated[
        Optional[str], typer.Option("--fail-on", metavar="VERDICTS", help="Exit 1 on these: slower,missing,failed.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit 3 when any row was measured in another way on one side.")
    ] = False,
    export: Annotated[
        Optional[list[str]],
        typer.Option(
            "--export",
            metavar="FORMAT=FILE",
            help="Also write the report; - is stdout. markdown, json, csv, junit, github, github-action-benchmark, "
            "bencher or benchfmt.",
        ),
    ] = None,
    github: Annotated[
        bool, typer.Option("--github", help="In a GitHub job: annotations, step summary and outputs.")
    ] = False,
) -> None:
    """Tell results apart, row by row: slower, faster, same, or unclear and why.

    Exit code: 0 report written, 1 the gate failed (only with --fail-on), 2 bad input, 3 nothing comparable.
    """
    from kbench.commands import compare as command

    found = command.read(files, by=by, baseline=baseline, where=where, metric=metric, margin=margin, vary=vary)
    command.show(found, sort=sort, only=only, exports=export or (), github=github)
    raise typer.Exit(command.judge(found, fail_on=fail_on, strict=strict, github=github))


@app.command()
def plot(
    files: Annotated[
        Optional[list[str]],
        typer.Argument(metavar="[LABEL=]FILE.csv", help="Results; default: the newest in results/."),
    ] = None,
    metric: Annotated[
        str, typer.Option("--metric", metavar="NAME", help="gbps, ms, speedup, roofline or ulp.")
    ] = "gbps",
    kind: Annotated[
        str, typer.Option("--kind", metavar="KIND", help="lines, bars (a panel per case) or heatmap (who wins where).")
    ] = "lines",
    x: Annotated[
        Optional[str], typer.Option("--x", metavar="AXIS", help="What to draw against; default: what has most values.")
    ] = None,
    by: Annotated[str, typer.Option("--by", metavar="COLUMNS", help="What makes the panels: dtype, or dtype,M.")] = "",
    where: Where = "",
    term: Annotated[bool, typer.Option("--term", help="Draw here, in text, and write no files.")] = False,
    out: Annotated[
        Optional[Path], typer.Option("--out", "-o", metavar="DIR", help="Where pictures go; default: beside the CSV.")
    ] = None,
    formats: Annotated[str, typer.Option("--format", metavar="FORMATS", help="png, svg, pdf or several.")] = "png,svg",
    theme: Annotated[str, typer.Option("--theme", metavar="NAME", help="light or dark.")] = "light",
) -> None:
    """Draw results: a line per provider against its size, several files into one picture. Prints the paths it wrote.

    What else varies is a panel. Points of which the time says little are hollow; wrong, failed and declined ones are marked.
    """
    from kbench.commands import plot as command
    from kbench.plotting import Choices

    if term and out:
        raise typer.BadParameter("writes no files: leave --out away", param_hint="--term")
    choices = Choices(metric=metric, kind=kind, x=x, by=command.words(by), theme=theme)
    if term:
        raise typer.Exit(command.show(files or [], where, choices))
    raise typer.Exit(command.write(files or [], out, formats, where, choices))


@app.command()
def report(
    files: Annotated[
        Optional[list[str]],
        typer.Argument(metavar="[LABEL=]FILE.csv", help="Results; default: the newest in results/."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Where the page goes.")] = Path(
        "report.html"
    ),
    baseline: Annotated[
        Optional[str], typer.Option("--baseline", metavar="OLD.csv", help="Compare with these results, row by row.")
    ] = None,
    where: Where = "",
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="The page's heading.")] = "",
) -> None:
    """Write one HTML page that needs no network: who wins, an interactive plot, all rows, failures, machine and method."""
    from kbench.commands import report as command

    raise typer.Exit(command.write(files or [], out, baseline, where, title))


@app.command("list")
def list_command(
    operator: Annotated[Optional[str], typer.Argument(metavar="[OPERATOR]", help="Only this operator.")] = None,
    plugin: Plugins = None,
) -> None:
    """Show operators and providers, their parameters, and whether they can run on this machine."""
    from kbench.commands import inspect as command

    raise typer.Exit(command.list_providers(operator, plugin or ()))


@app.command()
def doctor() -> None:
    """Show what was found on this machine, and what each missing thing would enable."""
    from kbench.commands import inspect as command

    raise typer.Exit(command.doctor())


@app.command()
def explain(
    word: Annotated[
        Optional[str], typer.Argument(metavar="[WORD]", help="Default: list what can be explained.")
    ] = None,
) -> None:
    """Say what a status, a flag, a verdict, a control or a column means, why it matters and what to do."""
    from kbench.commands import explain as command

    raise typer.Exit(command.explain(word))


@app.command()
def schema(
    what: Annotated[str, typer.Argument(metavar="[config|compare]", help="Which files it describes.")] = "config",
) -> None:
    """Print the JSON Schema of config files, for editors, or of what `compare --export json` writes."""
    from kbench.commands import schema as command

    raise typer.Exit(command.schema(what))


def main() -> None:
    """The entry point: errors become one readable line and an exit code (see the README)."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends a run as Ctrl-C does
    try:
        try:
            app()
        finally:
            print(end="", flush=True)  # a reader that has gone, as `head` does, shows here at the latest
    except (SystemExit, BrokenPipeError) as end:
        if BrokenPipeError not in (type(end), type(end.__context__)):  # typer and rich make it exit code 1
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is in the buffer must not fail at exit
        raise SystemExit(UNREAD) from None
    except Exception as error:  # noqa: BLE001  the last line of defence: becomes exit code 70
        from kbench import terminal

        code = _expected(error)
        if "--traceback" in sys.argv:
            traceback.print_exc()
        elif code == BUG:
            where = traceback.extract_tb(error.__traceback__)[-1]
            terminal.error(
                f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno}). This is a bug in kbench; "
                "please report it with the output of kbench --traceback ..."
            )
        else:
            for line in str(error).splitlines():
                terminal.error(line)
        raise SystemExit(code) from None
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):  # the exit code stands: the interpreter may end in peace
            signal.signal(number, signal.SIG_IGN)


def _expected(error: Exception) -> int:
    """The exit code of errors that are the user's to mend, BUG for all others. Types are looked up where they are already
    loaded: an error of a module that was never imported cannot have been raised."""
    codes = {
        ("kbench.located", "ConfigError"): BAD_INPUT,
        ("kbench.results", "ResultsError"): BAD_INPUT,
        ("kbench.execute.lock", "Busy"): NOTHING,
        ("kbench.execute.worker", "WorkerLost"): NOTHING,
        ("kbench.execute.executor", "ExecutionError"): NOTHING,
    }
    for (module, name), code in codes.items():
        loaded = sys.modules.get(module)
        if loaded and isinstance(error, getattr(loaded, name)):
            return code
    return BAD_INPUT if isinstance(error, OSError) else BUG

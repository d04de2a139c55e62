"""The command line: parse, call, render. Imports nothing heavy before a command needs it."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from kbench import interrupts
from kbench.config import builtin
from kbench.errors import ExitStatus, KbenchError, UsageError
from kbench.text import streams
from kbench.version import __version__

app = typer.Typer(
    name="kbench",
    help="Which implementation of this operator is fastest here, by how much, and can I believe it?",
    epilog="Start with: kbench run softmax, or kbench init for kernels of your own.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

BadCommandLine: Any = typer.BadParameter.__base__
"""click's, or that of the copy of click which newer versions of typer bring: an option or a command that there is not."""

ConfigFile = Annotated[
    Path,
    typer.Argument(metavar="CONFIG", help=f"A YAML file, or a built-in config: {', '.join(builtin.names())}."),
]
Sets = Annotated[
    Optional[list[str]],
    typer.Option("--set", metavar="KEY=VALUE", help="Override the config: N=1024,4096 or rounds=2."),
]
Only = Annotated[
    Optional[list[str]], typer.Option("--only", metavar="PROVIDERS", help="Measure only these: triton,cuda.")
]
Profile = Annotated[
    Optional[str],
    typer.Option(
        "--profile", metavar="NAME", help="Apply a profile of the config; none turns the automatic cpu profile off."
    ),
]
Plugins = Annotated[
    Optional[list[str]], typer.Option("--plugin", metavar="FILE", help="A Python file with operators or providers.")
]
Where = Annotated[
    str,
    typer.Option(
        "--where",
        metavar="TERMS",
        help="Only these rows: 'N=1024,4096,dtype=bf16'. Also != < <= > >=, and patterns: 'provider=triton*'.",
    ),
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
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options of every command."""
    try:
        Path.cwd()
    except FileNotFoundError:  # torch's libraries do not load there, and say so in words of their own
        raise FileNotFoundError("the working folder is gone; change to one that exists") from None


@app.command()
def run(
    config: ConfigFile,
    sets: Sets = None,
    only: Only = None,
    profile: Profile = None,
    plugin: Plugins = None,
    out: OutDir = Path("results"),
    sessions: Annotated[
        Optional[int],
        typer.Option("--sessions", metavar="N", min=1, help="Repeat the whole sweep in N fresh processes."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an interrupted run: measure the cases that are missing.")
    ] = False,
    append: Annotated[bool, typer.Option("--append", help="Add sessions to the results of a finished run.")] = False,
    devices: Annotated[
        Optional[str],
        typer.Option("--devices", metavar="all|0,2|UUIDS", help="Measure on several devices of this host at once."),
    ] = None,
    scheduler: Annotated[
        Optional[str],
        typer.Option("--scheduler", metavar="ADDRESS", help="Measure on a dask cluster: tcp://host:8786."),
    ] = None,
    spread: Annotated[
        bool, typer.Option("--spread", help="Measure the sessions of a case on different devices.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait while another run uses the device.")] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop.")] = False,
    plots: Annotated[bool, typer.Option("--plot/--no-plot", help="Draw GB/s at the end.")] = True,
) -> None:
    """Check and time every provider on every case; write a CSV and a plot.

    Exit code: 0 all well, 1 some row wrong or failed, 2 bad input, 3 nothing could be measured, 130 interrupted.
    """
    from kbench.commands import run as command
    from kbench.config import load as configs
    from kbench.execute.run import RunOptions

    if resume and append:
        raise UsageError("--resume and --append cannot be combined; choose one")
    options = RunOptions(out, devices, scheduler, spread, "resume" if resume else "append" if append else None, wait)
    changes = [*(sets or ()), *([f"measure.sessions={sessions}"] if sessions is not None else [])]
    loaded = configs.load(config, sets=changes, only=only or (), profile=profile, plugins=plugin or ())
    try:
        code = command.run(loaded, options, dry_run=dry_run, plots=plots)
    except KeyboardInterrupt:  # while there is no run yet, or no more
        print("interrupted; what was measured before is kept", file=sys.stderr)
        code = ExitStatus.INTERRUPTED
    raise typer.Exit(code)


@app.command()
def check(
    config: ConfigFile,
    sets: Sets = None,
    only: Only = None,
    profile: Profile = None,
    plugin: Plugins = None,
    every_case: Annotated[
        bool, typer.Option("--all", help="Check all cases, not only the smallest and the largest.")
    ] = False,
) -> None:
    """Show what every provider does with edge inputs: -inf, NaN, large offsets, strided rows. Times nothing.

    Exit code: 0 all right or declined, 1 something wrong or failed.
    """
    from kbench.commands import check as command
    from kbench.config import load as configs

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
        str, typer.Option("--by", metavar="file|provider", help="Compare files, or the providers within one file.")
    ] = "file",
    where: Where = "",
    metric: Annotated[str, typer.Option("--metric", metavar="NAME", help="ms, gbps, launch_ms ...")] = "ms",
    margin: Annotated[
        Optional[str],
        typer.Option("--margin", metavar="SHARE", help="The smallest change of interest; default: 2% between files."),
    ] = None,
    vary: Annotated[
        Optional[str], typer.Option("--vary", metavar="NAMES", help="What differs on purpose: torch,driver,device.")
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
        bool, typer.Option("--strict", help="Exit 3 when a row was not measured in the same way on both sides.")
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
    """Compare two or more results files row by row: slower, faster, same, or unclear with the reason.

    Exit code: 0 report written, 1 the gate failed (only with --fail-on), 2 bad input, 3 nothing comparable.
    """
    from kbench.commands import compare as command

    found = command.read(
        files,
        by=by,
        baseline=baseline,
        where=where,
        metric=metric,
        margin=margin,
        vary=vary,
        fail_on=fail_on,
        strict=strict,
    )
    command.show(found, sort=sort, only=only, exports=export or (), github=github)
    raise typer.Exit(command.judge(found, github=github))


@app.command()
def plot(
    files: Annotated[
        Optional[list[str]],
        typer.Argument(metavar="[LABEL=]FILE.csv", help="Results; default: the newest in results/."),
    ] = None,
    metric: Annotated[
        str, typer.Option("--metric", metavar="NAME", help="gbps (usual), ms, speedup, copy_fraction or ulp.")
    ] = "",
    kind: Annotated[
        str,
        typer.Option(
            "--kind",
            metavar="KIND",
            help="lines, bars (a panel per case), heatmap (who wins where) or change (each file against the first; of one "
            "file, its providers against the baseline).",
        ),
    ] = "lines",
    x: Annotated[
        Optional[str],
        typer.Option("--x", metavar="AXIS", help="The horizontal axis; default: the axis with the most values."),
    ] = None,
    by: Annotated[
        str, typer.Option("--by", metavar="COLUMNS", help="Draw a panel for each value of these: dtype, or dtype,M.")
    ] = "",
    baseline: Annotated[
        Optional[str],
        typer.Option("--baseline", metavar="LABEL", help="With --kind change: compare with this file or provider."),
    ] = None,
    margin: Annotated[
        str, typer.Option("--margin", metavar="SHARE", help="With --kind change: the smallest change of interest.")
    ] = "2%",
    where: Where = "",
    term: Annotated[bool, typer.Option("--term", help="Draw in the terminal, as text, and write no files.")] = False,
    out: Annotated[
        Optional[Path], typer.Option("--out", "-o", metavar="DIR", help="Where pictures go; default: beside the CSV.")
    ] = None,
    formats: Annotated[str, typer.Option("--format", metavar="FORMATS", help="png, svg, pdf or several.")] = "png,svg",
    theme: Annotated[str, typer.Option("--theme", metavar="NAME", help="light or dark.")] = "light",
) -> None:
    """Draw results: a line for each provider; several files go into one picture. Prints the paths of the pictures.

    Other axes that vary get panels. Points dominated by overhead are hollow; wrong, failed and declined ones are marked.
    """
    from kbench.commands import plot as command
    from kbench.commands.compare import share
    from kbench.plotting import Choices

    if term and out:
        raise typer.BadParameter("writes no files, so it cannot be combined with --out", param_hint="--term")
    choices = Choices(metric, kind, x, command.words(by), theme, baseline, share(margin))
    if term:
        raise typer.Exit(command.show(files or [], where, choices))
    raise typer.Exit(command.write(files or [], out, formats, where, choices))


@app.command()
def show(
    file: Annotated[
        Optional[str], typer.Argument(metavar="[FILE.csv]", help="Results; default: the newest in results/.")
    ] = None,
    where: Where = "",
    details: Annotated[
        bool, typer.Option("--details", help="Also GB/s, share of the copy, error and flags of each case's fastest.")
    ] = False,
) -> None:
    """Print who is fastest in a results file, by how much, and every provider's time: what `kbench run` ends with."""
    from kbench.commands import show as command

    raise typer.Exit(command.show(file, where, detailed=details))


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
    """Write one HTML page: who wins, an interactive plot, all rows, failures, machine and method. It needs no network."""
    from kbench.commands import report as command

    raise typer.Exit(command.write(files or [], out, baseline, where, title))


@app.command()
def init(
    operator: Annotated[
        str, typer.Argument(metavar="OPERATOR", help="One of kbench's operators, or a new name for one of your own.")
    ] = "softmax",
    folder: Annotated[Path, typer.Option("--dir", metavar="DIR", help="The folder to write into.")] = Path(),
) -> None:
    """Write a config, a plug-in with kernels to change, and a GitHub workflow. Overwrites nothing."""
    from kbench.commands import init as command

    raise typer.Exit(command.init(operator, folder))


@app.command("list")
def list_command(
    operator: Annotated[Optional[str], typer.Argument(metavar="OPERATOR", help="Only this operator.")] = None,
    plugin: Plugins = None,
) -> None:
    """Show operators, providers and their parameters, whether they can run on this machine, and the built-in configs."""
    from kbench.commands import inspect as command

    raise typer.Exit(command.list_providers(operator, plugin or ()))


@app.command()
def doctor() -> None:
    """Show what was found on this machine, and what each missing thing would enable."""
    from kbench.commands import inspect as command

    raise typer.Exit(command.doctor())


@app.command()
def explain(
    words: Annotated[
        Optional[list[str]], typer.Argument(metavar="WORD", help="Default: list what can be explained.")
    ] = None,
) -> None:
    """Explain a word that kbench prints: a status, flag, verdict, control or column. Says what to do about it."""
    from kbench.commands import explain as command

    raise typer.Exit(command.explain(words or ()))


@app.command()
def schema(
    what: Annotated[str, typer.Argument(metavar="config|compare", help="Which files it describes.")] = "config",
) -> None:
    """Print the JSON Schema of config files, for editors, or of what `compare --export json` writes."""
    from kbench.commands import schema as command

    raise typer.Exit(command.schema(what))


def main() -> None:
    """The entry point: errors become one readable line and an exit code (see the README)."""
    try:
        streams.install()
        code, complaint = streams.finish(_run_command())
        if complaint:
            _complain(complaint)
        raise SystemExit(code)
    except KeyboardInterrupt:  # while the last lines were printed
        raise SystemExit(ExitStatus.INTERRUPTED) from None
    finally:
        interrupts.end()


def _run_command() -> int:
    """Do what the command line says. Returns the exit code."""
    try:
        code = app(prog_name="kbench", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except BadCommandLine as error:
        if len(sys.argv) == 1:  # what follows is the help
            print(error.ctx.get_help())
        else:
            _complain(error.format_message())
            print(f"Try '{error.ctx.command_path} -h' for help." if error.ctx else "Try 'kbench -h'.", file=sys.stderr)
        return ExitStatus.BAD_INPUT
    except KeyboardInterrupt:
        return ExitStatus.INTERRUPTED
    except Exception as error:  # noqa: BLE001  the last line of defence: becomes exit code 70
        code = _exit_status(error)
        if "--traceback" in sys.argv:
            traceback.print_exc()
        elif code is ExitStatus.BUG:
            where = traceback.extract_tb(error.__traceback__)[-1]
            _complain(
                f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno}). This is a bug in kbench; "
                "please report it with the output of kbench --traceback ..."
            )
        else:
            for line in str(error).splitlines():
                _complain(line)
        return code


def _complain(message: str) -> None:
    from kbench.text import terminal

    terminal.error(message)


def _exit_status(error: Exception) -> ExitStatus:
    """The exit code of an error. Errors that are not kbench's own are bugs, except those of the operating system."""
    if isinstance(error, KbenchError):
        return error.exit_status
    return ExitStatus.BAD_INPUT if isinstance(error, OSError) else ExitStatus.BUG

"""The command line: makes the app from the commands, prints errors and sets the exit code.

A command is a function in `kbench/commands/`: its parameters are its options, its docstring is its help, and it returns the
exit code if that may be another one than 0. The modules of the commands import what they need inside functions, so that
`kbench --help` stays quick.
"""

from __future__ import annotations

import gc
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperOption

from kbench import interrupts
from kbench.commands import (
    ab,
    check,
    compare,
    dispatch,
    doctor,
    exec,
    explain,
    history,
    init,
    judge,
    list_providers,
    plot,
    report,
    run,
    schema,
    show,
    why,
)
from kbench.commands.options import problem_with
from kbench.errors import ExitStatus, KbenchError
from kbench.execute import spawning
from kbench.text import streams
from kbench.version import __version__

COMMANDS: Mapping[str, Callable[..., int | None]] = {
    "run": run.run,
    "exec": exec.exec_command,
    "check": check.check,
    "judge": judge.judge,
    "compare": compare.compare,
    "ab": ab.ab,
    "dispatch": dispatch.dispatch,
    "plot": plot.plot,
    "show": show.show,
    "report": report.report,
    "why": why.why,
    "init": init.init,
    "list": list_providers.list_providers,
    "doctor": doctor.doctor,
    "explain": explain.explain,
    "schema": schema.schema,
}
"""The commands, in the order of `kbench --help`. `history`, which has commands of its own, follows them."""

HISTORY_COMMANDS: Mapping[str, Callable[..., int | None]] = {
    "check": history.history_check,
    "plot": history.history_plot,
}

BadCommandLine: Any = typer.BadParameter.__base__
"""The error that typer raises for an unknown command, an unknown option or a bad value: a class of its copy of click."""

HELP = {"help_option_names": ["-h", "--help"]}


class Command(TyperCommand):
    """A command that refuses a second value of an option. Otherwise the last one would count, without a word: the gate
    `--fail-on slower --fail-on missing` would pass rows that are slower."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, options = self.make_parser(ctx).parse_args(args=list(args))
        for option in options:
            if (
                options.count(option) > 1
                and isinstance(option, TyperOption)
                and not (option.multiple or option.is_flag)
            ):
                name = max(option.opts, key=len)
                ctx.fail(f"Option '{name}' is given twice, and only the last value would count; give it once.")
        return super().parse_args(ctx, args)


def _print_version(requested: bool) -> None:
    if requested:
        print(f"kbench {__version__}")
        raise typer.Exit


def _options_of_all_commands(
    show_traceback: Annotated[bool, typer.Option("--traceback", help="Show Python's traceback with an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Refuse a working folder that was deleted. torch's libraries do not load there, and their errors do not say why."""
    try:
        Path.cwd()
    except FileNotFoundError:
        raise FileNotFoundError("the working folder was deleted; change to a folder that exists") from None


def _make_app() -> typer.Typer:
    application = typer.Typer(
        name="kbench",
        help="Benchmark implementations of a GPU operator: which is right, which is fastest, and by how much?",
        epilog="Start with: kbench run softmax, or kbench init for kernels of your own.",
        no_args_is_help=True,
        rich_markup_mode=None,  # plain help: importing rich would take longer than everything else
        pretty_exceptions_enable=False,
        context_settings=HELP,
    )
    application.callback()(_options_of_all_commands)
    for name, command in COMMANDS.items():
        application.command(name, cls=Command)(command)
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, context_settings=HELP)
    for name, command in HISTORY_COMMANDS.items():
        group.command(name, cls=Command)(command)
    application.add_typer(group, name="history", help="Find the changes in a folder with the results of many runs.")
    return application


app = _make_app()


def main() -> None:
    """The entry point. Turns errors into one readable line and an exit code."""
    try:
        streams.replace_standard_streams()
        code = _run_command(sys.argv[1:])
        raise SystemExit(_exit_code(code, streams.finish()))
    except KeyboardInterrupt:  # while the last lines were printed
        raise SystemExit(ExitStatus.INTERRUPTED) from None
    finally:
        interrupts.ignore_signals()
        gc.freeze()  # at its end, Python would look for garbage among all modules for a tenth of a second


def _run_command(arguments: Sequence[str]) -> int:
    """Run the command that the arguments name. Prints errors. Returns the exit code."""
    try:
        code = app(list(arguments), prog_name="kbench", standalone_mode=False)
        return code if isinstance(code, int) else ExitStatus.OK
    except BadCommandLine as error:
        if list(arguments) in ([], ["history"]):  # the error holds the help
            print(error.ctx.get_help())
        else:
            _complain(problem_with(error, arguments))
            command = error.ctx.command_path if error.ctx else f"kbench {arguments[0]}"
            print(f"Try '{command} -h' for help.", file=sys.stderr)
        return ExitStatus.BAD_INPUT
    except KeyboardInterrupt:
        return ExitStatus.INTERRUPTED
    except Exception as error:  # noqa: BLE001  every error ends here; an unexpected one gets exit code 70
        unexpected = ExitStatus.BAD_INPUT if isinstance(error, OSError) else ExitStatus.BUG
        status = error.exit_status if isinstance(error, KbenchError) else unexpected
        if "--traceback" in arguments:
            traceback.print_exc()
        elif status is ExitStatus.BUG:
            where = traceback.extract_tb(error.__traceback__)[-1]
            _complain(
                f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno}). This is a bug in kbench; "
                f"please report it with the output of: kbench --traceback {arguments[0] if arguments else ''} ..."
            )
        else:
            for line in _message(error).splitlines():
                _complain(line)
        return status
    finally:
        spawning.end_unused()


def _exit_code(code: int, failure: OSError | None) -> int:
    """The exit code of a command that returned `code`, after a failure to write to stdout."""
    # a reader such as `head` that stops early is no error
    if failure is None or isinstance(failure, BrokenPipeError):
        return code
    _complain(
        f"stdout cannot be written ({failure.strerror}), so the printed text is lost; all files were written, except any "
        "that are named in an error above"
    )
    return code or ExitStatus.BAD_INPUT


def _message(error: Exception) -> str:
    """What the user reads. An error of the operating system names its file first: `results: permission denied`."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror[0].lower()}{error.strerror[1:]}"
    return str(error)


def _complain(message: str) -> None:
    from kbench.text import terminal

    terminal.error(message)

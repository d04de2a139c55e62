"""The command line: makes the app from the commands, prints errors and sets the exit code.

A command is a function in `kbench/commands/`: its parameters are its options, its docstring is its help, and it returns the
exit code. The modules of the commands import what they need inside functions, so that `kbench --help` stays quick.
"""

from __future__ import annotations

import sys
import textwrap
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperArgument, TyperCommand

from kbench import interrupts
from kbench.commands import check, doctor, exec, explain, init, inspect, judge, run
from kbench.commands.comparing import ab, compare
from kbench.commands.history.add import history_add
from kbench.commands.history.check import history_check
from kbench.commands.history.plot import history_plot
from kbench.commands.options import with_base_clock
from kbench.commands.reading import dispatch, plot, report, show, why
from kbench.errors import ExitStatus, KbenchError
from kbench.text import streams
from kbench.version import __version__

COMMANDS: Mapping[str, Callable[..., int]] = {
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
    "list": inspect.list_providers,
    "doctor": doctor.doctor,
    "explain": explain.explain,
    "schema": inspect.schema,
}
"""All commands, in the order of `kbench --help`."""

GROUPS: Mapping[str, tuple[str, Mapping[str, Callable[..., int]]]] = {
    "history": (
        "Keep results over time in a folder, and find the changes in it.",
        {"add": history_add, "check": history_check, "plot": history_plot},
    ),
}
"""Commands that have commands of their own: what they do together, and the commands. `kbench --help` lists them last."""

BadCommandLine: Any = typer.BadParameter.__base__
"""The error that typer raises for an unknown command, an unknown option or a bad value: a class of its copy of click."""


HELP_OPTIONS = ["-h", "--help"]
_HELP = {"help_option_names": HELP_OPTIONS}


class Command(TyperCommand):
    """A command whose help shows an argument as its metavar. typer would write `{CONFIG}` and `CONFIG <path>`."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces = ["[OPTIONS]"]
        for parameter in self.get_params(ctx):
            if isinstance(parameter, TyperArgument):
                name = str(parameter.metavar)
                pieces.append((name if parameter.required else f"[{name}]") + ("" if parameter.nargs == 1 else "..."))
        return pieces

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_base_clock(args))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        arguments, options = [], []
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is None:
                continue
            if isinstance(parameter, TyperArgument):
                arguments.append((str(parameter.metavar), record[1]))
            else:
                options.append(record)
        for title, records in (("Arguments", arguments), ("Options", options)):
            if records:
                with formatter.section(title):
                    _write_records(formatter, records)


def _write_records(formatter: Any, records: Sequence[tuple[str, str]]) -> None:
    """Write names and their texts in two columns. Unlike click, it does not break a line at the hyphen of a name."""
    column = max(len(name) for name, _ in records) + 2
    for name, text in records:
        lines = textwrap.wrap(text, formatter.width - formatter.current_indent - column - 1, break_on_hyphens=False)
        for start, line in zip([name, *[""] * len(lines)], lines or [""], strict=False):
            formatter.write(f"{'':{formatter.current_indent}}{start:{column}}{line}".rstrip() + "\n")


def _print_version(wanted: bool) -> None:
    if wanted:
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
    made = typer.Typer(
        name="kbench",
        help="Benchmark implementations of a GPU operator: which is right, which is fastest, and by how much?",
        epilog="Start with: kbench run softmax, or kbench init for kernels of your own.",
        no_args_is_help=True,
        rich_markup_mode=None,  # plain help: importing rich would take longer than everything else
        pretty_exceptions_enable=False,
        context_settings=_HELP,
    )
    made.callback()(_options_of_all_commands)
    for name, command in COMMANDS.items():
        made.command(name, cls=Command)(command)
    for name, (about, members) in GROUPS.items():
        group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, context_settings=_HELP)
        for member, command in members.items():
            group.command(member, cls=Command)(command)
        made.add_typer(group, name=name, help=about)
    return made


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
        interrupts.end()


def _run_command(arguments: Sequence[str]) -> int:
    """Run the command that the arguments name. Prints errors. Returns the exit code."""
    try:
        if len(arguments) == 2 and arguments[0] in COMMANDS and arguments[1] in HELP_OPTIONS:
            _print_help(arguments[0])
            return ExitStatus.OK
        code = app(list(arguments), prog_name="kbench", standalone_mode=False)
        return code if isinstance(code, int) else ExitStatus.OK
    except BadCommandLine as error:
        if not arguments or (len(arguments) == 1 and arguments[0] in GROUPS):  # the error holds the help
            print(error.ctx.get_help())
        else:
            _complain(error.format_message())
            print(f"Try '{error.ctx.command_path} -h' for help." if error.ctx else "Try 'kbench -h'.", file=sys.stderr)
        return ExitStatus.BAD_INPUT
    except KeyboardInterrupt:
        return ExitStatus.INTERRUPTED
    except Exception as error:  # noqa: BLE001  every error ends here; an unexpected one gets exit code 70
        if interrupts.is_interrupt(error):
            return ExitStatus.INTERRUPTED
        status = _exit_status(error)
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


def _print_help(name: str) -> None:
    """Print a command's help without a look at the options of all commands: typer imports pydantic to read their values."""
    one = typer.Typer(add_completion=False, rich_markup_mode=None, context_settings=_HELP)
    one.command(name, cls=Command)(COMMANDS[name])
    one(["-h"], prog_name=f"kbench {name}", standalone_mode=False)


def _exit_code(code: int, failure: OSError | None) -> int:
    """The exit code of a command that returned `code`, after a failure to write to stdout."""
    if failure is None:
        return code
    if isinstance(failure, BrokenPipeError):  # a reader such as `head` that stops early is no error
        return ExitStatus.UNREAD if code in (ExitStatus.OK, ExitStatus.FAILED, ExitStatus.NOTHING) else code
    _complain(
        f"stdout cannot be written ({failure.strerror}), so the printed text is lost; all files were written, except any "
        "that are named in an error above"
    )
    return code or ExitStatus.BAD_INPUT


def _exit_status(error: Exception) -> ExitStatus:
    """The exit code of an error. Errors that are not kbench's own are bugs, except those of the operating system."""
    if isinstance(error, KbenchError):
        return error.exit_status
    return ExitStatus.BAD_INPUT if isinstance(error, OSError) else ExitStatus.BUG


def _message(error: Exception) -> str:
    """What the user reads. An error of the operating system names its file first: `results: permission denied`."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror[0].lower()}{error.strerror[1:]}"
    return str(error)


def _complain(message: str) -> None:
    from kbench.text import terminal

    terminal.error(message)

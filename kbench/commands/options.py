"""Arguments and options that several commands have, and the values that several options take."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from kbench.config import builtin
from kbench.errors import UsageError
from kbench.results.cells import MARGIN

ConfigFile = Annotated[
    Path,
    typer.Argument(metavar="CONFIG", help=f"A YAML file, or a built-in config: {', '.join(builtin.config_names())}."),
]
Sets = Annotated[
    Optional[list[str]],
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a value, for example N=64,128 or rounds=2. Can be given several times; the last --set of a key counts.",
    ),
]
OnlyProviders = Annotated[
    Optional[list[str]],
    typer.Option(
        metavar="PROVIDERS",
        help="Use only these providers, for example triton,cuda. Can be given several times.",
    ),
]
Profile = Annotated[
    Optional[str],
    typer.Option(
        metavar="NAME",
        help="Apply the changes that the config lists under this profile. 'none' applies none. Default: on a machine without "
        "an accelerator, the profile cpu if the config has one.",
    ),
]
Plugins = Annotated[
    Optional[list[str]],
    typer.Option(
        metavar="FILE",
        help="Load operators and providers from this Python file. Can be given several times.",
    ),
]
ShapesOption = Annotated[
    Optional[Path],
    typer.Option(
        metavar="FILE.csv",
        help="Measure the shapes of this CSV instead of the sizes of the sweep. A column `weight` says how often a shape "
        "occurs; geometric means over cases are then weighted by it.",
    ),
]
ResultsFolder = Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for the results.")]
LockClocks = Annotated[
    Optional[str],
    typer.Option(
        metavar="MHZ|base",
        help="Lock the clocks of the devices during the run, at MHZ or at the base clock. This needs the right to set clocks, "
        "which usually only root has.",
    ),
]
ResultsFiles = Annotated[
    Optional[list[str]],
    typer.Argument(
        metavar="[LABEL=]FILE.csv",
        help="Results files, or folders with one each. Default: the newest file in results/.",
    ),
]
ResultsFile = Annotated[
    Optional[str],
    typer.Argument(
        metavar="FILE.csv", help="A results file, or a folder with one. Default: the newest file in results/."
    ),
]
PictureFormats = Annotated[
    str, typer.Option("--format", metavar="FORMATS", help="png, svg or pdf, or several with commas.")
]
Theme = Annotated[str, typer.Option(metavar="NAME", help="light or dark.")]
RowTerms = Annotated[
    str,
    typer.Option(
        metavar="TERMS",
        help="Use only the rows that match, for example 'N=1024,4096,dtype=bf16', 'eps<=1e-5' or 'provider=triton*'. "
        "Comparisons: = != < <= > >=.",
    ),
]
Margin = Annotated[str, typer.Option(metavar="SHARE", help="The smallest change that matters.")]
DEFAULT_MARGIN = f"{MARGIN:.0%}"
FailOn = Annotated[
    Optional[str],
    typer.Option(
        metavar="VERDICTS",
        help="Exit with 1 when a row has one of these verdicts, for example slower,missing,failed.",
    ),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Exit with 3 if a row cannot be compared because it was measured in different ways.",
    ),
]
Exports = Annotated[
    Optional[list[str]],
    typer.Option(
        metavar="FORMAT=FILE",
        help="Also write the comparison to a file. '-' as FILE means stdout. Formats: markdown, json, csv. "
        "Can be given several times.",
    ),
]
GitHub = Annotated[
    bool,
    typer.Option("--github", help="Write the annotations, step summary and outputs of a GitHub job."),
]


def problem_with(error: Any, arguments: Sequence[str]) -> str:
    """What typer's error says of the arguments. An unknown option may be one of a script, or a key of the config."""
    from kbench.protocol import Measure
    from kbench.sources import is_problem

    if not hasattr(error, "possibilities") or not any("--set" in option.opts for option in error.ctx.command.params):
        return str(error.format_message())
    name, config = error.option_name, arguments[1]
    key = name.lstrip("-").replace("-", "_")
    if key in Measure.model_fields:
        error.possibilities = None  # they only look similar
    elif arguments[0] == "run" and config.endswith(".py") and not is_problem(Path(config)):
        return f"{error.format_message()}; an option of the script follows --: kbench run {config} -- {name}"
    if error.possibilities or not name.startswith("--"):
        return str(error.format_message())
    [value] = re.findall(rf"{re.escape(name)}[= ]([^-]\S*)", " ".join(arguments))[:1] or ["VALUE"]
    return f"{error.format_message()}; for a key of the config, write --set {key}={value}"


def results_path(file: str | None) -> Path:
    """The results file that an argument names, or the newest one in `results/`. Raises ResultsError and UsageError."""
    from kbench.results.reader import results_file

    [path] = newest_results([file] if file else None)
    return results_file(Path(path))


def newest_results(files: list[str] | None) -> list[str]:
    """The files, or the newest results file in `results/` when there are none. Raises UsageError when that folder has none."""
    from kbench.results.reader import newest

    return files or [str(newest(Path("results")))]


def check_not_read(option: str, out: Path, files: Sequence[str]) -> None:
    """Raise UsageError if the file to write is one of the results files to read, or the environment file of one."""
    from kbench.results.environment import environment_path
    from kbench.results.reader import parse_source

    for _, csv in map(parse_source, files):
        for path in (csv, environment_path(csv)):
            if out.resolve() == path.resolve():
                raise UsageError(f"{option} {out}: this would overwrite the results that are read; name another file")


def parse_duration(option: str, text: str) -> float:
    """The seconds that `90s`, `10m` or `1h` mean. Raises UsageError."""
    try:
        seconds = float(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1:]]
    except (KeyError, ValueError):
        raise UsageError(f"{option} {text!r} is not a duration; write 90s, 10m or 1h") from None
    if not 0 < seconds < float("inf"):
        raise UsageError(f"{option} {text!r}: must be more than 0, and finite")
    return seconds


def parse_clock(text: str | None) -> str | None:
    """The clock that `1500`, `1500MHz` or `base` mean. Raises UsageError."""
    if text in (None, "base"):
        return text
    mhz = text.lower().removesuffix("mhz")
    if not mhz.isdecimal() or not 10 <= int(mhz) < 100_000:
        raise UsageError(f"--lock-clocks {text!r} is not a clock; write 1500 for 1500 MHz, or base")
    return mhz

"""Arguments and options that several commands have, and the values that several options take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from kbench.config import builtin
from kbench.errors import UsageError

ConfigFile = Annotated[
    Path,
    typer.Argument(metavar="CONFIG", help=f"A YAML file, or a built-in config: {', '.join(builtin.config_names())}."),
]
Sets = Annotated[
    Optional[list[str]],
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a value of the config, for example N=1024,4096 or rounds=2. Can be given several times.",
    ),
]
OnlyProviders = Annotated[
    Optional[list[str]],
    typer.Option(
        "--only",
        metavar="PROVIDERS",
        help="Use only these providers, for example triton,cuda. Can be given several times.",
    ),
]
Profile = Annotated[
    Optional[str],
    typer.Option(
        "--profile",
        metavar="NAME",
        help="Apply the changes that the config lists under this profile. 'none' applies none. Default: on a machine without "
        "an accelerator, the profile cpu if the config has one.",
    ),
]
Plugins = Annotated[
    Optional[list[str]],
    typer.Option(
        "--plugin",
        metavar="FILE",
        help="Load operators and providers from this Python file. Can be given several times.",
    ),
]
KeepTrying = Annotated[
    bool,
    typer.Option(
        "--keep-trying",
        help="Also try configurations that crashed or timed out in two cases in a row.",
    ),
]
ResultsFiles = Annotated[
    Optional[list[str]],
    typer.Argument(metavar="[LABEL=]FILE.csv", help="Results files. Default: the newest file in results/."),
]
RowTerms = Annotated[
    str,
    typer.Option(
        "--where",
        metavar="TERMS",
        help="Use only the rows that match, for example 'N=1024,4096,dtype=bf16', 'eps<=1e-5' or 'provider=triton*'. "
        "Comparisons: = != < <= > >=.",
    ),
]


def newest_results(files: list[str] | None) -> list[str]:
    """The files, or the newest results file in `results/` when there are none. Raises UsageError when that folder has none."""
    from kbench.results import table

    return files or [str(table.newest(Path("results")))]


def split_words(text: str | None) -> list[str]:
    """The words of an option's value, which commas separate: `png, svg` gives `["png", "svg"]`."""
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def parse_share(option: str, text: str) -> float:
    """The share that `5%` or `0.05` means. Raises UsageError."""
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise UsageError(f"{option} {text!r} is not a share; write 2% or 0.02") from None

"""The options of the commands that measure revisions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

Build = Annotated[
    str,
    typer.Option(
        "--build",
        metavar="COMMAND",
        help="Build each revision with this shell command, for example 'pip install -e .'. It runs in the revision's "
        "folder, with a virtual environment of its own.",
    ),
]


def run_arguments(
    sets: Sequence[str] | None, only: Sequence[str] | None, profile: str | None, shapes: Path | None = None
) -> list[str]:
    """The options --set, --only, --profile and --shapes as arguments of `kbench run`. All revisions read the same shapes."""
    return [
        *(word for each in sets or () for word in ("--set", each)),
        *(word for each in only or () for word in ("--only", each)),
        *(["--profile", profile] if profile is not None else []),
        *(["--shapes", str(shapes.absolute())] if shapes is not None else []),
    ]

"""`kbench schema`: prints a JSON Schema."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from kbench.errors import ExitStatus, UsageError
from kbench.text.suggest import unknown

CONFIG, COMPARE = "config", "compare"


def schema(
    what: Annotated[str, typer.Argument(metavar="config|compare", help="The kind of file.")] = CONFIG,
) -> ExitStatus:
    """Print a JSON Schema of kbench's files.

    With the schema `config`, an editor can check config files. The schema `compare` describes the output of
    `kbench compare --export json`.
    """
    if what == CONFIG:
        from kbench.config import schema as config_schema

        found = config_schema.schema()
    elif what == COMPARE:
        from kbench.comparison.formats import json_report

        found = json_report.schema()
    else:
        raise UsageError(f"kbench schema: {unknown('schema', what, (CONFIG, COMPARE))}")
    print(json.dumps(found, indent=2))
    return ExitStatus.OK

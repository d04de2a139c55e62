"""`kbench schema`: prints a JSON Schema of one of kbench's files."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Annotated

import typer

from kbench.errors import UsageError
from kbench.text.suggest import unknown

SCHEMAS = {
    "config": "kbench.config.schema:schema",
    "compare": "kbench.comparison.model:schema",
    "check": "kbench.judging.answer:check_schema",
    "judge": "kbench.judging.answer:judge_schema",
}
"""By the name of a schema, where the function is that makes it."""


def schema(
    what: Annotated[str, typer.Argument(metavar="|".join(SCHEMAS), help="The kind of file.")] = "config",
) -> None:
    """Print a JSON Schema of kbench's files.

    With the schema `config`, an editor can check config files. The schemas `check` and `judge` describe what these commands
    print with --json, and `compare` describes the output of `kbench compare --export json`.
    """
    if what not in SCHEMAS:
        raise UsageError(f"kbench schema: {unknown('schema', what, tuple(SCHEMAS))}")
    module, function = SCHEMAS[what].split(":")
    print(json.dumps(getattr(import_module(module), function)(), indent=2))

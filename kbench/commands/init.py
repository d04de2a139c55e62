"""`kbench init`: writes a config, a plug-in and a workflow to start from, or a section of AGENTS.md."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from kbench.errors import UsageError
from kbench.files import replace
from kbench.text import terminal
from kbench.text.suggest import nearest

TEMPLATES = Path(__file__).parents[1] / "templates"
EXAMPLE = "my_operator"
"""The operator's name in the templates."""

WORKFLOW = "kbench-workflow.yml"
AGENTS = "AGENTS.md"
BEGIN, END = "<!-- kbench init --agent: begin -->", "<!-- kbench init --agent: end -->"
"""The lines around the section of AGENTS.md."""

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")


def init(
    operator: Annotated[
        str,
        typer.Argument(metavar="OPERATOR", help="A name for an operator of your own, or one of kbench."),
    ] = EXAMPLE,
    folder: Annotated[Path, typer.Option("--dir", metavar="DIR", help="Folder for the files.")] = Path(),
    agent: Annotated[
        bool,
        typer.Option(
            "--agent",
            help="Write only a section of AGENTS.md, which tells a coding agent how to make a kernel of the operator faster. "
            "It replaces the section that is there, and nothing else of the file.",
        ),
    ] = False,
) -> None:
    """Write a config, a plug-in and a GitHub workflow to start from.

    The plug-in declares the operator and has two providers of it. For an operator of kbench, such as softmax, the command
    writes a plug-in with a provider only: the built-in config measures it.

    If any of the files already exists, the command writes no file at all.
    """
    from kbench.contract.origin import shipped

    if not NAME.fullmatch(operator):
        raise UsageError(
            f"kbench init: {operator!r} cannot be an operator's name; use at most 40 letters, digits and underscores, and "
            "begin with a letter"
        )
    if agent:
        _write_agents(folder / AGENTS, operator, operator if operator in shipped() else f"{operator}.yaml")
        return
    plugin = folder / f"my_{operator}.py"
    if operator in shipped():
        _write({plugin: _template("provider.py", operator)})
        print(f"wrote {plugin}: a plug-in with a provider of {operator}, for you to change")
        _print_next([operator, "--plugin", str(plugin)])
        return
    config, workflow = folder / f"{operator}.yaml", folder / WORKFLOW
    _write(
        {
            config: _template("operator.yaml", operator),
            plugin: _template("operator.py", operator),
            workflow: _workflow(config),
        }
    )
    print(f"wrote {config}: the config, with sizes, dtypes and providers")
    print(
        f"wrote {plugin}: a plug-in with the operator {operator} (until you change it, a row-wise RMS norm) and two "
        "providers, for you to change"
    )
    print(f"wrote {workflow}: a GitHub workflow; copy it to .github/workflows/ and set KBENCH in it")
    if near := nearest(operator, shipped()):
        terminal.warn(f'"{operator}" is a new operator; if you meant "{near}", run: kbench init {near}')
    _print_next([str(config)])


def _write_agents(path: Path, operator: str, config: str) -> None:
    """Write the section, or replace the one between the marks. Raises UsageError if only one mark is there."""
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    head, begin, rest = before.partition(f"{BEGIN}\n")
    _, end, tail = rest.partition(f"{END}\n")
    if bool(begin) is not bool(end) or (not begin and END in before):
        raise UsageError(
            f"{path}: has one of the lines {BEGIN} and {END} without the other; put it back, or remove it and the section"
        )
    if head and not begin:
        head = head.rstrip("\n") + "\n\n"
    section = _template("agents.md", operator).replace("@CONFIG@", config)
    replace(path, f"{head}{BEGIN}\n{section}{END}\n{tail}")
    print(f"{'replaced' if begin else 'wrote'} the section on kbench in {path}")


def _print_next(arguments: Sequence[str]) -> None:
    check, run = (f"  {shlex.join(['kbench', verb, *arguments])}" for verb in ("check", "run"))
    print(f"\nnext:\n{check}  # are the providers correct?\n{run.ljust(len(check))}  # how fast are they?")


def _write(texts: Mapping[Path, str]) -> None:
    """Write new files, all in one folder. Raises UsageError if one of them exists."""
    message = "exists already, and kbench init overwrites nothing; move it away, or choose another folder with --dir"
    if existing := [path for path in texts if os.path.lexists(path)]:
        raise UsageError("\n".join(f"{path}: {message}" for path in existing))
    for path, text in texts.items():
        replace(path, text)


def _template(name: str, operator: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8").replace(EXAMPLE, operator)


def _workflow(config: Path) -> str:
    """The workflow for a config. It names the config's path below the root of the git repository."""
    whole = config.resolve()
    root = next((folder for folder in whole.parents if (folder / ".git").exists()), whole.parent)
    text = (TEMPLATES / "workflow.yml").read_text(encoding="utf-8")
    # a JSON string is a YAML string
    return text.replace("@CONFIG@", json.dumps(whole.relative_to(root).as_posix()))

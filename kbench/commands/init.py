"""`kbench init`: writes a config, a plug-in and a workflow to start from."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from typing import Annotated

import typer

from kbench.errors import ExitStatus, UsageError
from kbench.packages import DISTRIBUTION
from kbench.text import terminal
from kbench.text.suggest import nearest

TEMPLATES = Path(__file__).parents[1] / "templates"
EXAMPLE = "my_operator"
"""The operator's name in templates/operator.*"""

WORKFLOW = "kbench-workflow.yml"
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")


def init(
    operator: Annotated[
        str,
        typer.Argument(metavar="OPERATOR", help="softmax, gelu, or a new name for an operator of your own."),
    ] = "softmax",
    folder: Annotated[Path, typer.Option("--dir", metavar="DIR", help="Folder for the files.")] = Path(),
) -> ExitStatus:
    """Write a config, a plug-in and a GitHub workflow to start from.

    For softmax and gelu, the plug-in adds two providers to kbench's operator. For a new name, the plug-in also declares
    the operator. If one of the files exists, the command writes none.
    """
    from kbench.contract.origin import shipped

    if not NAME.fullmatch(operator):
        raise UsageError(
            f"kbench init: {operator!r} cannot be an operator's name; use at most 40 letters, digits and underscores, and "
            "begin with a letter"
        )
    is_shipped = operator in shipped()
    if is_shipped and not (TEMPLATES / f"{operator}.py").is_file():
        raise UsageError(f"kbench init: kbench has an operator {operator}, but no template for it; choose another name")
    config, plugin, workflow = folder / f"{operator}.yaml", folder / f"my_{operator}.py", folder / WORKFLOW
    requirement = _requirement()
    texts = {
        config: _template(operator, ".yaml"),
        plugin: _template(operator, ".py"),
        workflow: _workflow(config, requirement),
    }
    if existing := [path for path in texts if os.path.lexists(path)]:
        message = "exists already, and kbench init overwrites nothing; choose another folder with --dir"
        raise UsageError("\n".join(f"{path}: {message}" for path in existing))
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    contents = f"two providers of {operator}" if is_shipped else f"the operator {operator} and two providers"
    print(f"wrote {config}: the config, with sizes, dtypes and providers")
    print(f"wrote {plugin}: a plug-in with {contents}, for you to change")
    todo = "" if requirement else " and set KBENCH in it"
    print(f"wrote {workflow}: a GitHub workflow; copy it to .github/workflows/{todo}")
    near = (
        None
        if is_shipped
        else nearest(operator, [path.stem for path in TEMPLATES.glob("*.py") if path.stem in shipped()])
    )
    if near:
        terminal.warn(f'"{operator}" is a new operator; if you meant "{near}", run: kbench init {near}')
    print()
    print("next:")
    for verb, question in (("check", "are the providers correct?"), ("run", "how fast are they?")):
        print(f"  kbench {verb} {shlex.quote(str(config))}".ljust(40) + f"  # {question}")
    return ExitStatus.OK


def _template(operator: str, suffix: str) -> str:
    shipped = TEMPLATES / f"{operator}{suffix}"
    if operator != "operator" and shipped.is_file():
        return shipped.read_text(encoding="utf-8")
    return (TEMPLATES / f"operator{suffix}").read_text(encoding="utf-8").replace(EXAMPLE, operator)


def _workflow(config: Path, requirement: str) -> str:
    """The workflow for a config. It names the config's path below the root of the git repository."""
    whole = config.resolve()
    root = next((folder for folder in whole.parents if (folder / ".git").exists()), whole.parent)
    text = (TEMPLATES / "workflow.yml").read_text(encoding="utf-8")
    words = {"@CONFIG@": whole.relative_to(root).as_posix(), "@KBENCH@": requirement}
    for mark, word in words.items():
        text = text.replace(mark, json.dumps(word))  # a JSON string is a YAML string
    return text


def _requirement() -> str:
    """What pip needs to install this kbench elsewhere. Empty when kbench was not installed from a repository."""
    import importlib.metadata

    try:
        origin = json.loads(importlib.metadata.distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
        version = origin["vcs_info"]
        return f"{DISTRIBUTION} @ {version['vcs']}+{origin['url']}@{version['commit_id']}"
    except (importlib.metadata.PackageNotFoundError, ValueError, KeyError, TypeError):
        return ""

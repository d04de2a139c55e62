"""`kbench init`: a config, a plug-in and a workflow to begin with."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shlex
from pathlib import Path

from kbench import registry
from kbench.config.yaml_source import nearest
from kbench.errors import ConfigError, ConfigIssue, SourceLocation
from kbench.packages import DISTRIBUTION
from kbench.text import terminal

TEMPLATES = Path(__file__).parents[1] / "templates"
EXAMPLE = "my_operator"
"""What templates/operator.* call the operator."""

WORKFLOW = "kbench-workflow.yml"
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")


def init(operator: str, folder: Path) -> int:
    """Write the files into a folder and say what they are and what to type next. Returns the exit code.

    For an operator of kbench, the plug-in has providers of it; for any other name, it is an operator of one's own. Raises
    ConfigError when one of the files exists: nothing is overwritten, and then nothing is written at all.
    """
    if not NAME.fullmatch(operator):
        message = (
            f"{operator!r} is no name for an operator: letters, digits and underscores, a letter first, 40 at most"
        )
        raise ConfigError([ConfigIssue(SourceLocation("kbench init"), message)])
    shipped = operator in registry.shipped()
    if shipped and not (TEMPLATES / f"{operator}.py").is_file():
        message = f"kbench has an operator {operator}, but no template for it; take another name"
        raise ConfigError([ConfigIssue(SourceLocation("kbench init"), message)])
    config, plugin, workflow = folder / f"{operator}.yaml", folder / f"my_{operator}.py", folder / WORKFLOW
    requirement = _requirement()
    texts = {
        config: _template(operator, ".yaml"),
        plugin: _template(operator, ".py"),
        workflow: _workflow(config, requirement),
    }
    if existing := [path for path in texts if os.path.lexists(path)]:
        message = "exists already, and kbench init overwrites nothing; choose another folder with --dir"
        raise ConfigError([ConfigIssue(SourceLocation(str(path)), message) for path in existing])
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    mine = f"two versions of {operator}" if shipped else f"the operator {operator} and two versions of it"
    print(f"wrote {config}: the sweep: sizes, dtypes and what is measured")
    print(f"wrote {plugin}: {mine}, for you to change")
    todo = "" if requirement else " and set KBENCH there"
    print(f"wrote {workflow}: for pull requests; copy it to .github/workflows/{todo}")
    near = None if shipped else nearest(operator, registry.shipped())
    if near:
        terminal.warn(f'"{operator}" is a new operator; kbench has one called "{near}": kbench init {near}')
    print()
    print("next:")
    for verb, what in (("check", "are they right?"), ("run", "how fast are they?")):
        print(f"  kbench {verb} {shlex.quote(str(config))}".ljust(40) + f"  # {what}")
    return 0


def _template(operator: str, suffix: str) -> str:
    shipped = TEMPLATES / f"{operator}{suffix}"
    if operator != "operator" and shipped.is_file():
        return shipped.read_text(encoding="utf-8")
    return (TEMPLATES / f"operator{suffix}").read_text(encoding="utf-8").replace(EXAMPLE, operator)


def _workflow(config: Path, requirement: str) -> str:
    """The workflow for a config, whose path it names from the root of the repository that it is in."""
    whole = config.resolve()
    root = next((folder for folder in whole.parents if (folder / ".git").exists()), whole.parent)
    text = (TEMPLATES / "workflow.yml").read_text(encoding="utf-8")
    words = {"@CONFIG@": whole.relative_to(root).as_posix(), "@KBENCH@": requirement}
    for mark, word in words.items():
        text = text.replace(mark, json.dumps(word))  # a JSON string is a YAML string
    return text


def _requirement() -> str:
    """What pip needs to install this kbench elsewhere; empty where it was not installed from a repository."""
    try:
        origin = json.loads(importlib.metadata.distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
        version = origin["vcs_info"]
        return f"{DISTRIBUTION} @ {version['vcs']}+{origin['url']}@{version['commit_id']}"
    except (importlib.metadata.PackageNotFoundError, ValueError, KeyError, TypeError):
        return ""

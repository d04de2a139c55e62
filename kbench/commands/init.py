"""`kbench init`: writes a config, a plug-in and a workflow to start from, or those of a script."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Optional

import typer

from kbench.errors import ExitStatus, UsageError
from kbench.files import source_text
from kbench.text import terminal
from kbench.text.suggest import nearest

DISTRIBUTION = "kbench-gpu"
"""The name of this project on the package index. `kbench` there is another project, a Kubernetes benchmark."""

TEMPLATES = Path(__file__).parents[1] / "templates"
EXAMPLE = "my_operator"
"""The operator's name in templates/operator.*"""

WORKFLOW = "kbench-workflow.yml"
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")


def init(
    operator: Annotated[
        str,
        typer.Argument(
            metavar="OPERATOR", help="softmax, gelu, a new name for an operator of your own, or a script: bench.py."
        ),
    ] = "softmax",
    folder: Annotated[Path, typer.Option("--dir", metavar="DIR", help="Folder for the files.")] = Path(),
    arguments: Annotated[
        Optional[list[str]], typer.Argument(metavar="[-- ARGUMENTS]", help="The arguments of a script.")
    ] = None,
    plot: Annotated[
        str | None,
        typer.Option(
            "--plot",
            metavar="NAME",
            help="With a script: make a config that measures this plot. Default: the first plot.",
        ),
    ] = None,
) -> ExitStatus:
    """Write a config, a plug-in and a GitHub workflow to start from.

    If OPERATOR is a script that uses triton.testing.perf_report, the command writes a plug-in, and a config that measures
    one plot of the script: kbench init bench.py writes bench_plugin.py and bench.yaml.

    For softmax and gelu, the plug-in adds two providers to kbench's operator. For a new name, the plug-in also declares
    the operator. If any of the files already exists, the command writes no file at all.
    """
    from kbench.contract.origin import shipped

    if operator.endswith(".py"):
        return _export_script(Path(operator), arguments or (), folder, plot)
    if arguments or plot:
        raise UsageError(
            "kbench init: arguments and --plot need a script, for example: kbench init bench.py --plot NAME"
        )
    if not NAME.fullmatch(operator):
        raise UsageError(
            f"kbench init: {operator!r} cannot be an operator's name; use at most 40 letters, digits and underscores, and "
            "begin with a letter"
        )
    is_shipped = operator in shipped()
    if is_shipped and not (TEMPLATES / f"{operator}.py").is_file():
        raise UsageError(
            f"kbench init: kbench has an operator {operator}, but no template for it; to add providers to it, write a plug-in "
            f'with @kbench.operator("{operator}").provider(NAME); for a new operator, choose another name'
        )
    config, plugin, workflow = folder / f"{operator}.yaml", folder / f"my_{operator}.py", folder / WORKFLOW
    requirement = _requirement()
    texts = {
        config: _template(operator, ".yaml"),
        plugin: _template(operator, ".py"),
        workflow: _workflow(config, requirement),
    }
    _refuse([path for path in texts if os.path.lexists(path)])
    _write(texts)
    example = f"the operator {operator} (until you change it, a row-wise RMS norm) and two providers"
    contents = f"two providers of {operator}" if is_shipped else example
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


def _export_script(script: Path, arguments: Sequence[str], folder: Path, plot: str | None) -> ExitStatus:
    """Write the config of a plot, and the plug-in that it needs. The configs of several plots share the plug-in."""
    from kbench.execute.worker import Worker
    from kbench.protocol import CatalogRequest, Source
    from kbench.sources.source_config import SourceConfig, config_text, plugin_text

    if not script.is_file():
        raise UsageError(f"{script}: no such file")
    config = folder / f"{script.stem if plot is None else plot.replace('/', '_')}.yaml"
    plugin = folder / f"{script.stem}_plugin.py"
    text = plugin_text(script.absolute(), arguments, folder.absolute())
    there = os.path.lexists(plugin)
    existing = [plugin] if there and source_text(plugin) != text else []
    _refuse([config, *existing] if os.path.lexists(config) else existing)
    source = Source(str(script.absolute()), tuple(arguments))
    with Worker(CatalogRequest((), source), terminal.note) as worker:
        sweeps = {sweep.operator: sweep for sweep in worker.catalog.sweeps}
        first = SourceConfig(source).sweep(worker.catalog).operator  # raises ConfigError with what is wrong
    if plot is not None and plot not in sweeps:
        raise UsageError(f"--plot {plot}: {script} has no such plot; its plots are {', '.join(sweeps)}")
    _write({config: config_text(sweeps[plot or first], Path(plugin.name)), **({} if there else {plugin: text})})
    print(f"wrote {config}: the config of {plot or first}")
    print(f"{'found' if there else 'wrote'} {plugin}: a plug-in, for configs in the same folder")
    if plot is None and len(sweeps) > 1:
        others = " or ".join(f"--plot {shlex.quote(name)}" for name in sweeps if name != first)
        print(f"for another plot, run the command again with {others}")
    return ExitStatus.OK


def _refuse(existing: Sequence[Path]) -> None:
    """Raises UsageError if there are files that the command would overwrite."""
    message = "exists already, and kbench init overwrites nothing; choose another folder with --dir"
    if existing:
        raise UsageError("\n".join(f"{path}: {message}" for path in existing))


def _write(texts: Mapping[Path, str]) -> None:
    """Write new files, all in one folder."""
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)


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

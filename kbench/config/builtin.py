"""Finds the configs that come with kbench by name: `kbench run softmax`.

The files are in `configs/` of the repository. A wheel has a copy in the package. `kbench --help` lists the names, so this
module imports nothing heavy.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

SUFFIX = ".yaml"


def folder() -> Path:
    """The folder of the built-in configs: in the installed package, or in the repository."""
    inside = Path(__file__).parents[1] / "configs"
    return inside if inside.is_dir() else Path(__file__).parents[2] / "configs"


def config_names() -> list[str]:
    return sorted(path.stem for path in folder().glob(f"*{SUFFIX}"))


def find_config(given: Path) -> Path:
    """The file that a command's CONFIG argument means: the file itself, or else `NAME.yaml` here, or else the built-in config.

    Raises ConfigError with a suggestion if none of them exists.
    """
    from kbench.errors import ConfigError, ConfigIssue, SourceLocation

    if given.exists() and not given.is_dir():
        return given
    if _is_bare(given):
        here = given.with_name(given.name + SUFFIX)
        if not given.suffix and here.is_file():
            return here
        if (name := given.name.removesuffix(SUFFIX)) in config_names():
            return folder() / (name + SUFFIX)
    if given.is_dir():
        return given  # reading it raises the right error
    raise ConfigError([ConfigIssue(SourceLocation(str(given)), f"no such file or directory; {_meant(given)}")])


class Described(NamedTuple):
    """A built-in config: its name, its operator and the first line of its comment."""

    name: str
    operator: str
    about: str


def described() -> list[Described]:
    found = []
    for name in config_names():
        lines = (folder() / (name + SUFFIX)).read_text(encoding="utf-8").splitlines()
        operator = next(line.partition(":")[2].strip() for line in lines if line.startswith("operator:"))
        found.append(Described(name, operator, lines[0].removeprefix("# ").rstrip(".")))
    return found


def _is_bare(path: Path) -> bool:
    return str(path) == path.name


def _meant(given: Path) -> str:
    from kbench.text.suggest import nearest

    beside = given.parent
    files = [p for p in beside.iterdir() if p.suffix in (".yaml", ".yml")] if beside.is_dir() else []
    stems = {path.stem: str(path) for path in files} if given.suffix else {path.stem: path.stem for path in files}
    known = dict.fromkeys(config_names()) | stems if _is_bare(given) else stems
    near = nearest(given.stem, list(known))
    if near:
        return f'did you mean "{known[near] or near}"?'
    if given.stem in config_names():
        return f"a config of this name is built in; to use it, write {given.stem} without a folder"
    return f"built-in configs are {', '.join(config_names())}"

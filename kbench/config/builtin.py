"""The configs that come with kbench, by name: `kbench run softmax`.

The files lie in `configs/` of the repository, and only there. A wheel carries a copy beside this file. `kbench --help` asks for
the names, so this module imports nothing heavy.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import NamedTuple

SUFFIX = ".yaml"
LOOKED_AT = 1000
"""Files of a folder that are read in search of a similar name: a suggestion must not take long."""


def folder() -> Path:
    """Where the built-in configs are: in the package, or in the repository that it runs from."""
    inside = Path(__file__).parents[1] / "configs"
    return inside if inside.is_dir() else Path(__file__).parents[2] / "configs"


def names() -> list[str]:
    return sorted(path.stem for path in folder().glob(f"*{SUFFIX}"))


def find(given: Path) -> Path:
    """The file that a config's argument means: a file here, then `NAME.yaml` here, then the built-in config NAME.

    Raises ConfigError, with what was probably meant, when there is none of them.
    """
    from kbench.errors import ConfigError, ConfigIssue, SourceLocation

    if given.is_file() or (given.exists() and not given.is_dir()):
        return given
    if _is_bare(given):
        here = given.with_name(given.name + SUFFIX)
        if not given.suffix and here.is_file():
            return here
        if (name := given.name.removesuffix(SUFFIX)) in names():
            return folder() / (name + SUFFIX)
    if given.is_dir():
        return given  # reading it says that it is a folder
    raise ConfigError([ConfigIssue(SourceLocation(str(given)), f"no such file or directory; {_meant(given)}")])


class Described(NamedTuple):
    """A built-in config by its name, the operator it measures and the first line of the comment at its top."""

    name: str
    operator: str
    about: str


def described() -> list[Described]:
    found = []
    for name in names():
        lines = (folder() / (name + SUFFIX)).read_text(encoding="utf-8").splitlines()
        operator = next(line.partition(":")[2].strip() for line in lines if line.startswith("operator:"))
        found.append(Described(name, operator, lines[0].removeprefix("# ").rstrip(".")))
    return found


def _is_bare(path: Path) -> bool:
    return str(path) == path.name


def _meant(given: Path) -> str:
    from kbench.config.yaml_source import nearest

    beside = given.parent
    files = [p for p in islice(beside.iterdir(), LOOKED_AT) if p.suffix in (".yaml", ".yml")] if beside.is_dir() else []
    stems = {path.stem: str(path) for path in files} if given.suffix else {path.stem: path.stem for path in files}
    known = dict.fromkeys(names()) | stems if _is_bare(given) else stems
    near = nearest(given.stem, list(known))
    if near:
        return f'did you mean "{known[near] or near}"?'
    if given.stem in names():
        return f"a config of this name is built in: kbench run {given.stem}"
    return f"built-in configs are {', '.join(names())}"

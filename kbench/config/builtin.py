"""Finds the configs that come with kbench by name: `kbench run softmax`.

The files are in `configs/` of the repository. A wheel has a copy in the package. `kbench --help` lists the names, so this
module imports nothing heavy.
"""

from __future__ import annotations

from pathlib import Path

SUFFIX = ".yaml"


def folder() -> Path:
    """The folder of the built-in configs: in the installed package, or in the repository."""
    inside = Path(__file__).parents[1] / "configs"
    return inside if inside.is_dir() else Path(__file__).parents[2] / "configs"


def config_names() -> list[str]:
    return sorted(path.stem for path in folder().glob(f"*{SUFFIX}"))


def find_config(path: Path) -> Path:
    """The file that a command's CONFIG argument means: the file itself, or else `NAME.yaml` here, or else the built-in config.

    Raises ConfigError with a suggestion if none of them exists.
    """
    from kbench.errors import ConfigError

    if path.exists() and not path.is_dir():
        return path
    if str(path) == path.name:
        file = path.with_name(path.name + SUFFIX)
        if not path.suffix and file.is_file():
            return file
        if (name := path.name.removesuffix(SUFFIX)) in config_names():
            return folder() / (name + SUFFIX)
    if path.is_dir():
        problem = "a problem of FlashInfer-Trace or KernelBench (see docs/problems.md)"
        raise ConfigError.at(str(path), f"is a folder; name a YAML config, or {problem}")
    raise ConfigError.at(str(path), f"no such file or directory; {_suggestion(path)}")


def described() -> list[tuple[str, str, str]]:
    """The built-in configs: the name of each, its operator and the first line of its comment."""
    configs = []
    for name in config_names():
        lines = (folder() / (name + SUFFIX)).read_text(encoding="utf-8").splitlines()
        operator = next(line.partition(":")[2].strip() for line in lines if line.startswith("operator:"))
        configs.append((name, operator, lines[0].removeprefix("# ").rstrip(".")))
    return configs


def _suggestion(path: Path) -> str:
    from kbench.text.suggest import nearest

    files = [*path.parent.glob("*.yaml"), *path.parent.glob("*.yml")]
    spellings = {file.stem: str(file) if path.suffix else file.stem for file in files}
    if str(path) == path.name:
        spellings = {name: name for name in config_names()} | spellings
    near = nearest(path.stem, list(spellings))
    if near:
        return f'did you mean "{spellings[near]}"?'
    if path.stem in config_names():
        return f"a config of this name is built in; to use it, write {path.stem} without a folder"
    return f"built-in configs are {', '.join(config_names())}"

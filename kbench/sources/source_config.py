"""What a command measures: a config, or a problem in the form of one."""

from __future__ import annotations

from pathlib import Path

from kbench.config.load import Config, ConfigOptions, load_config, problem_config
from kbench.errors import UsageError
from kbench.sources import is_problem


def load_source_or_config(path: Path, options: ConfigOptions) -> Config:
    """A config, as `load_config` reads it, or that of a problem, whose plug-ins are further solutions. Raises ConfigError and
    UsageError."""
    if not is_problem(path):
        return load_config(path, options)
    if refused := [name for name, value in {"--profile": options.profile, "--shapes": options.shapes}.items() if value]:
        raise UsageError(f"{path}: {', '.join(refused)} cannot be used with a benchmark problem; leave it out")
    for solution in options.plugins:
        if not Path(solution).is_file():
            raise UsageError(f"--plugin {solution}: no such file; name a solution of the problem")
    return problem_config(path, options)

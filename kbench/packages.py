"""The packages that kbench can use but does not need, by the name that Python imports.

A package and what it is called on the package index differ: `quack` comes from `quack-kernels`, and `pip install quack`
installs another project. `pyproject.toml` declares the same packages as extras; a test holds the two together.
"""

from __future__ import annotations

from typing import NamedTuple

DISTRIBUTION = "kbench-gpu"
"""This project's own name for pip. `kbench` on the package index is another project, a Kubernetes benchmark."""


class Package(NamedTuple):
    """What `pip install` wants to hear, and the extra of this project that stands for it."""

    requirement: str
    extra: str


OPTIONAL = {
    "liger_kernel": Package("liger-kernel>=0.8", "liger"),
    "quack": Package("quack-kernels>=0.6", "quack"),
    "distributed": Package("distributed>=2024.8", "cluster"),
}


def missing(module: str) -> str:
    """The sentence on a module that cannot be imported, with the command that installs it where kbench knows it.

    `triton` has no command: pip installs it with kbench on Linux, and other systems have no wheel of it.
    """
    sentence = f"Python package {module!r} is not installed"
    package = OPTIONAL.get(module.partition(".")[0])
    return f"{sentence}; pip install '{package.requirement}'" if package else sentence

"""The optional packages of kbench, by the name that Python imports.

The name on the package index can differ from the name that Python imports: `quack` comes from `quack-kernels`, and
`pip install quack` installs another project. `pyproject.toml` declares the same packages as extras; a test compares the two.
"""

from __future__ import annotations

from typing import NamedTuple

DISTRIBUTION = "kbench-gpu"
"""The name of this project on the package index. `kbench` there is another project, a Kubernetes benchmark."""


class Package(NamedTuple):
    """The argument of `pip install`, and the extra of this project that installs the same package."""

    requirement: str
    extra: str


OPTIONAL = {
    "liger_kernel": Package("liger-kernel>=0.8", "liger"),
    "quack": Package("quack-kernels>=0.6", "quack"),
    "flashinfer": Package("flashinfer-python>=0.6", "flashinfer"),
    "distributed": Package("distributed>=2024.8", "cluster"),
}


def missing(module: str) -> str:
    """The error message for a module that cannot be imported, with the command that installs it if kbench knows one.

    `triton` has no such command: on Linux pip installs it with kbench, and other systems have no wheel.
    """
    sentence = f"Python package {module!r} is not installed"
    package = OPTIONAL.get(module.partition(".")[0])
    return f"{sentence}; pip install '{package.requirement}'" if package else sentence

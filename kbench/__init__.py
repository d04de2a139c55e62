"""kbench: which implementation of this operator is fastest here, by how much, and can I believe it?

The Python API; everything else is an implementation detail.

    Operator, operator(name)   declare an operator, or fetch one to add a provider to it
    Unsupported                raise it in a provider to decline an input
    run, load, compare, plot   what the commands of the same names do
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbench.registry import ACCELERATORS, Operator, Unsupported, operator
from kbench.version import __version__

if TYPE_CHECKING:
    from kbench.api import compare, load, plot, run

__all__ = ["ACCELERATORS", "Operator", "Unsupported", "__version__", "compare", "load", "operator", "plot", "run"]


def __getattr__(name: str) -> Any:
    """`run`, `load`, `compare` and `plot` arrive on first use: a plug-in's `import kbench` stays cheap."""
    if name in ("run", "load", "compare", "plot"):
        from kbench import api

        return getattr(api, name)
    raise AttributeError(f"module 'kbench' has no attribute {name!r}")

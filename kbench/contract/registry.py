"""Looks up the operators that exist in this process.

Files in `kbench/operators/`, plug-in files and installed packages declare operators and providers (see kbench/contract/). This
module imports neither torch nor triton, so that `kbench.operator` stays cheap.
"""

from __future__ import annotations

from kbench.contract.operator import Operator, registered
from kbench.contract.origin import import_shipped, shipped
from kbench.text.suggest import unknown


def operator(name: str) -> Operator:
    """The operator of this name. Imports it if it is one of kbench's. Raises LookupError for an unknown name."""
    if name not in registered and name in shipped():
        import_shipped(name)
    if name not in registered:
        raise LookupError(unknown("operator", name, operator_names()))
    return registered[name]


def operator_names() -> list[str]:
    """Names of all operators: kbench's own and those that plug-ins have registered."""
    return sorted({*shipped(), *registered})

"""Kernels of torch's own operators that Python code has replaced with torch.library.

Such a kernel runs wherever the operator is called: in the reference, in the baseline and in all other providers.
"""

from __future__ import annotations

import weakref
from functools import lru_cache

import torch.library


def present_overrides() -> frozenset[str]:
    """The replaced kernels: `aten/_softmax/CPU`. Those for tensors without memory (`Meta`) compute nothing and are left out."""
    return _overrides(len(torch.library._impls))


@lru_cache(maxsize=1)
def _overrides(count: int) -> frozenset[str]:
    """Those among the `count` kernels that are registered. To read the names takes too long for every look: torch itself
    registers thousands."""
    return frozenset(name for name in torch.library._impls if name.startswith("aten/") and not name.endswith("/Meta"))


def remove_overrides(kept: frozenset[str]) -> None:
    """Remove the kernels that are not among `kept`, together with the others of the same `torch.library.Library`."""
    added = present_overrides() - kept
    for finalizer, info in list(weakref.finalize._registry.items()):  # type: ignore[attr-defined]
        if info.func is torch.library._del_library and added.intersection(info.args[1]):
            finalizer()

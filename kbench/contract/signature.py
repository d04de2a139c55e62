"""The arguments of a function that get their values by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def keyword_only(function: Callable[..., Any]) -> dict[str, Any]:
    """The keyword-only arguments of a function with their defaults. `inspect.Parameter.empty` stands for none."""
    return {p.name: p.default for p in _parameters(function) if p.kind is p.KEYWORD_ONLY}


def takes_any(function: Callable[..., Any]) -> bool:
    """Whether a function takes any keyword argument."""
    return any(p.kind is p.VAR_KEYWORD for p in _parameters(function))


def named_after(count: int, function: Callable[..., Any]) -> frozenset[str]:
    """The arguments of a function that can be given by name after `count` arguments that are given by position."""
    parameters = _parameters(function)
    ordered = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    later = {p.name for p in ordered[count:] if p.kind is p.POSITIONAL_OR_KEYWORD}
    return frozenset(later | {p.name for p in parameters if p.kind is p.KEYWORD_ONLY})


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except ValueError:  # written in C, without a signature, as torch.sigmoid is
        return []

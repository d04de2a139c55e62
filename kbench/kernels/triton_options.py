"""The options with which Triton compiles a kernel, as parameters that a config can sweep."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from torch import Tensor

OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion")


_Returned = TypeVar("_Returned")


def launch_options(function: Callable[..., _Returned]) -> Callable[..., _Returned]:
    """Decorates a provider: adds Triton's launch options to its keyword-only parameters, with None for Triton's default.

    The function takes those that are set as a dictionary, `options`. An option that is a parameter of the function itself
    stays its own.
    """
    own = {name: p for name, p in inspect.signature(function).parameters.items() if name != "options"}
    added = [name for name in OPTIONS if name not in own]

    @functools.wraps(function)
    def provider(*inputs: Tensor, **parameters: Any) -> _Returned:
        if not parameters:  # the usual call: its overhead would be part of launch_ms
            return function(*inputs, options={})
        options = {name: parameters.pop(name, None) for name in added}
        given = {name: value for name, value in options.items() if value is not None}
        return function(*inputs, options=given, **parameters)

    option = {name: inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in OPTIONS} | own
    listed = [*(p for name, p in own.items() if name not in OPTIONS), *(option[name] for name in OPTIONS)]
    provider.__signature__ = inspect.Signature(listed)  # type: ignore[attr-defined]
    return provider


AnyLaunch = TypeVar("AnyLaunch")


def override(launch: AnyLaunch, options: Mapping[str, Any]) -> AnyLaunch:
    """The same launch, a named tuple with a field `options`, with these options over its own."""
    fields: Any = launch
    changed: AnyLaunch = fields._replace(options={**fields.options, **options})
    return changed

"""Whether the functions of a provider take the arguments that kbench gives them. The reason of a row says so if not."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench.contract.operator import registered
from kbench.contract.provider import Provider, keyword_only
from kbench.results.case import FORWARD, FULL, Case, Value
from kbench.text.exception_text import written_at


def refused_arguments(provider: Provider, case: Case, params: Mapping[str, Value]) -> str | None:
    """Why a function of the provider does not take its arguments, where the function is, and what to do; None if all take
    them."""
    for function, by_position, by_name in _calls(provider, case, params):
        try:
            signature = inspect.signature(function, follow_wrapped=False)
        except (TypeError, ValueError):  # written in C
            continue
        try:
            signature.bind(*by_position, **dict.fromkeys(by_name))
        except TypeError as error:
            function_name = getattr(function, "__name__", provider.name)
            lacking = [name for name in provider.parameters if name in keyword_only(function) and name not in by_name]
            needed = [name for name in lacking if keyword_only(function)[name] is inspect.Parameter.empty]
            call = f"{function_name}({', '.join([*by_position, *(f'{name}=...' for name in by_name)])})"
            advice = f"give {needed[0]} a default, or values in the config" if needed else f"kbench calls it as {call}"
            return f"{function_name}: {error} at {Path(written_at(function)).name}; {advice}"
    return None


def _calls(
    provider: Provider, case: Case, params: Mapping[str, Value]
) -> Iterator[tuple[Callable[..., Any], Sequence[str], Sequence[str]]]:
    """The functions that kbench calls in a case, with the arguments that each gets by position and by name."""
    operator = registered[provider.operator]
    inputs, scalars = list(operator.inputs), provider.from_case
    if not inputs:  # a line of a script, which gives it its arguments
        return
    parameters = [name for name in params if name in keyword_only(provider.function)]
    if provider.factory:
        yield provider.function, ["case"], [*scalars, *parameters]
    else:
        yield provider.function, inputs, [*scalars, *parameters, *provider.out]
    if case.mode == FORWARD:
        return
    gradients = [f"d_{name}" for name in operator.output_gradients(case)]
    values = {**case.axes, **params}
    if provider.full and case.mode == FULL:
        keywords = [name for name in provider.full.keywords if name in values]
        yield provider.full.function, [*gradients, *inputs], keywords
    elif provider.backward:
        saves = provider.backward.saves
        keywords = [name for name in provider.backward.keywords if name in values]
        yield provider.backward.function, [*gradients, *inputs, *(["saved"] if saves else [])], keywords

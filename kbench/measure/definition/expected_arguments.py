"""How kbench calls the functions of a provider. The reason of a row says so if a function does not take these arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from kbench.contract.operator import Operator, registered
from kbench.contract.provider import Provider, keyword_only
from kbench.results.case import FLOATING
from kbench.text.exception_text import location, text_of, written_at


@dataclass(frozen=True)
class RefusedCall:
    """A call that a function of a provider did not take. `where` is the file:line of the function, `advice` what to do."""

    where: str
    advice: str


def refused_call(provider: Provider, given: Collection[str], error: BaseException) -> RefusedCall | None:
    """What to say of an error if a function of the provider did not take kbench's arguments; None if the error is another one.
    `given` are the parameters that have values in the config."""
    operator = registered.get(provider.operator)
    if operator is None or not isinstance(error, TypeError) or location(error, ""):
        return None  # the function ran
    said = text_of(error)
    name = said.partition("(")[0]
    calls = [call for call in _calls(operator, provider, given) if getattr(call[0], "__qualname__", "") == name]
    if len(calls) != 1:
        return None
    [(function, by_position, by_name)] = calls
    lacking = re.search(r"required keyword-only argument: '(\w+)'", said)
    if lacking and lacking[1] in provider.parameters:
        advice = f"give {lacking[1]} a default, or values in the config"
    else:
        arguments = ", ".join([*by_position, *(f"{each}=..." for each in by_name)])
        advice = f"kbench calls it as {name}({arguments})"
    return RefusedCall(written_at(function), advice)


def _calls(
    operator: Operator, provider: Provider, given: Collection[str]
) -> Iterator[tuple[Callable[..., Any], list[str], list[str]]]:
    """Each function of a provider with the arguments that it gets by position and by name."""
    inputs = list(operator.inputs)
    gradients = [
        f"d_{name}"
        for name, tensor in operator.outputs.items()
        if any(dtype in FLOATING for dtype in operator.dtypes_of(tensor))
    ]
    if provider.factory:
        yield provider.function, ["case"], _named(provider, provider.function, given)
    else:
        yield provider.function, inputs, [*_named(provider, provider.function, given), *provider.out]
    if provider.backward:
        saves = provider.backward.saves
        saved = [] if saves is None else ["saved"]
        yield (
            provider.backward.function,
            [*gradients, *inputs, *saved],
            _given(provider.backward.keywords, provider, given),
        )
        if callable(saves):
            yield saves, inputs, _named(provider, saves, given)
    if provider.full:
        yield provider.full.function, [*gradients, *inputs], _given(provider.full.keywords, provider, given)


def _named(provider: Provider, function: Callable[..., Any], given: Collection[str]) -> list[str]:
    """The scalars, the choices and the parameters that a function gets by name."""
    own = _given(keyword_only(function), provider, given)
    return list(dict.fromkeys([*provider.from_case, *own]))


def _given(keywords: Collection[str], provider: Provider, given: Collection[str]) -> list[str]:
    """Those of a function's keyword arguments that have a value."""
    return [
        name for name in keywords if name in given or (name not in provider.parameters and name not in provider.out)
    ]

"""What runs along x: the axis or scalar with the most values, or a swept parameter where there are many curves."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pandas as pd

from kbench.errors import UsageError
from kbench.plotting.points import ABSENT, MARKED, VALUE
from kbench.results.case import configuration_name, format_params
from kbench.results.vocabulary import Role

MANY_CURVES = 8
"""With more curves a swept parameter runs along x. There are as many colours."""

MOST_SIZES_NAMED = 12
"""A caption that names the models of more sizes than this would be longer than the picture is high."""


def along(
    drawn: pd.DataFrame, axes: Sequence[str], chosen: str | None, *, parameters: bool = True
) -> tuple[pd.DataFrame, str]:
    """`drawn` with a column `x`, and the name of the axis or, with `parameters`, the parameter that x is.

    `chosen` is the user's choice, otherwise it is the axis that `most_values` names. A swept parameter takes its place where
    there are MANY_CURVES and it has at least as many values. A curve that does not have the parameter has NaN for x and is
    drawn as a level. Its rows without a value become ABSENT: there is no place for their marks. The name is "" where there is
    no number to draw against. Raises UsageError where `chosen` cannot run along x.
    """
    values = drawn[drawn["kind"] == VALUE]
    sizes = {axis: int(values[axis].nunique()) for axis in numeric(drawn, axes)}
    numbers = _parameter_numbers(drawn) if parameters else {}
    counts = {name: int(column.nunique()) for name, column in numbers.items()}
    if chosen is not None and chosen not in (*sizes, *counts):
        raise no_such_x(chosen, axes, [*sizes, *counts])
    name = chosen or most_values(drawn, sizes)
    many = values.loc[values["role"] == Role.PROVIDER, "curve"].nunique() > MANY_CURVES
    if not chosen and many and counts:
        parameter = max(counts, key=lambda name: counts[name])
        name = parameter if counts[parameter] >= max(2, sizes.get(name, 0)) else name
    if name not in numbers:
        return drawn.assign(x=drawn[name].astype("float64") if name else math.nan), name
    x = numbers[name]
    parsed = drawn["params"].map(_parameters_of)
    swept = [
        curve if math.isnan(number) else configuration_name(provider, format_params({**params, name: "*"}))
        for curve, provider, params, number in zip(drawn["curve"], drawn["provider"], parsed, x, strict=True)
    ]
    placeless = x.isna() & drawn["kind"].isin(MARKED)
    curves = pd.Series(swept, drawn.index, dtype="str")
    return drawn.assign(x=x, curve=curves, kind=drawn["kind"].mask(placeless, ABSENT)), name


def numeric(rows: pd.DataFrame, axes: Sequence[str]) -> list[str]:
    """The axes and scalars that hold numbers, not words or booleans."""
    return [
        axis
        for axis in axes
        if pd.api.types.is_numeric_dtype(rows[axis]) and not pd.api.types.is_bool_dtype(rows[axis])
    ]


def most_values(rows: pd.DataFrame, counts: Mapping[str, int]) -> str:
    """The name with the highest count, of equals the last; "" if there is none. Names of whole numbers that vary come before
    others: they are sizes."""
    names = list(counts)

    def rank(name: str) -> tuple[bool, bool, int, int]:
        whole = pd.api.types.is_integer_dtype(rows[name])
        return counts[name] > 1, whole, counts[name], names.index(name)

    return max(names, key=rank, default="")


def no_such_x(chosen: str, axes: Collection[str], possible: Sequence[str]) -> UsageError:
    """The error for an axis that cannot run along x: it is none of `axes`, or holds no numbers."""
    problem = f"{chosen!r} holds no numbers" if chosen in axes else f"unknown axis {chosen!r}"
    advice = f"choose from {', '.join(possible)}" if possible else "no axis holds numbers"
    return UsageError(f"--x: {problem}; {advice}")


def companions(drawn: pd.DataFrame, axes: Sequence[str], x: str) -> dict[str, str]:
    """Axes that vary one to one with x, and a sentence about each.

    They appear where a sweep lists pairs, for instance of sizes whose product is constant. They make no panels.
    """
    sentences = {}
    for axis in axes if x in axes else ():
        if axis == x:
            continue
        pairs = drawn[[x, axis]].drop_duplicates()
        if len(pairs) > 2 and pairs[x].is_unique and pairs[axis].is_unique:
            first, last = (pairs.sort_values(x).iloc[end] for end in (0, -1))
            sentences[axis] = (
                f"{axis} varies with {x}: {axis}={first[axis]} at {x}={first[x]}, {axis}={last[axis]} at {x}={last[x]}"
            )
    return sentences


def models_along(drawn: pd.DataFrame, x: str) -> str:
    """The models that each size along x belongs to: `N=3584: gemma-2-9b; N=4096: llama-3-8b, qwen3-8b`. "" if the sizes do not
    tell models apart, as numbers of tokens do not."""
    if x not in drawn:
        return ""
    models: dict[Any, dict[str, None]] = {}
    pairs = drawn.loc[drawn["model"] != "", [x, "model"]].drop_duplicates().sort_values(x)
    for size, cell in pairs.itertuples(index=False):
        models.setdefault(size, {}).update(dict.fromkeys(cell.split(", ")))
    most = max(Counter(name for names in models.values() for name in names).values(), default=0)
    if not 1 < len(models) <= MOST_SIZES_NAMED or most > len(models) / 2:
        return ""
    return "; ".join(f"{x}={size}: {', '.join(names)}" for size, names in models.items())


def _parameter_numbers(rows: pd.DataFrame) -> dict[str, pd.Series[float]]:
    """The values of every parameter that some row sets to a number, NaN in the other rows."""
    parsed = [_parameters_of(text) for text in rows["params"]]
    names = sorted({name for params in parsed for name in params})
    texts = pd.DataFrame({name: [params.get(name) for params in parsed] for name in names}, rows.index, dtype=object)
    numbers = {name: pd.to_numeric(texts[name], errors="coerce") for name in names}
    return {name: column for name, column in numbers.items() if column.notna().any()}


def _parameters_of(text: str) -> dict[str, str]:
    """The parameters in a `params` cell of a results file, such as `num_warps=4,num_stages=1`."""
    return {name: value for name, _, value in (item.partition("=") for item in text.split(",")) if name}

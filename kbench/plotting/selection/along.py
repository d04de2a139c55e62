"""What runs along x: the axis or scalar with the most values, or a swept parameter where there are many curves."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from kbench.errors import UsageError
from kbench.plotting.selection.points import ABSENT, MARKED, VALUE
from kbench.results.case import configuration_name, format_params
from kbench.results.vocabulary import Role

MOST_SIZES_NAMED = 12
"""A caption that names the models of more sizes than this would be longer than the picture is high."""


@dataclass(frozen=True)
class XCandidates:
    """What can run along x.

    axes        axes and scalars that hold numbers, and how many numbers of each have a value
    parameters  parameters that are numbers, and how many numbers each was set to
    usual       the one to draw against unless the user names another; "" where there is none
    """

    axes: dict[str, int]
    parameters: dict[str, int]
    usual: str


def x_candidates(
    drawn: pd.DataFrame, axes: Sequence[str], numbers: dict[str, pd.Series[float]], colours: int
) -> XCandidates:
    """What can run along x for these points. `numbers` are the values of parameters, as `parameter_numbers` returns them.

    The usual one is the one that `most_values` names. A parameter takes its place where there are more curves than `colours`
    and the parameter has at least as many values as the axis.
    """
    values = drawn[drawn["kind"] == VALUE]
    sizes = {axis: int(values[axis].nunique()) for axis in numeric(drawn, axes)}
    swept = {name: count for name, column in numbers.items() if (count := int(column.loc[drawn.index].nunique()))}
    usual = most_values(drawn, sizes)
    if swept and values.loc[values["role"] == Role.PROVIDER, "curve"].nunique() > colours:
        parameter = max(swept, key=lambda name: swept[name])
        usual = parameter if swept[parameter] >= max(2, sizes.get(usual, 0)) else usual
    return XCandidates(sizes, swept, usual)


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


def along(
    drawn: pd.DataFrame, axes: Sequence[str], wanted: str | None, colours: int, *, parameters: bool = True
) -> tuple[pd.DataFrame, str]:
    """`drawn` with a column `x`, and the name of the axis or, with `parameters`, the parameter that x is.

    `wanted` is the user's choice; `x_candidates` chooses otherwise. A curve that does not have the parameter has NaN for x
    and is drawn as a level. Its rows without a value become ABSENT: there is no place for their marks. The name is ""
    where there is no number to draw against. Raises UsageError where `wanted` cannot run along x.
    """
    numbers = parameter_numbers(drawn) if parameters else {}
    found = x_candidates(drawn, axes, numbers, colours)
    if wanted is not None and wanted not in (*found.axes, *found.parameters):
        raise no_such_x(wanted, axes, [*found.axes, *found.parameters])
    name = wanted or found.usual
    if name not in numbers:
        x = drawn[name].astype("float64") if name else math.nan
        by_axis: pd.DataFrame = drawn.assign(x=x)
        return by_axis, name
    curves = [
        curve if math.isnan(number) else curve_along(provider, text, name)
        for curve, provider, text, number in zip(
            drawn["curve"], drawn["provider"], drawn["params"], numbers[name], strict=True
        )
    ]
    placeless = numbers[name].isna() & drawn["kind"].isin(MARKED)
    by_parameter: pd.DataFrame = drawn.assign(
        x=numbers[name],
        curve=pd.Series(curves, drawn.index, dtype="str"),
        kind=drawn["kind"].mask(placeless, ABSENT),
    )
    return by_parameter, name


def no_such_x(wanted: str, axes: Collection[str], known: Sequence[str]) -> UsageError:
    """The error for an axis that cannot run along x: it is none of `axes`, or holds no numbers. `known` can run along x."""
    what = f"{wanted!r} holds no numbers" if wanted in axes else f"unknown axis {wanted!r}"
    advice = f"choose from {', '.join(known)}" if known else "no axis holds numbers"
    return UsageError(f"--x: {what}; {advice}")


def parameter_numbers(rows: pd.DataFrame) -> dict[str, pd.Series[float]]:
    """The values of every parameter by name, NaN in rows that do not set it to a number."""
    parsed = [parameters_of(text) for text in rows["params"]]
    return {
        name: pd.Series([number_of(row.get(name, "")) for row in parsed], rows.index, "float64")
        for name in sorted({name for row in parsed for name in row})
    }


def curve_along(provider: str, params: str, name: str) -> str:
    """The name of a curve whose parameter `name` runs along x: `triton-row[num_warps=*]`."""
    known = parameters_of(params)
    if math.isnan(number_of(known.get(name, ""))):
        return configuration_name(provider, params)
    return configuration_name(provider, format_params({**known, name: "*"}))


def companions(drawn: pd.DataFrame, axes: Sequence[str], x: str) -> dict[str, str]:
    """Axes that vary one to one with x, and a sentence about each.

    They appear where a sweep lists pairs, for instance of sizes whose product is constant. They make no panels.
    """
    found = {}
    for axis in axes if x in axes else ():
        if axis == x:
            continue
        pairs = drawn[[x, axis]].drop_duplicates()
        if len(pairs) > 2 and pairs[x].is_unique and pairs[axis].is_unique:
            first, last = (pairs.sort_values(x).iloc[end] for end in (0, -1))
            found[axis] = (
                f"{axis} varies with {x}: {axis}={first[axis]} at {x}={first[x]}, {axis}={last[axis]} at {x}={last[x]}"
            )
    return found


def models_along(drawn: pd.DataFrame, x: str) -> str:
    """The models that each size along x belongs to: `N=3584: gemma-2-9b; N=4096: llama-3-8b, qwen3-8b`. "" if the sizes do not
    tell models apart, as numbers of tokens do not."""
    if x not in drawn:
        return ""
    models: dict[Any, dict[str, None]] = {}
    for size, cell in (
        drawn.loc[drawn["model"] != "", [x, "model"]].drop_duplicates().sort_values(x).itertuples(index=False)
    ):
        models.setdefault(size, {}).update(dict.fromkeys(cell.split(", ")))
    most = max(Counter(name for names in models.values() for name in names).values(), default=0)
    if not 1 < len(models) <= MOST_SIZES_NAMED or most > len(models) / 2:
        return ""
    return "; ".join(f"{x}={size}: {', '.join(names)}" for size, names in models.items())


def parameters_of(text: str) -> dict[str, str]:
    """The parameters in a `params` cell of a results file, such as `num_warps=4,num_stages=1`."""
    return {name: value for name, _, value in (item.partition("=") for item in text.split(",")) if name}


def number_of(text: str) -> float:
    """The number that a text says, NaN where it says none."""
    try:
        return float(text)
    except ValueError:
        return math.nan

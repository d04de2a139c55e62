"""Columns of a table as JSON can hold them. The page's scripts decode them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import pandas as pd

Json = dict[str, Any]


def word_column(name: str, values: Iterable[Any], label: str = "") -> Json:
    """A column of words, sizes or scalars that occur many times: the distinct words, and for each row the place of its word.

    A missing value is None. The default label is the name with blanks for underscores.
    """
    places: dict[Any, int] = {}
    codes = [places.setdefault(value if type(value) is str else _plain(value), len(places)) for value in values]
    numbers = all(isinstance(word, (int, float)) or word is None for word in places)
    return {
        "name": name,
        "label": label or name.replace("_", " "),
        "format": "size" if numbers and any(word is not None for word in places) else "text",
        "words": list(places),
        "codes": codes,
    }


def number_column(name: str, values: Iterable[Any], label: str, shown_as: str) -> Json:
    """A column of numbers. `shown_as` names the format in which the page writes them."""
    return {"name": name, "label": label, "format": shown_as, "values": [six_digits(value) for value in values]}


def six_digits(value: Any) -> float | None:
    """A number rounded to six significant digits, more than any clock has. None where it is missing or not finite."""
    return float(f"{value:.6g}") if value is not None and math.isfinite(value) else None


def _plain(value: Any) -> Any:
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, (str, float)):
        return value
    return str(value) if pd.api.types.is_bool(value) else int(value)

"""How pictures write names and values: sorted, shortened, as titles and as parts of file names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from kbench.results.case import natural_key

LONGEST_SHOWN_NAME = 40
"""Pictures shorten the names of providers to this many characters."""

BARE_COLUMNS = ("operator", "provider", "dtype", "device", "timer", "cache", "file")
"""Titles show the values of these columns without the column's name."""


def natural(names: Iterable[Any]) -> list[str]:
    """Sorted with numbers by size: num_warps=4 before num_warps=16."""
    return sorted(map(str, names), key=natural_key)


def shorten(names: Iterable[str]) -> dict[str, str]:
    """What to print for each name. A long name loses its middle, unless two names would then read alike."""
    whole = list(names)
    half = (LONGEST_SHOWN_NAME - 1) // 2
    shortened = {name: name if len(name) <= LONGEST_SHOWN_NAME else f"{name[:half]}…{name[-half:]}" for name in whole}
    short_names = list(shortened.values())
    return {name: short if short_names.count(short) == 1 else name for name, short in shortened.items()}


def four_digits(value: float) -> str:
    """Four significant digits. Numbers above 9999 have all their whole digits and no exponent."""
    return f"{value:.4g}" if value < 9999.5 else f"{value:.0f}"


def size_text(value: float) -> str:
    """A whole number with all its digits, another number in short: `4096`, `1e-06`."""
    return f"{value:.0f}" if float(value).is_integer() else f"{value:g}"


def title_of(values: Mapping[str, Any]) -> str:
    """`softmax · float32 · M=4096`: values of BARE_COLUMNS without the column's name, missing values left out."""
    present = {name: value for name, value in values.items() if value != ""}
    return " · ".join(str(value) if name in BARE_COLUMNS else f"{name}={value}" for name, value in present.items())


def combination_of(fixed: Mapping[str, Any]) -> str:
    """`{"dtype": "float16", "M": 64, "eps": ""}` as a part of a file name: `float16-M64-no-eps`."""
    parts = [
        f"no-{name}" if value == "" else value if isinstance(value, str) else f"{name}{value}"
        for name, value in fixed.items()
    ]
    return file_name_part("-".join(parts))


def file_name_part(text: str) -> str:
    """The text with a dash for every run of characters that do not belong in a file name."""
    return re.sub(r"[^\w.+-]+", "-", text)

"""Rows for the page: all of all files as columns that JSON can hold, and as the `Row` that kbench's own words are for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from kbench.analysis.files import Source
from kbench.plotting.selection.points import axis_names, configuration
from kbench.results.row import curve_name

Json = dict[str, Any]

MEASURED = {
    "ms": ("time (µs)", "us"),
    "ms_p20": ("p20 (µs)", "us"),
    "ms_p80": ("p80 (µs)", "us"),
    "gbps": ("GB/s", "gbps"),
    "gbps_p20": ("p20 GB/s", "gbps"),
    "gbps_p80": ("p80 GB/s", "gbps"),
    "copy_fraction": ("of copy", "share"),
    "speedup": ("speed-up", "factor"),
    "max_ulp": ("max ulp", "ulp"),
    "launch_ms": ("launch (µs)", "us"),
    "build_ms": ("build (ms)", "whole"),
    "sm_mhz": ("SM MHz", "whole"),
    "power_w": ("power (W)", "whole"),
    "temp_c": ("temp (°C)", "whole"),
    "ceiling_gbps": ("large copy GB/s", "gbps"),
}
"""Columns of numbers: how the page calls them, and how it writes their values."""

WORDS = ("timer", "cache", "device", "throttle", "reason")


def columns(sources: Sequence[Source]) -> Json:
    """All rows of all files: `columns`, and which of them no line may join (`configuration`) and which are `axes`."""
    joined = pd.concat([source.frame.assign(file=source.label) for source in sources], ignore_index=True)
    curves = map(curve_name, joined["provider"], joined["params"])
    joined = joined.assign(curve=pd.Series(list(curves), joined.index, dtype="object"))
    names = axis_names(sources)
    identity = {"file": "file", "operator": "operator", "curve": "provider", **{name: name for name in names}}
    identity |= {"dtype": "dtype", "session": "session", "role": "role", "status": "status", "flags": "flags"}
    return {
        "count": len(joined),
        "axes": names,
        "numeric": [name for name in names if pd.api.types.is_integer_dtype(joined[name])],
        "configuration": configuration(joined, sources),
        "columns": [
            *(words(name, joined[name], label) for name, label in identity.items()),
            *(numbers(name, joined[name], *shown) for name, shown in MEASURED.items()),
            *(words(name, joined[name]) for name in (*WORDS, "provider", "params")),
        ],
    }


def words(name: str, values: Iterable[Any], label: str = "") -> Json:
    """A column of few words or sizes, many times each: the words, and for every row the place of its word."""
    places: dict[Any, int] = {}
    codes = [places.setdefault(_plain(value), len(places)) for value in values]
    sizes = all(isinstance(word, int) or word is None for word in places)
    return {
        "name": name,
        "label": label or name.replace("_", " "),
        "format": "size" if sizes and any(word is not None for word in places) else "text",
        "words": list(places),
        "codes": codes,
    }


def numbers(name: str, values: Iterable[Any], label: str, shown_as: str) -> Json:
    return {"name": name, "label": label, "format": shown_as, "values": [finite(value) for value in values]}


def finite(value: Any) -> float | None:
    """A number in six significant digits, more than any clock has; None for what is not known or not finite."""
    return float(f"{value:.6g}") if value is not None and math.isfinite(value) else None


def _plain(value: Any) -> Any:
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return None
    return value if isinstance(value, str) else int(value)

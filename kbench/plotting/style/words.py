"""Words in pictures: names in their order and cut to a length, what a panel shows, what a file is called."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

LONGEST = 40
"""Characters of a provider's name that a picture shows."""

PLAIN = ("operator", "provider", "dtype", "device", "timer", "cache", "file")
"""Columns whose values speak for themselves."""


def natural(names: Iterable[Any]) -> list[str]:
    """Sorted with numbers by size: num_warps=4 before num_warps=16."""
    return sorted(map(str, names), key=natural_key)


def natural_key(name: Any) -> list[tuple[bool, int, str]]:
    """What `natural` sorts by. A number by its digits and not by int(), which refuses thousands of them: the longer one is
    the larger."""
    parts = re.split(r"([0-9]+)", str(name))
    digits = [part.lstrip("0") if part.isdecimal() and part.isascii() else None for part in parts]
    return [(d is None, len(d or ""), part if d is None else d) for part, d in zip(parts, digits, strict=True)]


def alone(curves: Iterable[str]) -> tuple[dict[str, str], str]:
    """Names without what they all begin with, and what that was: where there are several curves with parameters, all of one
    provider, their parameters alone. The names of other curves are not in it."""
    swept = [curve for curve in curves if curve.endswith("]") and "[" in curve]
    providers = {curve.partition("[")[0] for curve in swept}
    if len(set(swept)) < 3 or len(providers) > 1:
        return {}, ""
    return {curve: curve.partition("[")[2][:-1].replace(",", ", ") for curve in swept}, providers.pop()


def shorten(names: Iterable[str]) -> dict[str, str]:
    """What to print for each name: long ones lose their middle, unless two would then read alike."""
    whole = list(names)
    half = (LONGEST - 1) // 2
    cut = {name: name if len(name) <= LONGEST else f"{name[:half]}…{name[-half:]}" for name in whole}
    taken = list(cut.values())
    return {name: short if taken.count(short) == 1 else name for name, short in cut.items()}


def figures(value: float) -> str:
    """Four significant digits, and never an exponent where whole digits do."""
    return f"{value:.4g}" if value < 9999.5 else f"{value:.0f}"


def describe(values: Mapping[str, Any]) -> str:
    """`softmax · float32 · M=4096`: names only where the value does not speak for itself."""
    known = {name: value for name, value in values.items() if str(value) not in ("", "<NA>")}
    return " · ".join(str(value) if name in PLAIN else f"{name}={value}" for name, value in known.items())


def spell(fixed: Mapping[str, Any]) -> str:
    """`{"dtype": "float16", "M": 64}` in a file name: `float16-M64`."""
    return plain("-".join(str(v) if isinstance(v, str) else f"{name}{v}" for name, v in fixed.items()))


def plain(text: str) -> str:
    """Text as a part of a file name."""
    return re.sub(r"[^\w.+-]+", "-", text)


def wrap(text: str, width: int) -> str:
    """Each line of the text broken to so many characters, what follows indented."""
    wrapper = textwrap.TextWrapper(width, subsequent_indent="    ", break_on_hyphens=False)
    return "\n".join(wrapper.fill(line) for line in text.split("\n"))

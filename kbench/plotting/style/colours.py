"""Which colour a provider has: the same in every picture and in the report, and its own among those beside it."""

from __future__ import annotations

import zlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from kbench.plotting.style.theme import LIGHT, LINES, MARKERS, Theme
from kbench.plotting.style.words import natural

KNOWN = {
    "cuda": 0, "triton": 1, "torch-compile": 2, "quack": 3, "triton-row": 4, "torch-jit": 5, "torch-native": 6, "liger": 7,
    "cuda-naive": 7, "cuda-online": 1, "cuda-shared": 2, "cuda-shuffle": 3, "triton-persistent": 5, "torch-eager": 4,
}  # fmt: skip
"""Colours of the providers that kbench comes with, as places in `Theme.colours`: the first eight have one each."""


@dataclass(frozen=True)
class Style:
    colour: str
    marker: str
    line: Any


def slots(curves: Collection[str]) -> dict[str, tuple[int, int]]:
    """For each curve the place of its colour in `Theme.colours`, and in which round of all colours it is.

    A provider has the same colour in every picture: KNOWN says which, and for others their name does. In one picture all
    colours differ as long as there are enough of them: the providers of KNOWN choose first, in its order, then the
    others by name, and who finds a colour taken gets the next one that is free.
    """
    count = len(LIGHT.colours)
    order = {provider: place for place, provider in enumerate(KNOWN)}
    taken: dict[str, tuple[int, int]] = {}
    for curve in sorted(natural(curves), key=lambda curve: order.get(provider_of(curve), len(order))):
        wanted = place_of(provider_of(curve))
        turn = len(taken) // count
        free = set(range(count)) - {place for place, round in taken.values() if round == turn}
        taken[curve] = min(free, key=lambda place: (place - wanted) % count), turn
    return taken


def place_of(provider: str) -> int:
    """The place of a provider's colour in `Theme.colours`."""
    return KNOWN.get(provider, zlib.crc32(provider.encode("utf-8", "replace")) % len(LIGHT.colours))


def provider_of(curve: str) -> str:
    """`triton-row` of `triton-row[num_warps=4]`."""
    return curve.partition("[")[0]


def style(slot: tuple[int, int], theme: Theme) -> Style:
    """Eight curves have a colour and marker of their own; each further eight the next line style, with the markers
    shifted so that the same colour never meets the same marker soon."""
    place, turn = slot
    return Style(theme.colours[place], MARKERS[(place + 3 * turn) % len(MARKERS)], LINES[turn % len(LINES)])


def styles(curves: Collection[str], theme: Theme) -> dict[str, Style]:
    """A style per curve."""
    return {curve: style(slot, theme) for curve, slot in slots(curves).items()}

"""The colour of each provider: the same one in every picture and in the report, and different from those beside it."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from kbench.plotting.style.formatting import natural
from kbench.plotting.style.theme import LIGHT, LINES, MARKERS, Theme

KNOWN = {
    "cuda": 0, "triton": 1, "torch-compile": 2, "quack": 3, "triton-row": 4, "torch-jit": 5, "torch-native": 6, "liger": 7,
    "cuda-naive": 7, "cuda-online": 1, "cuda-shared": 2, "cuda-shuffle": 3, "triton-persistent": 5, "torch-eager": 4,
}  # fmt: skip
"""Places in `Theme.colours` of the providers that come with kbench. The first eight have a colour each."""


@dataclass(frozen=True)
class Style:
    """How the line of one curve looks. `marker` and `line` are matplotlib's names; the colour is #RRGGBB."""

    colour: str
    marker: str
    line: Any


def slots(curves: Collection[str]) -> dict[str, tuple[int, int]]:
    """For each curve the place of its colour in `Theme.colours`, and its turn: 0 for the first eight curves, then 1, ...

    A provider wants the same colour in every picture: KNOWN says which one, for other providers a hash of the name
    does. Within a turn all colours differ. The first configuration of each provider chooses before the second of any. Of
    these the providers of KNOWN choose first, in its order, the others follow by name. A curve whose colour is taken gets
    the next free one.
    """
    count = len(LIGHT.colours)
    order = {provider: place for place, provider in enumerate(KNOWN)}
    seen: Counter[str] = Counter()
    waiting = []
    for curve in natural(curves):
        provider = provider_of(curve)
        waiting.append((seen[provider], order.get(provider, len(order)), curve))
        seen[provider] += 1
    taken: dict[str, tuple[int, int]] = {}
    for _, _, curve in sorted(waiting, key=lambda each: each[:2]):
        wanted = colour_place(provider_of(curve))
        turn = len(taken) // count
        free = set(range(count)) - {place for place, round in taken.values() if round == turn}
        taken[curve] = min(free, key=lambda place: (place - wanted) % count), turn
    return taken


def colour_place(provider: str) -> int:
    """The place of the colour that a provider wants in `Theme.colours`."""
    return KNOWN.get(provider, zlib.crc32(provider.encode("utf-8", "replace")) % len(LIGHT.colours))


def provider_of(curve: str) -> str:
    """`triton-row` of `triton-row[num_warps=4]`."""
    return curve.partition("[")[0]


def style(slot: tuple[int, int], theme: Theme) -> Style:
    """The style for a slot.

    Each turn has the next line style. It also shifts the markers, so that the same colour does not soon meet the same
    marker again.
    """
    place, turn = slot
    return Style(theme.colours[place], MARKERS[(place + 3 * turn) % len(MARKERS)], LINES[turn % len(LINES)])


def styles(curves: Collection[str], theme: Theme) -> dict[str, Style]:
    """A style per curve."""
    return {curve: style(slot, theme) for curve, slot in slots(curves).items()}

"""Colours that everyone can tell apart, on light and on dark."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pytest

from kbench.plotting.style import DARK, LIGHT, Theme, styles

# Machado, Oliveira and Fernandes (2009), severity 1.0: what deuteranopes and protanopes see of linear RGB
DEUTAN = ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881))
PROTAN = ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998))
NORMAL = ((1, 0, 0), (0, 1, 0), (0, 0, 1))

both = pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)


@both
def test_no_two_curves_look_alike(theme: Theme) -> None:
    names = [str(i) for i in range(40)]
    assert len(set(styles(names, theme).values())) == len(names)


def test_a_provider_has_one_colour_in_all_pictures_and_its_own_beside_others() -> None:
    few = styles(["cuda", "torch-native"], LIGHT)
    many = styles(["liger", "cuda", "quack", "torch-native", "my-kernel", "triton-row[num_warps=4]"], LIGHT)
    assert all(many[name] == style for name, style in few.items())
    assert styles(["triton-row"], LIGHT)["triton-row"] == many["triton-row[num_warps=4]"]
    everyone = [f"provider-{i}" for i in range(8)]
    assert len({style.colour for style in styles(everyone, LIGHT).values()}) == 8
    assert styles(everyone, LIGHT) == styles(everyone[::-1], LIGHT)


@both
def test_text_can_be_read(theme: Theme) -> None:
    def contrast(colour: str) -> float:
        """The contrast ratio to the background, as WCAG 2.1 defines it."""
        dark, light = sorted(luminance(shade) for shade in (colour, theme.background))
        return (light + 0.05) / (dark + 0.05)

    assert contrast(theme.ink) > 12 and contrast(theme.muted) > 7
    assert all(contrast(colour) >= 4.5 for colour in (*theme.texts, theme.quiet))
    assert all(contrast(colour) > 2 for colour in theme.colours)


@both
@pytest.mark.parametrize("matrix", [NORMAL, DEUTAN, PROTAN], ids=["normal", "deutan", "protan"])
def test_colours_are_told_apart_by_the_colour_blind(theme: Theme, matrix: Iterable[Iterable[float]]) -> None:
    seen = [lab(colour, matrix) for colour in (*theme.colours, theme.quiet)]
    assert min(math.dist(a, b) for i, a in enumerate(seen) for b in seen[:i]) > 10


def linear_rgb(colour: str) -> list[float]:
    rgb = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]


def luminance(colour: str) -> float:
    """The relative luminance."""
    return sum(a * b for a, b in zip((0.2126, 0.7152, 0.0722), linear_rgb(colour), strict=True))


def lab(colour: str, matrix: Iterable[Iterable[float]]) -> tuple[float, float, float]:
    """CIELAB (D65) of a colour as seen through a matrix on linear RGB."""
    linear = linear_rgb(colour)
    seen = [min(1.0, max(0.0, sum(a * b for a, b in zip(line, linear, strict=True)))) for line in matrix]
    to_xyz = ((0.4339, 0.3762, 0.1899), (0.2126, 0.7152, 0.0722), (0.0178, 0.1098, 0.8729))  # rows sum to 1: white is 1
    x, y, z = (sum(a * b for a, b in zip(line, seen, strict=True)) for line in to_xyz)
    fx, fy, fz = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)

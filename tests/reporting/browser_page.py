"""What the tests of the page in a browser ask of it: the lines of its chart, and the columns of its tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Make = Callable[..., Path]
View = Callable[..., Any]


def curves(page: Any) -> dict[str, list[tuple[float, float | None]]]:
    """The points of the lines of the chart, by name."""
    traces = page.evaluate("() => document.getElementById('chart').data.filter((trace) => trace.showlegend)")
    return {trace["name"]: list(zip(trace["x"], trace["y"], strict=True)) for trace in traces}


def choose(page: Any, control: str, value: str) -> None:
    page.get_by_label(control, exact=True).select_option(value)


def heads(page: Any, table: str) -> list[str]:
    return [head.strip() for head in page.locator(f"{table} thead th").all_inner_texts()]


def column(page: Any, table: str, name: str) -> list[str]:
    """The cells of a column of a table that the page has made so far, from top to bottom."""
    place = heads(page, table).index(name)
    return [text.strip() for text in page.locator(f"{table} tbody tr > :nth-child({place + 1})").all_inner_texts()]


def hovered(page: Any) -> str:
    """The text that the chart shows when the pointer is on its first point."""
    page.locator("#plot").scroll_into_view_if_needed()
    box = page.locator("#chart .point").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_selector("#chart .hoverlayer .hovertext")
    return str(page.locator("#chart .hoverlayer").text_content())

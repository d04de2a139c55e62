"""Modes and scalars, as a reader of the page sees them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from report_rows import rivals


@pytest.mark.slow
def test_modes_have_their_order_and_scalars_read_as_in_a_config(
    made: Callable[..., Path], view: Callable[..., Any]
) -> None:
    rows = [
        replace(row, case=replace(row.case, axes={**row.case.axes, "eps": eps, "mode": mode}))
        for row in rivals("first", "second", ns=(256, 512))
        for mode in ("full", "backward", "forward")
        for eps in (1e-6, 0.5)
    ]
    page = view(made(rows))
    modes = page.get_by_label("mode", exact=True).first.locator("option").all_inner_texts()
    assert [mode for mode in modes if mode in ("forward", "backward", "full")] == ["forward", "backward", "full"]
    scalars = page.get_by_label("eps", exact=True).first.locator("option").all_inner_texts()
    assert "1e-06" in scalars and "0.5" in scalars and "0.000001" not in page.locator("body").inner_text()

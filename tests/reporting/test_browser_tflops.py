"""TFLOP/s and the share of the speed of light, as a reader of the page sees them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from browser_page import Make, View, heads
from report_rows import rivals

LABELS = "() => document.getElementById('chart').layout.annotations.map((each) => each.text)"
SHAPES = "() => document.getElementById('chart').layout.shapes.map((each) => [each.y0, each.y1])"


@pytest.mark.slow
def test_an_operator_that_counts_its_operations(made: Make, view: View) -> None:
    rows = [
        replace(row, ceiling_tflops=733.2, **({"tflops": 600.0, "sol": 0.818} if row.role == "provider" else {}))
        for row in rivals("first", "second")
    ]
    page = view(made(rows))
    metric = page.get_by_label("metric", exact=True)
    assert metric.input_value() == "tflops"  # as in the pictures, without a choice
    assert page.locator("#chart .g-ytitle").text_content() == "TFLOP/s"
    assert page.evaluate(LABELS) == ["large matmul 733"] and [733.2, 733.2] in page.evaluate(SHAPES)
    metric.select_option("sol")
    assert page.locator("#chart .g-ytitle").text_content() == "share of the speed of light"
    assert page.evaluate(SHAPES) == [[1, 1]]
    assert {"TFLOP/s", "sol"} <= set(heads(page, "#rows"))
    assert {"best TFLOP/s", "sol"} <= set(heads(page, "#summary")) and "of copy" not in heads(page, "#summary")
    assert "733 TFLOP/s" in page.locator("body").inner_text()


@pytest.mark.slow
def test_other_operators_have_no_such_metric_and_no_such_column(made: Make, view: View) -> None:
    page = view(made(rivals("first", "second")))
    offered = page.get_by_label("metric", exact=True).locator("option").all_inner_texts()
    assert "GB/s" in offered and "TFLOP/s" not in offered and "share of the speed of light" not in offered
    assert "TFLOP/s" not in heads(page, "#rows") and "of copy" in heads(page, "#summary")

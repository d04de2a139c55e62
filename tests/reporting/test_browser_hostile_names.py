"""Names and reasons that are markup or scripts are text in the page, in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from browser_page import Make, View, choose, hovered
from report_rows import BOLD, IMAGE, SCRIPT, SIZES, report_row, rivals, save_results


@pytest.mark.slow
def test_names_and_reasons_are_text(made: Make, view: View, tmp_path: Path) -> None:
    rows = [
        *rivals("first", SCRIPT, IMAGE, BOLD),
        report_row(SCRIPT, 4096, status="wrong", reason=f"{IMAGE}\n{SCRIPT}"),
    ]
    environment = {"device": IMAGE, "driver": SCRIPT, "config": {"text": f"</script>{SCRIPT}"}, "baseline": "first"}
    old = save_results(tmp_path / "old.csv", rows, environment)
    page = view(made(rows, environment, title=f"{SCRIPT} {IMAGE}", baseline=old))
    assert page.title() == f"{SCRIPT} {IMAGE}"
    assert page.locator("img:not(.changes img), #main script").count() == 0
    assert IMAGE in page.locator("#machine").inner_text() and SCRIPT in page.locator("#lost").inner_text()
    assert {SCRIPT, IMAGE, BOLD} <= {text.strip() for text in page.locator("#plot .legend button").all_inner_texts()}
    page.locator("#plot").scroll_into_view_if_needed()
    for trace in page.locator("#chart .trace .point").all()[::4]:
        trace.hover(force=True)
        page.wait_for_timeout(80)
    choose(page, "metric", "speedup")
    page.locator("#rows thead button").first.click()


@pytest.mark.slow
def test_hover_texts_show_markup_as_it_is(made: Make, view: View) -> None:
    page = view(made([report_row(BOLD, n) for n in SIZES]))
    assert BOLD in hovered(page)


@pytest.mark.slow
def test_no_script_but_its_own_may_run(made: Make, browser: Any) -> None:
    page = browser.new_page()
    page.goto(made(rivals("first")).as_uri())
    added = "() => { const s = document.createElement('script'); s.text = 'window.hit = 1'; document.body.append(s); }"
    page.evaluate(added)
    page.evaluate(
        "() => document.body.insertAdjacentHTML('beforeend', '<img src=\"data:,\" onerror=\"window.hit = 1\">')"
    )
    page.wait_for_timeout(100)
    assert page.evaluate("() => window.hit ?? null") is None
    assert page.evaluate("() => fetch('https://example.org').then(() => 'sent', () => 'refused')") == "refused"
    page.close()

"""The tables of the page as a reader uses them: in a real browser, without a network, also on a phone."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser_page import Make, View, choose, column
from report_rows import report_row, rivals, save_results

from kbench import reporting


@pytest.mark.slow
def test_a_reason_of_100_kb_does_not_stall_the_page(tmp_path: Path, view: View) -> None:
    path = save_results(tmp_path / "x.csv", [report_row("first"), report_row("second", status="error")])
    path.write_text(path.read_text().replace("it is so", 100_000 * "x"))
    page = view(reporting.write_report([path], tmp_path / "report.html"))
    assert "xxx ... (100000 characters)" in page.locator("body").inner_text()


@pytest.mark.slow
def test_a_column_sorts_the_table_by_its_numbers(made: Make, view: View) -> None:
    page = view(
        made(
            [
                report_row("a", 256, 1.25),
                report_row("b", 256, 10.0),
                report_row("c", 256, status="oom"),
                report_row("d", 256, 1.5),
            ]
        )
    )
    assert column(page, "#rows", "provider") == ["a", "b", "c", "d"]
    head = page.locator("#rows thead button", has_text="time (µs)")
    head.press("Enter")
    assert column(page, "#rows", "provider") == ["a", "d", "b", "c"]
    assert page.locator("#rows th[aria-sort=ascending]").inner_text().strip() == "time (µs)"
    head.press("Enter")
    assert column(page, "#rows", "provider") == ["b", "d", "a", "c"]  # what has none stays last


@pytest.mark.slow
def test_the_table_is_filtered_by_text_and_by_choice(made: Make, view: View) -> None:
    rows = [
        *rivals("first", "second"),
        *rivals("first", "second", dtype="float16"),
        report_row("first", 4096, status="timeout"),
    ]
    page = view(made(rows))
    assert page.locator("#rows .count").last.inner_text() == "17 rows"  # of providers
    page.get_by_label("filter rows").fill("SECOND 512")
    assert column(page, "#rows", "provider") == ["second", "second"]
    choose(page, "dtype in rows", "float16")
    assert page.locator("#rows .count").last.inner_text() == "1 of 17 rows"
    page.get_by_label("filter rows").fill("")
    choose(page, "dtype in rows", "")
    choose(page, "status in rows", "timeout")
    assert column(page, "#rows", "status") == ["timeout"]
    choose(page, "status in rows", "")
    choose(page, "kind of row", "controls")
    assert set(column(page, "#rows", "provider")) == {"copy", "repeat"}


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_scrolls_tables_and_not_the_page(scheme: str, made: Make, view: View) -> None:
    long = "provider-with-a-name-that-is-longer-than-any-screen-is-wide-" * 2
    page = view(
        made([*rivals("first", long), report_row(long, 4096, status="error", reason="no-space-" * 40)]), 390, scheme
    )
    assert page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth") == 0
    wide = page.locator("#rows .box").evaluate("(box) => box.scrollWidth > box.clientWidth")
    assert wide, "the table is wider than the phone, and scrolls in its box"
    background = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 28)"}[scheme]


@pytest.mark.slow
def test_verdicts_against_a_baseline(made: Make, view: View, tmp_path: Path) -> None:
    old = save_results(tmp_path / "old.csv", rivals("first", "second"), {})
    new = [row for row in rivals("first", "second") if row.provider != "second" or row.case.N != 256]
    page = view(made(new, baseline=old))
    assert "! 1 missing" in page.locator("#comparison .chips").inner_text()
    assert column(page, "#comparison .box:last-child", "verdict")[0] == "missing"
    choose(page, "verdict in verdicts", "missing")
    assert page.locator("#comparison .count").inner_text() == "1 of 8 rows"


@pytest.mark.slow
def test_the_changes_against_a_baseline_are_a_picture_in_the_colours_of_the_page(
    made: Make, view: View, tmp_path: Path
) -> None:
    old = save_results(tmp_path / "old.csv", rivals("first", "second"), {})
    page = view(made(rivals("first", "second"), baseline=old), scheme="dark")

    def shown() -> list[str | None]:
        return [each.get_attribute("class") for each in page.locator("#comparison img").all() if each.is_visible()]

    assert shown() == ["on-dark"]
    assert page.locator(".on-dark").evaluate("(image) => image.complete && image.naturalWidth > 500")
    page.emulate_media(media="print")  # paper is white
    assert shown() == ["on-light"]
    page.emulate_media(media="screen", color_scheme="light")
    assert shown() == ["on-light"]


@pytest.mark.slow
def test_a_phone_shows_the_time_and_says_once_what_all_rows_share(made: Make, view: View) -> None:
    page = view(made(rivals("first", "second")), 390)
    heads = [head.strip().replace("\n", " ") for head in page.locator("#rows thead th").all_inner_texts()]
    assert heads[:3] == ["provider", "N", "time (µs)"]
    assert not {"M", "dtype", "status"} & set(heads)
    assert "softmax · M=4096 · float32 · ok" in page.locator("#rows").inner_text()
    page.get_by_label("filter rows").fill("float32 second")
    assert page.locator("#rows .count").last.inner_text() == "4 of 8 rows"


@pytest.mark.slow
def test_ten_thousand_rows(made: Make, view: View) -> None:
    providers = [f"provider-{i}" for i in range(15)]
    ns, dtypes = range(256, 256 + 112 * 128, 128), ("float32", "float16")
    rows = [each for m in (1, 64, 4096) for dtype in dtypes for each in rivals(*providers, ns=ns, m=m, dtype=dtype)]
    rows = [each for each in rows if each.provider != "repeat"]
    assert len(rows) > 10_000
    page = view(made(rows))
    assert page.locator("#rows .count").last.inner_text() == "10,080 rows"
    assert page.locator("#rows tbody tr").count() < 500
    page.locator("#rows .box").evaluate("(box) => box.scrollTo(0, box.scrollHeight)")
    page.wait_for_function("() => document.querySelectorAll('#rows tbody tr').length > 150")

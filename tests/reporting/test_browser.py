"""The chart of the page as a reader uses it: in a real browser, without a network. The fixture `view` fails on any error or
request."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from browser_page import Make, View, choose, curves, hovered
from report_rows import SCRIPT, SIZES, report_row, rivals, save_results

from kbench import reporting

DRAWN = "() => document.querySelectorAll('#chart .scatterlayer .js-line').length"
Y_TITLE = "#chart .g-ytitle"


@pytest.mark.slow
def test_opens_with_the_network_cut(made: Make, view: View) -> None:
    page = view(made(rivals("first", "second")))
    assert page.title() == "kbench: softmax"
    assert set(curves(page)) == {"first", "second", "copy (control)"}
    assert "second is fastest in 4 of 4 cases" in page.locator("#summary").inner_text()


@pytest.mark.slow
def test_speed_ups_are_explained_only_where_there_are_any(made: Make, view: View) -> None:
    rows = rivals("first", "second")
    assert "Speed-ups are relative to first" in view(made(rows)).locator("#summary").inner_text()
    noisy = [replace(row, ms=row.ms and 1.5 * row.ms) if row.provider == "repeat" else row for row in rows]
    summary = view(made(noisy)).locator("#summary").inner_text().lower()
    assert "too noisy to rank providers" in summary and "speed-up" not in summary


@pytest.mark.slow
def test_a_name_in_the_legend_hides_and_shows_its_line(made: Make, view: View) -> None:
    page = view(made(rivals("first", "second")))
    before = page.evaluate(DRAWN)
    name = page.locator("#plot .legend button", has_text="second")
    name.press("Enter")  # works without a mouse, and keeps the focus
    assert set(curves(page)) == {"first", "copy (control)"}
    assert page.evaluate(DRAWN) < before
    assert name.get_attribute("aria-pressed") == "false"
    name.press("Enter")
    assert page.evaluate(DRAWN) == before
    name.dblclick()
    assert set(curves(page)) == {"second"}


@pytest.mark.slow
def test_another_metric_is_another_axis(made: Make, view: View) -> None:
    page = view(made(rivals("first", "second")))
    assert page.locator(Y_TITLE).text_content() == "GB/s"
    choose(page, "metric", "ms")
    assert page.locator(Y_TITLE).text_content() == "time (µs)"
    assert curves(page)["first"] == [(n, pytest.approx(n / 10)) for n in SIZES]
    choose(page, "metric", "speedup")
    assert curves(page) == {"first": [(n, 1) for n in SIZES], "second": [(n, 1.1) for n in SIZES]}  # a copy has none


@pytest.mark.slow
def test_no_line_joins_rows_that_differ_in_more_than_x(made: Make, view: View) -> None:
    rows = rivals("first", dtype="float32") + rivals("first", dtype="float16") + rivals("first", m=64, ns=(256, 512))
    page = view(made(rows))
    choose(page, "metric", "ulp")
    assert [n for n, _ in curves(page)["first"]] == [*SIZES]
    assert page.locator("#plot .chart-title").inner_text() == "softmax · M=4096 · float32"
    choose(page, "M", "64")
    assert [n for n, _ in curves(page)["first"]] == [256, 512]
    choose(page, "x", "M")
    assert [m for m, _ in curves(page)["first"]] == [64, 4096]


@pytest.mark.slow
def test_a_swept_parameter_can_run_along_x(made: Make, view: View) -> None:
    rows = [report_row("tuned", n, params=f"warps={warps}") for n in SIZES for warps in (1, 2, 4)] + rivals("plain")
    page = view(made(rows))
    assert "tuned[warps=2]" in curves(page)
    choose(page, "x", "warps")
    drawn = curves(page)
    assert [warps for warps, _ in drawn["tuned[warps=*]"]] == [1, 2, 4]
    assert len({y for _, y in drawn["plain"]}) == 1  # a level across


@pytest.mark.slow
def test_files_are_lines_of_their_own(tmp_path: Path, view: View) -> None:
    files = [save_results(tmp_path / f"{name}.csv", rivals("first"), {}) for name in ("old", "new")]
    page = view(reporting.write_report(files, tmp_path / "report.html"))
    assert {"first · old", "first · new"} < set(curves(page))
    choose(page, "file", "old")
    assert set(curves(page)) == {"first", "copy (control)"}


@pytest.mark.slow
def test_a_line_breaks_where_its_own_file_has_no_value(tmp_path: Path, view: View) -> None:
    gap = [each for each in rivals("first", "second") if (each.provider, each.case.N) != ("second", 512)]
    files = [
        save_results(tmp_path / "old.csv", gap, {}),
        save_results(tmp_path / "new.csv", rivals("first", ns=(256, 2048)), {}),
    ]
    drawn = curves(view(reporting.write_report(files, tmp_path / "report.html")))
    assert [(n, y is None) for n, y in drawn["second · old"]] == [
        (256, False),
        (512, True),
        (1024, False),
        (2048, False),
    ]
    assert [n for n, _ in drawn["first · new"]] == [256, 2048]


@pytest.mark.slow
def test_hovering_shows_numbers_and_flags(made: Make, view: View) -> None:
    page = view(made([report_row("first", n, 0.1234, flags=("overhead-bound", "noisy")) for n in SIZES]))
    shown = hovered(page)
    assert "N=256" in shown and "123.4 µs" in shown and "flags: overhead-bound, noisy" in shown


@pytest.mark.slow
def test_what_to_distrust_and_what_failed_is_in_the_chart(made: Make, view: View) -> None:
    rows = [
        *rivals("first"),
        report_row("first", 4096, status="wrong"),
        report_row("fast", 256, 1e-6, flags=("suspect",)),
    ]
    rows += [report_row("bound", n, flags=("host-bound",)) for n in SIZES]
    page = view(made(rows))
    notes = page.locator("#plot .notes").inner_text()
    assert "hollow: host-bound" in notes and ": wrong" in notes and "?: suspect" in notes
    filled = page.evaluate(
        "() => document.getElementById('chart').data.find((trace) => trace.name === 'bound' && trace.showlegend).marker.color"
    )
    assert filled[: len(SIZES)] == ["#FFFFFF"] * len(SIZES)  # the paper's
    marks = page.evaluate("() => document.getElementById('chart').data.filter((trace) => trace.yaxis === 'y2')")
    assert [mark["x"] for mark in marks] == [[4096]]
    assert page.locator("#chart").text_content().count("?") == 1


@pytest.mark.slow
def test_an_axis_that_goes_with_x_leaves_one_line_per_provider(made: Make, view: View) -> None:
    page = view(made([report_row(name, n, n / 1e4, m=2**20 // n) for n in SIZES for name in ("first", "second")]))
    assert [n for n, _ in curves(page)["first"]] == [*SIZES]
    assert "M varies with N: M=4096 at N=256, M=512 at N=2048" in page.locator("#plot .notes").inner_text()
    assert page.get_by_label("M", exact=True).count() == 0


@pytest.mark.slow
def test_a_printed_chart_names_its_lines_and_fits_the_paper(made: Make, view: View) -> None:
    page = view(made(rivals("first", "second")))
    page.set_viewport_size({"width": 718, "height": 1000})
    page.emulate_media(media="print")
    page.evaluate("() => window.dispatchEvent(new Event('beforeprint'))")
    names = page.locator("#plot .legend button")
    assert [name.inner_text().strip() for name in names.all() if name.is_visible()] == [
        "copy (control)",
        "second",
        "first",
    ]
    assert page.evaluate("() => document.querySelector('#chart svg').getBoundingClientRect().right") <= 718


@pytest.mark.slow
def test_nothing_timed(made: Make, view: View) -> None:
    page = view(made([report_row(name, n, status="error", reason="boom") for name in "ab" for n in SIZES]))
    assert "nothing to draw" in page.locator("#plot").inner_text()
    assert "No provider was timed" in page.locator("#summary").inner_text()
    assert page.locator("#lost tbody tr").count() == 2


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 4096])
def test_one_case_is_drawn_as_bars(n: int, made: Make, view: View) -> None:
    page = view(made([*rivals("first", "second", ns=[n]), report_row("third", n, status="oom")]))
    assert page.locator("#chart .barlayer .point").count() == 3
    assert "oom" in page.locator("#chart").text_content()
    assert page.locator("#plot .chart-title").inner_text() == f"softmax · M=4096 · float32 · N={n}"
    page.locator("#plot .legend button", has_text="second").click()
    assert page.locator("#chart .barlayer .point").count() == 2


@pytest.mark.slow
def test_many_providers_of_one_case_are_dots(made: Make, view: View) -> None:
    page = view(made(rivals(*(f"provider-{i}" for i in range(20)), ns=[256])))
    assert page.locator("#chart .barlayer .point").count() == 0
    assert page.locator("#chart .scatterlayer .point").count() == 21
    assert "provider-7" in page.locator("#chart").text_content()


@pytest.mark.slow
def test_one_provider_and_forty(made: Make, view: View) -> None:
    assert len(curves(view(made([report_row("alone", n) for n in SIZES], {})))) == 1
    page = view(made(rivals(*(f"provider-{i}" for i in range(40)))))
    assert len(curves(page)) == 41
    assert page.locator("#plot .legend button").count() == 42  # and one for all


@pytest.mark.slow
def test_the_chart_is_saved_as_a_picture(made: Make, view: View) -> None:
    page = view(made(rivals("first", SCRIPT)))
    with page.expect_download() as download:
        page.get_by_role("button", name="Save picture").click()
    assert download.value.suggested_filename == "kbench.png"
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")

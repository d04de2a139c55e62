"""The page as a reader uses it: in a real browser, without a network. The fixture `view` fails on any error or request."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from report_rows import BOLD, ENVIRONMENT, IMAGE, SCRIPT, SIZES, report_row, rivals, save_results

from kbench import reporting
from kbench.analysis.chosen_row import find_row
from kbench.results import table

Make = Callable[..., Path]
View = Callable[..., Any]

DRAWN = "() => document.querySelectorAll('#chart .scatterlayer .js-line').length"
Y_TITLE = "#chart .g-ytitle"


def curves(page: Any) -> dict[str, list[tuple[float, float | None]]]:
    """The points of the lines of the chart, by name."""
    traces = page.evaluate("() => document.getElementById('chart').data.filter((trace) => trace.showlegend)")
    return {trace["name"]: list(zip(trace["x"], trace["y"], strict=True)) for trace in traces}


def choose(page: Any, control: str, value: str) -> None:
    page.get_by_label(control, exact=True).select_option(value)


def column(page: Any, table: str, name: str) -> list[str]:
    """The cells of a column of a table that the page has made so far, from top to bottom."""
    heads = page.locator(f"{table} thead th").all_inner_texts()
    place = [head.strip() for head in heads].index(name)
    return [text.strip() for text in page.locator(f"{table} tbody tr > :nth-child({place + 1})").all_inner_texts()]


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
def test_a_row_has_the_command_that_measures_it_again(tmp_path: Path, view: View) -> None:
    names = ("first", "it's", "a,b", "triton")
    path = save_results(tmp_path / "my results.csv", [report_row(name) for name in names], ENVIRONMENT)
    script = {**ENVIRONMENT, "config": {**ENVIRONMENT["config"], "source": "bench.py"}}
    other = save_results(tmp_path / "of a script.csv", [report_row("line")], script)
    page = view(reporting.write_report([path, other], tmp_path / "report.html"))
    found = []
    for button in page.get_by_role("button", name="again").all():
        button.click()
        words = shlex.split(page.locator("#again code").inner_text())
        assert words[:4] == ["kbench", "run", "--repeat", str(path)] and words[4] == "--row"
        found += find_row(table.read_results(path), path, words[5])
    assert [row.provider for row in found] == ["first", "it's", "triton"]  # no term can name a,b; line is of a script


@pytest.mark.slow
def test_a_reason_of_100_kb_does_not_stall_the_page(tmp_path: Path, view: View) -> None:
    path = save_results(tmp_path / "x.csv", [report_row("first"), report_row("second", status="error")])
    path.write_text(path.read_text().replace("it is so", 100_000 * "x"))
    page = view(reporting.write_report([path], tmp_path / "report.html"))
    assert "xxx ... (100000 characters)" in page.locator("body").inner_text()


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
    page.locator("#plot").scroll_into_view_if_needed()
    box = page.locator("#chart .point").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_selector("#chart .hoverlayer .hovertext")
    shown = page.locator("#chart .hoverlayer").text_content()
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
    page.locator("#plot").scroll_into_view_if_needed()
    box = page.locator("#chart .point").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_selector("#chart .hoverlayer .hovertext")
    assert BOLD in page.locator("#chart .hoverlayer").text_content()


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
def test_a_phone_shows_the_time_and_says_once_what_all_rows_share(made: Make, view: View) -> None:
    page = view(made(rivals("first", "second")), 390)
    heads = [head.strip().replace("\n", " ") for head in page.locator("#rows thead th").all_inner_texts()]
    assert heads[:3] == ["provider", "N", "time (µs)"]
    assert not {"M", "dtype", "status"} & set(heads)
    assert "softmax · M=4096 · float32 · ok" in page.locator("#rows").inner_text()
    page.get_by_label("filter rows").fill("float32 second")
    assert page.locator("#rows .count").last.inner_text() == "4 of 8 rows"


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


@pytest.mark.slow
def test_the_chart_is_saved_as_a_picture(made: Make, view: View) -> None:
    page = view(made(rivals("first", SCRIPT)))
    with page.expect_download() as download:
        page.get_by_role("button", name="Save picture").click()
    assert download.value.suggested_filename == "kbench.png"
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")

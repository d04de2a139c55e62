"""`kbench report`: results as one HTML page, opened in a browser without a network."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from promises.nightly import CHANGED, make_history, night, nights
from promises.outside import ROOT, Kbench, MadeOnce, run_kbench, write_results
from promises.planted import NOISE, REASON, SIZES, case, lost, planted, row, write_planted, write_slower

H200 = ROOT / "results" / "h200"
HTML = "<img src=x onerror=alert(1)>"
SCRIPT = "</script><script>document.title = 'owned'</script>"


@dataclass
class Page:
    """A page as its reader sees it. `problems` are requests, errors, warnings and dialogs."""

    tab: Any
    problems: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The visible text, with what can be unfolded."""
        self.tab.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        return str(self.tab.inner_text("body"))

    def column(self, name: str) -> list[str]:
        """The cells of the first table that has a column of this name."""
        for table in self.tab.locator("table").all():
            heads = [" ".join(head.split()) for head in table.locator("thead th").all_inner_texts()]
            if name in heads:
                cells = table.locator(f"tbody tr > :nth-child({heads.index(name) + 1})").all_inner_texts()
                return [cell.strip() for cell in cells]
        raise AssertionError(f"no table has the column {name}")


Opened = Callable[[Path], Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="no Playwright: pip install '.[test]'")
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        pytest.skip("no browser: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=path)
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser: Any) -> Iterator[Opened]:
    """Open a page without a network. At the end of the test nothing must have gone wrong in it."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_offline(True)
    pages: list[Page] = []

    def opened(path: Path) -> Page:
        page = Page(context.new_page())
        pages.append(page)
        local = ("file:", "data:", "blob:", "about:")
        listeners: dict[str, Callable[[Any], object]] = {
            "request": lambda it: it.url.startswith(local) or page.problems.append(f"asked for {it.url}"),
            "pageerror": lambda it: page.problems.append(str(it)),
            "console": lambda it: it.type in ("error", "warning") and page.problems.append(it.text),
            "dialog": lambda it: (page.problems.append(f"dialog: {it.message}"), it.dismiss()),
        }
        for event, listener in listeners.items():
            page.tab.on(event, listener)
        page.tab.goto(path.resolve().as_uri(), wait_until="load")
        return page

    yield opened
    problems = [problem for page in pages for problem in page.problems]
    context.close()
    assert problems == []


def made(made_once: MadeOnce, name: str, *arguments: str, rows: Callable[[Path], object] = lambda folder: None) -> Path:
    """A page that many tests read. `rows` writes more results than the planted ones."""

    def make(folder: Path) -> None:
        write_planted(folder / "planted.csv")
        rows(folder)
        ended = run_kbench("report", *arguments, folder=folder)
        assert ended.code == 0, ended.err

    return made_once(f"report-{name}", make) / "report.html"


@pytest.fixture
def one(made_once: MadeOnce) -> Path:
    """The page on the planted results."""
    return made(made_once, "one", "planted.csv")


# -- one file


def test_the_page_is_written_to_report_html_or_to_out_and_its_path_is_printed(kbench: Kbench, folder: Path) -> None:
    """Also that of a folder with one results file, which is no history."""
    write_planted(folder / "base" / "planted.csv")
    assert kbench("report", "base").out == "report.html\n"
    assert "<title>kbench: planted</title>" in (folder / "report.html").read_text()
    assert kbench("report", "base/planted.csv", "--out", "pages/softmax.html").out == "pages/softmax.html\n"
    assert (folder / "pages" / "softmax.html").read_text().lower().startswith("<!doctype html>")


def test_the_page_has_first_sentence_winners_ties_and_noise_floor_of_show_and_all_times_and_reasons(
    one: Path, opened: Opened, kbench: Kbench
) -> None:
    page = opened(one)  # a request, an error or a dialog fails in the fixture `opened`
    fastest = dict(zip(page.column("provider"), page.column("fastest"), strict=True))
    tied = dict(zip(page.column("provider"), page.column("tied for fastest"), strict=True))
    assert fastest == {"fast": "2", "even": "0", "picky": "0", "torch": "0", "broken": "0"}
    assert tied == {"fast": "1", "even": "1", "picky": "0", "torch": "0", "broken": "0"}
    headline = kbench("show", one.parent / "planted.csv").out.strip().splitlines()[0]
    assert headline in page.text and f"at most {NOISE}" in page.text
    text = opened(one).text
    assert all(time in text for time in ("128.0", "230.4", "1638", "2048"))
    assert REASON in text and "N is too small" in text


def test_a_mean_above_1_is_not_called_faster(kbench: Kbench, folder: Path, opened: Opened) -> None:
    rows = [each for n in SIZES for each in case(n, {"torch": n, "odd": (0.4 if n == 256 else 1.1) * n}, {})]
    write_results(folder / "odd.csv", rows)
    kbench("report", "odd.csv")
    page = opened(folder / "report.html")
    assert dict(zip(page.column("provider"), page.column("faster/tie/slower"), strict=True))["odd"] == "1/0/3"
    assert not {"faster", "slower"} & {cell.strip() for cell in page.tab.locator("td").all_inner_texts()}


def test_the_table_of_rows_sorts_by_a_column_and_shows_one_provider(one: Path, opened: Opened) -> None:
    page = opened(one)
    rows = page.tab.locator("#rows tbody tr:visible")
    head = page.tab.locator("#rows thead th", has_text="time")
    page.tab.get_by_label("provider in rows").select_option("fast")
    assert rows.count() == 4 and all(text.startswith("fast") for text in rows.all_inner_texts())
    head.locator("button").click()
    assert "128.0" in rows.first.inner_text() and head.get_attribute("aria-sort") == "ascending"
    head.locator("button").click()
    assert "1024" in rows.first.inner_text() and head.get_attribute("aria-sort") == "descending"
    page.tab.get_by_label("filter rows").fill("no such words")
    assert rows.count() == 0


def test_each_metric_has_a_picture_that_says_its_values(one: Path, opened: Opened) -> None:
    tab = opened(one).tab
    shown = tab.locator("#plot svg:visible")
    assert shown.count() == 1 and "GB/s" in shown.text_content()
    tab.get_by_text("time (µs)", exact=True).first.click()
    assert shown.count() == 1
    values = [" ".join(title.split()) for title in shown.locator("title").all_text_contents()]
    assert any("fast" in value and "N=256" in value and "128" in value for value in values)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_have_the_colours_of_the_page(one: Path, scheme: str, opened: Opened) -> None:
    tab = opened(one).tab
    tab.emulate_media(color_scheme=scheme)
    background = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (scheme == "light")
    assert background == tab.evaluate("getComputedStyle(document.querySelector('#plot svg path')).fill")


def test_a_phone_scrolls_tables_and_pictures_and_not_the_page(one: Path, opened: Opened) -> None:
    tab = opened(one).tab
    tab.set_viewport_size({"width": 390, "height": 900})
    assert tab.evaluate("document.documentElement.scrollWidth - window.innerWidth") == 0


def test_a_page_of_686_rows_is_smaller_than_1_mb(kbench: Kbench, folder: Path) -> None:
    assert kbench("report", H200 / "softmax.csv").code == 0
    assert (folder / "report.html").stat().st_size < 1_000_000


def test_the_page_has_title_chosen_rows_and_machine(made_once: MadeOnce, opened: Opened) -> None:
    def environment(folder: Path) -> None:
        machine = {"device": "NVIDIA H200", "driver": "580.159.04", "packages": {"torch": "2.11.0"}}
        (folder / "planted.env.json").write_text(json.dumps(machine))

    options = ("--title", "Softmax & <friends>", "--where", "provider=torch,fast")
    page = opened(made(made_once, "options", "planted.csv", *options, rows=environment))
    assert page.tab.title() == page.tab.inner_text("h1") == "Softmax & <friends>"
    assert "fast" in page.text and "picky" not in page.text and "even" not in page.text
    assert "580.159.04" in page.text and "2.11.0" in page.text


# -- text of a stranger


@pytest.fixture
def hostile(made_once: MadeOnce) -> Path:
    """The page on a file whose names and reasons are HTML."""

    def rows(folder: Path) -> None:
        own = [row(HTML, 300.0, N=256, speedup=0.8), row('"><b id=bold>', 310.0, N=256, speedup=0.8)]
        own += [lost("script", 256, "error", SCRIPT), lost("ansi", 256, "error", "\x1b[31mred\x1b[0m \u202eright")]
        write_results(folder / "hostile.csv", [*planted(), *own])

    return made(made_once, "hostile", "<i>label=hostile.csv", "--title", f"<u>{SCRIPT}", rows=rows)


def test_html_in_names_and_reasons_is_shown_as_text_without_escape_sequences(hostile: Path, opened: Opened) -> None:
    page = opened(hostile)
    assert HTML in page.text and SCRIPT in page.text and '"><b id=bold>' in page.text
    assert page.tab.locator("img[src='x'], #bold, i, u").count() == 0
    assert page.tab.title() == f"<u>{SCRIPT}"
    assert "red" in opened(hostile).text
    assert not {"\x1b", "\u202e"} & set(hostile.read_text(encoding="utf-8"))


# -- two files


def test_baseline_adds_the_verdicts_of_compare(
    kbench: Kbench, folder: Path, made_once: MadeOnce, opened: Opened
) -> None:
    page = opened(made(made_once, "baseline", "new.csv", "--baseline", "old.csv", rows=write_slower))
    write_slower(folder)
    lines = kbench("compare", "old.csv", "new.csv").out.splitlines()
    [counts] = [line.split(", ") for line in lines if re.fullmatch(r"\d+ [a-z]+(, \d+ [a-z]+)*", line)]
    assert "4 slower" in counts and all(count in page.text for count in counts)
    assert page.column("verdict").count("slower") == 4


def test_baseline_is_the_same_file_under_any_path_and_label(kbench: Kbench, folder: Path, opened: Opened) -> None:
    write_slower(folder)
    ended = kbench("report", "x=./old.csv", "new.csv", "--baseline", "old.csv")
    assert ended.code == 0, ended.err
    verdicts = opened(folder / "report.html").column("verdict")
    assert verdicts.count("slower") == 4 and len(verdicts) == 20


# -- a history


def test_the_folder_of_a_history_gives_a_page_with_its_changes(kbench: Kbench, folder: Path, opened: Opened) -> None:
    history = make_history(folder, nights(lambda number: night(number, 1.1 if number >= CHANGED else 1.0)))
    assert kbench("report", history).code == 0
    page = opened(folder / "report.html")
    assert "2026-09-05" in page.text and "mine" in page.text and "slower" in page.text
    assert page.tab.locator("img, svg").count() > 0


# -- mistakes


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("planted.csv", "--baseline", "old.csv"), "old.csv: no such file"),
        (("planted.csv", "--out", "planted.csv"), "planted.csv"),
        (("a=planted.csv", "a=planted.csv"), "the label a"),
        (("a=planted.csv", "b=planted.csv", "--baseline", "planted.csv"), "--baseline compares one file"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(
    kbench: Kbench, folder: Path, arguments: tuple[str, ...], told: str
) -> None:
    before = write_planted(folder / "planted.csv").read_bytes()
    ended = kbench("report", *arguments)
    assert ended.code == 2 and ended.err.startswith("error: ") and told in ended.err and ended.err.count("\n") == 1
    assert (folder / "planted.csv").read_bytes() == before and not (folder / "report.html").exists()

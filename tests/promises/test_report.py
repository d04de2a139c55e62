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

from promises.outside import ROOT, Kbench, MadeOnce, run_kbench, write_results
from promises.planted import NOISE, REASON, SIZES, case, lost, picture_words, planted, row, write_planted
from promises.test_history import CHANGED, make_history, night, nights

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
def opened(browser: Any) -> Iterator[Callable[[Path], Page]]:
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


def write_slower(folder: Path) -> Path:
    """Two files of three sessions. In the second, `fast` takes 10 % longer."""
    new = [{**each, "ms": 1.1 * float(str(each["ms"]))} if each["provider"] == "fast" else each for each in planted(3)]
    write_planted(folder / "old.csv", 3)
    return write_results(folder / "new.csv", [{**each, "started_at": "2026-11-21T10:00:00+00:00"} for each in new])


# -- one file


def test_the_page_is_one_file_that_asks_for_nothing_and_reports_no_error(
    one: Path, opened: Callable[[Path], Page]
) -> None:
    """Requests, errors and dialogs fail in the fixture `opened`."""
    assert "fast" in opened(one).text
    assert one.stat().st_size > 10_000


def test_the_page_is_written_to_report_html_or_to_out_and_its_path_is_printed(kbench: Kbench, folder: Path) -> None:
    write_planted(folder / "planted.csv")
    assert kbench("report", "planted.csv").out == "report.html\n"
    assert kbench("report", "planted.csv", "--out", "pages/softmax.html").out == "pages/softmax.html\n"
    assert (folder / "pages" / "softmax.html").read_text().lower().startswith("<!doctype html>")


def test_the_page_begins_with_the_sentence_of_show(
    kbench: Kbench, folder: Path, one: Path, opened: Callable[[Path], Page]
) -> None:
    shown = kbench("show", write_planted(folder / "planted.csv")).out
    assert shown.strip().splitlines()[0] in opened(one).text


def test_the_page_has_the_winners_ties_and_the_noise_floor_of_show_and_of_the_heat_map(
    one: Path, opened: Callable[[Path], Page]
) -> None:
    page = opened(one)
    fastest = dict(zip(page.column("provider"), page.column("fastest"), strict=True))
    tied = dict(zip(page.column("provider"), page.column("tied for fastest"), strict=True))
    assert fastest == {"fast": "2", "even": "0", "picky": "0", "torch": "0", "broken": "0"}
    assert tied == {"fast": "1", "even": "1", "picky": "0", "torch": "0", "broken": "0"}
    assert f"at most {NOISE}" in page.text


@pytest.mark.parametrize("name", ["softmax-backward", "softmax-large"])
def test_show_plot_and_report_agree_on_committed_results(
    kbench: Kbench, folder: Path, name: str, opened: Callable[[Path], Page]
) -> None:
    csv = H200 / f"{name}.csv"
    lines = kbench("show", csv).out.strip().splitlines()
    kbench("report", csv)
    page = opened(folder / "report.html")
    [noise] = [line for line in lines if line.startswith("noise floor")]
    assert lines[0] in page.text and noise in page.text
    sole = {
        name: int(count) for name, count in zip(page.column("provider"), page.column("fastest"), strict=True) if count
    }
    ended = kbench("plot", csv, "--kind", "heatmap", "--format", "svg", "--out", ".")
    texts = [text for path in ended.out.split() for text in picture_words(folder / path)]
    mapped = [re.fullmatch(r"(\S+) (\d+)(?: \+ \d+ ties?)?", text) for text in texts]
    counts = {entry[1]: int(entry[2]) for entry in mapped if entry}
    assert counts and counts == {name: sole[name] for name in counts}


def test_a_mean_above_1_is_not_called_faster_where_most_cases_are_slower(
    kbench: Kbench, folder: Path, opened: Callable[[Path], Page]
) -> None:
    rows = [each for n in SIZES for each in case(n, {"torch": n, "odd": (0.4 if n == 256 else 1.1) * n}, {})]
    write_results(folder / "odd.csv", rows)
    kbench("report", "odd.csv")
    page = opened(folder / "report.html")
    assert dict(zip(page.column("provider"), page.column("faster/tie/slower"), strict=True))["odd"] == "1/0/3"
    assert not {"faster", "slower"} & {cell.strip() for cell in page.tab.locator("td").all_inner_texts()}


def test_the_page_has_all_rows_and_the_reasons_of_those_without_a_time(
    one: Path, opened: Callable[[Path], Page]
) -> None:
    text = opened(one).text
    assert all(time in text for time in ("128.0", "230.4", "1638", "2048"))
    assert REASON in text and "N is too small" in text


def test_title_is_the_heading(kbench: Kbench, folder: Path, opened: Callable[[Path], Page]) -> None:
    write_planted(folder / "planted.csv")
    kbench("report", "planted.csv", "--title", "Softmax & <friends>")
    page = opened(folder / "report.html")
    assert page.tab.title() == "Softmax & <friends>" and page.tab.inner_text("h1") == "Softmax & <friends>"


def test_where_uses_only_the_rows_that_match(kbench: Kbench, folder: Path, opened: Callable[[Path], Page]) -> None:
    write_planted(folder / "planted.csv")
    kbench("report", "planted.csv", "--where", "provider=torch,fast")
    text = opened(folder / "report.html").text
    assert "fast" in text and "picky" not in text and "even" not in text


def test_the_machine_is_described_from_the_file_beside_the_results(
    kbench: Kbench, folder: Path, opened: Callable[[Path], Page]
) -> None:
    path = write_planted(folder / "planted.csv")
    environment = {"device": "NVIDIA H200", "driver": "580.159.04", "packages": {"torch": "2.11.0"}}
    path.with_suffix(".env.json").write_text(json.dumps(environment))
    kbench("report", "planted.csv")
    text = opened(folder / "report.html").text
    assert "580.159.04" in text and "2.11.0" in text


# -- text of a stranger


@pytest.fixture
def hostile(made_once: MadeOnce) -> Path:
    """The page on a file whose names and reasons are HTML."""

    def rows(folder: Path) -> None:
        own = [row(HTML, 300.0, N=256, speedup=0.8), row('"><b id=bold>', 310.0, N=256, speedup=0.8)]
        own += [lost("script", 256, "error", SCRIPT), lost("ansi", 256, "error", "\x1b[31mred\x1b[0m \u202eright")]
        write_results(folder / "hostile.csv", [*planted(), *own])

    return made(made_once, "hostile", "<i>label=hostile.csv", "--title", f"<u>{SCRIPT}", rows=rows)


def test_html_in_names_and_reasons_is_shown_as_text(hostile: Path, opened: Callable[[Path], Page]) -> None:
    page = opened(hostile)
    assert HTML in page.text and SCRIPT in page.text and '"><b id=bold>' in page.text
    assert page.tab.locator("img[src='x'], #bold, i, u").count() == 0
    assert page.tab.title() == f"<u>{SCRIPT}"


def test_escape_sequences_and_directions_of_text_are_not_on_the_page(
    hostile: Path, opened: Callable[[Path], Page]
) -> None:
    assert "red" in opened(hostile).text
    assert not {"\x1b", "\u202e"} & set(hostile.read_text(encoding="utf-8"))


# -- two files


def test_two_files_are_named_and_the_page_says_how_to_compare_them(
    made_once: MadeOnce, opened: Callable[[Path], Page]
) -> None:
    text = opened(made(made_once, "two", "old.csv", "new.csv", rows=write_slower)).text
    assert "old" in text and "new" in text and "--baseline" in text


def test_baseline_adds_the_verdicts_of_compare(
    kbench: Kbench, folder: Path, made_once: MadeOnce, opened: Callable[[Path], Page]
) -> None:
    page = opened(made(made_once, "baseline", "new.csv", "--baseline", "old.csv", rows=write_slower))
    write_slower(folder)
    lines = kbench("compare", "old.csv", "new.csv").out.splitlines()
    [counts] = [line.split(", ") for line in lines if re.fullmatch(r"\d+ [a-z]+(, \d+ [a-z]+)*", line)]
    assert "4 slower" in counts and all(count in page.text for count in counts)
    assert page.column("verdict").count("slower") == 4


@pytest.mark.parametrize(
    "files",
    [("./old.csv", "new.csv"), ("x=old.csv", "new.csv"), ("new.csv",)],
    ids=["another path", "a label", "alone"],
)
def test_baseline_is_the_same_file_under_any_path_and_label(
    kbench: Kbench, folder: Path, files: tuple[str, ...], opened: Callable[[Path], Page]
) -> None:
    write_slower(folder)
    ended = kbench("report", *files, "--baseline", "old.csv")
    assert ended.code == 0, ended.err
    verdicts = opened(folder / "report.html").column("verdict")
    assert verdicts.count("slower") == 4 and len(verdicts) == 20


# -- a history


def test_the_folder_of_a_history_gives_a_page_with_its_changes(
    kbench: Kbench, folder: Path, opened: Callable[[Path], Page]
) -> None:
    history = make_history(kbench, folder, nights(lambda number: night(number, 1.1 if number >= CHANGED else 1.0)))
    assert kbench("report", history).code == 0
    page = opened(folder / "report.html")
    assert "2026-09-05" in page.text and "mine" in page.text and "slower" in page.text
    assert page.tab.locator("img, svg").count() > 0


# -- mistakes


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("planed.csv",), "planed.csv: no such file"),
        (("planted.csv", "--baseline", "old.csv"), "old.csv: no such file"),
        (("planted.csv", "--where", "provider=fst"), "broken, even, fast"),
        (("planted.csv", "--out", "planted.csv"), "planted.csv"),
        (("a=planted.csv", "a=planted.csv"), "'a'"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(
    kbench: Kbench, folder: Path, arguments: tuple[str, ...], told: str
) -> None:
    before = write_planted(folder / "planted.csv").read_bytes()
    ended = kbench("report", *arguments)
    assert ended.code == 2 and ended.err.startswith("error: ") and told in ended.err and ended.err.count("\n") == 1
    assert (folder / "planted.csv").read_bytes() == before and not (folder / "report.html").exists()

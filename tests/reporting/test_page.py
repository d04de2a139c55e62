"""The page as a file: what the command writes, what it weighs, and that data in it is never markup."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from report_rows import BOLD, ENVIRONMENT, IMAGE, SCRIPT, report_row, rivals, save_results

from kbench import reporting
from kbench.errors import ResultsError, UsageError
from kbench.reporting.page import LIBRARY

Make = Callable[..., Path]

RESULTS = Path(__file__).resolve().parents[2] / "results" / "h200"
DATA = re.compile(r'<script type="application/json" id="content">(.*?)</script>', re.DOTALL)


@pytest.mark.slow
def test_the_command_writes_a_page_and_prints_its_path(kbench: Callable[..., object], tmp_path: Path) -> None:
    save_results(tmp_path / "softmax.csv", rivals("first", "second"), ENVIRONMENT)
    done = kbench("report", "new=softmax.csv", "-o", "out/page.html", "--title", "A & B", "--where", "N>=512")
    assert (done.returncode, done.stdout, done.stderr) == (0, "out/page.html\n", "")
    text = (tmp_path / "out" / "page.html").read_text()
    assert "<title>A &amp; B</title>" in text
    content = json.loads(DATA.findall(text)[0])
    assert content["files"][0]["file"] == "new" and content["files"][0]["cases"] == 3


@pytest.mark.slow
def test_without_files_the_newest_results_are_taken(kbench: Callable[..., object], tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    save_results(tmp_path / "results" / "softmax.csv", rivals("first"))
    assert kbench("report").returncode == 0
    assert (tmp_path / "report.html").exists()


@pytest.mark.slow
def test_an_error_is_one_line(kbench: Callable[..., object], tmp_path: Path) -> None:
    done = kbench("report", "nowhere.csv")
    assert (done.returncode, done.stdout) == (2, "")
    assert "nowhere.csv" in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "report.html").exists()


def test_what_cannot_be_written_read_or_chosen(made: Make, tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"softmax\.csv.page\.html: cannot be written"):
        reporting.write_report(
            [save_results(tmp_path / "softmax.csv", rivals("first"))], tmp_path / "softmax.csv" / "page.html"
        )
    with pytest.raises(ResultsError, match="nowhere"):
        made(rivals("first"), baseline=tmp_path / "nowhere.csv")
    with pytest.raises(UsageError, match="provider is one of first"):
        made(rivals("first"), where="provider=nobody")


@pytest.mark.slow
def test_all_committed_results_fit_into_3_mb(tmp_path: Path) -> None:
    files = sorted(RESULTS.glob("*.csv"))
    page = reporting.write_report(files, tmp_path / "report.html")
    assert files and page.stat().st_size < 3_000_000


def test_the_page_asks_for_nothing(made: Make) -> None:
    text = made(rivals("first")).read_text().replace(LIBRARY.read_text(encoding="utf-8"), "")
    assert re.findall(r'\b(?:src|href)="(?!#|data:)', text) == []
    assert "url(" not in text and "@import" not in text
    policy = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)[0]
    assert policy.startswith("default-src 'none'") and "script-src 'sha256-" in policy
    assert "unsafe-inline" not in policy.split("style-src")[0] and "connect-src" not in policy


def test_what_comes_from_files_is_never_markup(made: Make) -> None:
    rows = [
        *rivals("first", SCRIPT, IMAGE, BOLD),
        report_row("first", 4096, status="wrong", reason=f"</script>{SCRIPT}\u2028"),
    ]
    text = made(rows, {"device": IMAGE, "config": {"text": SCRIPT}}, title=f"</title>{SCRIPT}").read_text()
    assert SCRIPT not in text and IMAGE not in text and BOLD not in text
    content = json.loads(DATA.findall(text)[0])
    assert {SCRIPT, IMAGE, BOLD} <= set(content["plot"]["slots"][""])
    assert content["lost"][0]["reason"] == f"</script>{SCRIPT}"  # in one line


def test_a_damaged_number_is_no_number(made: Make) -> None:
    rows = [report_row("first", max_ulp=float("inf"), copy_fraction=float("nan")), report_row("second")]
    content = json.loads(DATA.findall(made(rows).read_text())[0], parse_constant=pytest.fail)
    values = {column["name"]: column.get("values") for column in content["rows"]["columns"]}
    assert values["max_ulp"] == [None, 1.5] and values["copy_fraction"] == [None, 0.5]


def test_a_title_that_is_not_unicode_is_written(made: Make) -> None:
    assert "<title>page ?</title>" in made(rivals("first"), title="page \udcff").read_text()


def test_files_of_several_operators_have_no_baseline_in_common(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="files of one operator"):
        reporting.write_report(
            [RESULTS / "gelu-providers.csv"], tmp_path / "report.html", baseline=RESULTS / "softmax-providers.csv"
        )


def test_the_library_is_the_one_that_its_note_names() -> None:
    note = (LIBRARY.parent / "README.md").read_text()
    assert hashlib.sha256(LIBRARY.read_bytes()).hexdigest() in note
    assert "Permission is hereby granted" in (LIBRARY.parent / "LICENSE").read_text()

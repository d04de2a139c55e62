"""Shared by the tests of the page: making one, and opening it in a browser without a network."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from report_rows import ENVIRONMENT, save_results

from kbench import reporting
from kbench.reporting.content import content
from kbench.results.row import Row

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)

Make = Callable[..., Path]
Say = Callable[..., dict[str, Any]]


@pytest.fixture
def made(tmp_path: Path) -> Make:
    """The page on rows: `made(rows, environment={...}, baseline=path)`."""

    def made(rows: Sequence[Row], environment: dict[str, Any] | None = ENVIRONMENT, **options: Any) -> Path:
        path = save_results(tmp_path / "softmax.csv", rows, environment)
        return reporting.write_report([path], tmp_path / "report.html", **options)

    return made


@pytest.fixture
def said(tmp_path: Path) -> Say:
    """What the page on rows says, before it is HTML."""

    def said(rows: Sequence[Row], environment: dict[str, Any] | None = ENVIRONMENT, **options: Any) -> dict[str, Any]:
        return content([save_results(tmp_path / "softmax.csv", rows, environment)], **options)

    return said


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The system's Chromium; without one the tests skip."""
    playwright = pytest.importorskip("playwright.sync_api", reason="no Playwright: pip install '.[test]'")
    if CHROMIUM is None:
        pytest.skip("no browser: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM)
        yield chromium
        chromium.close()


@pytest.fixture
def view(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open a page: `view(path, width=390, scheme="dark")`. Fails the test for a request, an error or a dialog."""
    problems: list[str] = []
    contexts = []

    def watched(request: Any) -> None:
        if not request.url.startswith(("file://", "data:", "blob:")):
            problems.append(f"asked for {request.url}")

    def dismissed(dialog: Any) -> None:
        problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def view(path: Path, width: int = 1280, scheme: str = "light") -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        context.set_offline(True)
        page = context.new_page()
        page.on("request", watched)
        page.on("dialog", dismissed)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda said: problems.append(said.text) if said.type in ("error", "warning") else None)
        page.goto(path.resolve().as_uri())
        page.wait_for_selector("html[data-ready]", timeout=60_000)
        return page

    yield view
    for context in contexts:
        context.close()
    assert problems == []

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


@pytest.fixture(scope="module")
def tab(browser: Any) -> Any:
    """One tab without a network for all tests: a new one takes four times as long to show a page."""
    context = browser.new_context()
    context.set_offline(True)
    return context.new_page()


@pytest.fixture
def view(tab: Any) -> Iterator[Callable[..., Any]]:
    """Open a page: `view(path, width=390, scheme="dark")`. Fails the test for a request, an error or a dialog."""
    problems: list[str] = []

    def watched(request: Any) -> None:
        if not request.url.startswith(("file://", "data:", "blob:", "about:")):
            problems.append(f"asked for {request.url}")

    def dismissed(dialog: Any) -> None:
        problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def failed(error: Any) -> None:
        problems.append(str(error))

    def complained(said: Any) -> None:
        if said.type in ("error", "warning"):
            problems.append(said.text)

    def view(path: Path, width: int = 1280, scheme: str = "light") -> Any:
        tab.set_viewport_size({"width": width, "height": 900})
        tab.emulate_media(media="screen", color_scheme=scheme)
        tab.goto(path.resolve().as_uri())
        tab.wait_for_selector("html[data-ready]", timeout=60_000)
        return tab

    listeners = {"request": watched, "dialog": dismissed, "pageerror": failed, "console": complained}
    for event, listener in listeners.items():
        tab.on(event, listener)
    yield view
    tab.goto("about:blank")
    tab.mouse.move(0, 0)
    for event, listener in listeners.items():
        tab.remove_listener(event, listener)
    assert problems == []

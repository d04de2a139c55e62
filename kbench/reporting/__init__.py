"""Results as one HTML page that opens anywhere: summary, pictures, tables, failures, machine and method.

Data flows one way. `content` reads the files, `history_content` a history; both return what the template `page.html` shows.
The page needs no network. Jinja escapes all text, and the page's policy allows no other script than `page.js`.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from kbench.analysis.files import Source
from kbench.files import replace
from kbench.plotting.style import DARK, LIGHT
from kbench.reporting.content import content
from kbench.reporting.parts import TONES, body, colour_variables
from kbench.text.printable import printable
from kbench.version import __version__


def write_report(files: Sequence[Source], out: Path | str, *, baseline: Source | None, where: str, title: str) -> Path:
    """Write a page on results files and return its path. `baseline` is a results file to compare the others with, and `where`
    chooses rows. Raises UsageError for wrong choices, ResultsError where a file cannot be read, compared or written."""
    return _write(content(files, baseline=baseline, where=where, title=title), Path(out))


def write_history_report(folder: Path, out: Path, *, where: str, title: str) -> Path:
    """Write a page on a history (see kbench/history) and return its path. Raises as `write_report` does."""
    # scipy, which this needs, is slow to import
    from kbench.history.report import HistoryOptions, check_history
    from kbench.reporting.history_content import history_content

    report = check_history(folder, HistoryOptions(where, everything=True))
    return _write(history_content(report, title), out)


def _write(page: dict[str, Any], path: Path) -> Path:
    templates = Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
        loader=FileSystemLoader(Path(__file__).parent),
    )
    script, styles = (Path(__file__).with_name(name).read_text("utf-8") for name in ("page.js", "page.css"))
    html = templates.get_template("page.html").render(
        page,
        version=__version__,
        tones=TONES,
        body=body,
        light=colour_variables(LIGHT),
        dark=colour_variables(DARK),
        styles=Markup(styles),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    replace(path, html)
    return path


def _printable(value: Any) -> Any:
    """Text without control characters and marks of direction, which may come from a stranger's file."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return "\n".join(printable(line) for line in value.split("\n"))

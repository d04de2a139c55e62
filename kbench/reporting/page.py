"""The page as HTML: template, styles, scripts and content.

Text from files is never markup. The content is JSON in a block that browsers do not run, with `<`, `>` and `&` escaped, and
the scripts write it as text. The policy in the head of the page allows no other scripts than ours, which it names by their
hashes, and no connections.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html
import json
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Any

from kbench.plotting.style.theme import DARK, LIGHT, Theme

ASSETS = Path(__file__).parent / "assets"
LIBRARY = ASSETS.parent / "vendor" / "plotly-basic.min.js"
RESULTS_SCRIPTS = ("dom", "table", "sections", "plan", "chart", "lines", "bars", "legend", "plot", "page")
HISTORY_SCRIPTS = ("dom", "table", "sections", "history")
"""Together they are one module. Each comes after those that it uses."""


def html_page(content: dict[str, Any], scripts: Sequence[str] = RESULTS_SCRIPTS) -> str:
    """The whole file. `content` is what JSON can hold, without NaN. Its `title` is the title of the page. A page with the
    script `chart` contains the chart library."""
    library = LIBRARY.read_text(encoding="utf-8") if "chart" in scripts else ""
    script = "\n".join(_asset(f"{name}.js") for name in scripts)
    return Template(_asset("template.html")).substitute(
        policy=_policy(library, script),
        title=html.escape(content["title"]),
        styles=_colours(LIGHT, DARK) + _asset("page.css"),
        content=embedded(content),
        library=library,
        script=script,
    )


def embedded(content: dict[str, Any]) -> str:
    """JSON without characters that an HTML parser would take for markup. All of it is ASCII."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _policy(*scripts: str) -> str:
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    return (  # plotly writes style attributes, and saves pictures through data: and blob: URLs
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _colours(light: Theme, dark: Theme) -> str:
    """The colours of the plots as variables of the style sheet. Printed pages have the light theme."""
    return (
        f":root {{ {_variables(light)} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {_variables(dark)} }} }}\n"
    )


def _variables(theme: Theme) -> str:
    values = {name: value for name, value in dataclasses.asdict(theme).items() if isinstance(value, str)}
    del values["name"]
    values["accent"] = theme.readable(theme.colours[0])
    values["alarm"] = theme.readable(theme.colours[1])
    values["good"] = theme.readable(theme.colours[2])
    return " ".join(f"--{name}: {value};" for name, value in values.items())

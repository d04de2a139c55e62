"""The page: template, styles, scripts and content put together.

Nothing that comes from a file is ever markup. The content is JSON in a block that no browser runs, its `<`, `>` and `&` as
escapes; the scripts write it as text. The policy in the page's head allows the scripts by their hashes, so that none other
runs, and no connection to anywhere.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html
import json
from pathlib import Path
from string import Template
from typing import Any

from kbench.plotting.style.theme import DARK, LIGHT, Theme

HERE = Path(__file__).parent
LIBRARY = HERE / "vendor" / "plotly-basic.min.js"
SCRIPTS = ("dom", "select", "table", "plan", "chart", "lines", "bars", "legend", "plot", "page")
"""In the order in which they use each other: together they are one module."""


def page(content: dict[str, Any]) -> str:
    """The whole file. `content` is what JSON can hold, without NaN; its `title` is that of the page."""
    library = LIBRARY.read_text(encoding="utf-8")
    script = "\n".join(_asset(f"{name}.js") for name in SCRIPTS)
    return Template(_asset("template.html")).substitute(
        policy=_policy(library, script),
        title=html.escape(content["title"]),
        styles=_colours(LIGHT, DARK) + _asset("page.css"),
        content=embedded(content),
        library=library,
        script=script,
    )


def embedded(content: dict[str, Any]) -> str:
    """JSON in which no character means anything to an HTML parser; all beyond ASCII is escaped anyway."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _asset(name: str) -> str:
    return (HERE / "assets" / name).read_text(encoding="utf-8")


def _policy(*scripts: str) -> str:
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    return (  # plotly styles what it draws; pictures are saved by way of data: and blob:
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _colours(light: Theme, dark: Theme) -> str:
    """The colours of the plots as variables of the style sheet. Paper is always white."""
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

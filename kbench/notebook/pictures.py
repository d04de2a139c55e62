"""Shows the pictures that `kbench.plot` has written in a notebook."""

from __future__ import annotations

import base64
from pathlib import Path

MOST_BYTES = 16 << 20
"""A notebook does not embed a larger picture, because the notebook file stores what it shows. It shows the name instead."""


class Pictures(list[Path]):
    """Paths of pictures. A notebook shows each picture once, as PNG if there is one, else as SVG."""

    def _repr_html_(self) -> str:
        shown = {path.with_suffix(""): path for path in sorted(self, key=lambda path: path.suffix != ".svg")}
        return "".join(f'<img alt="{_escaped(path.name)}" src="{_address(path)}">' for path in shown.values())


def _address(path: Path) -> str:
    kind = {".png": "image/png", ".svg": "image/svg+xml"}.get(path.suffix)
    if kind is None or path.stat().st_size > MOST_BYTES:
        return ""
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")

"""What the documents say of the code is what the code says."""

from __future__ import annotations

import json
import re

from common import ROOT, tool

from kbench.comparison.exports import FORMATS
from kbench.comparison.model import schema
from kbench.version import __version__


def test_the_reference_is_what_the_code_declares() -> None:
    made: dict[object, str] = tool("make_reference").pages()
    differ = [path.name for path in (ROOT / "docs" / "reference").glob("*.md") if path.read_text() != made[path]]
    assert not differ, f"run `python tools/make_reference.py`: {', '.join(differ)} differ from the code"


def test_every_table_has_a_place_on_a_page() -> None:
    pages = "".join(path.read_text() for path in (ROOT / "docs" / "reference").glob("*.md"))
    assert {name for name in tool("make_reference").TABLES if f"<!-- generated: {name} -->" not in pages} == set()


def test_the_help_of_export_names_every_format() -> None:
    page = (ROOT / "docs" / "reference" / "cli.md").read_text()
    [line] = {line for line in page.splitlines() if line.startswith("| `--export ")}  # of compare and ab
    assert [name for name in FORMATS if not re.search(rf"\b{name}\b", line)] == []


def test_the_published_schema_of_comparisons_is_that_of_the_code() -> None:
    published = json.loads((ROOT / "docs" / "compare.schema.json").read_text())
    assert published == schema(), "write it anew: kbench schema compare"


def test_the_citation_names_this_version() -> None:
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()

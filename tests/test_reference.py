"""The tables of docs/reference/ are those that tools/make_reference.py makes."""

from __future__ import annotations

import importlib.util
from types import ModuleType

from common import ROOT


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_reference", ROOT / "tools" / "make_reference.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_what_the_code_declares() -> None:
    made: dict[object, str] = tool().pages()
    differ = [path.name for path in (ROOT / "docs" / "reference").glob("*.md") if path.read_text() != made[path]]
    assert not differ, f"run `python tools/make_reference.py`: {', '.join(differ)} differ from the code"


def test_every_table_has_a_place_on_a_page() -> None:
    pages = "".join(path.read_text() for path in (ROOT / "docs" / "reference").glob("*.md"))
    assert {name for name in tool().TABLES if f"<!-- generated: {name} -->" not in pages} == set()

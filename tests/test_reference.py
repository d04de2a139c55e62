"""What the documents say of the code is what the code says."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path
from types import ModuleType
from typing import Any

import typer
from common import ROOT

from kbench.cli import app
from kbench.comparison.formats import FORMATS
from kbench.version import __version__


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


def test_the_help_of_export_names_every_format() -> None:
    page = (ROOT / "docs" / "reference" / "cli.md").read_text()
    [line] = {line for line in page.splitlines() if line.startswith("| `--export ")}  # of compare and ab
    assert [name for name in FORMATS if not re.search(rf"\b{name}\b", line)] == []


def test_the_citation_names_this_version() -> None:
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_every_command_in_the_documents_exists_with_its_options() -> None:
    group: Any = typer.main.get_command(app)
    found = 0
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.yaml")]:
        for line in re.findall(r"^(?:#   |\$ )?(kbench [a-z]+ .*)$", _code(page), re.MULTILINE):
            _, name, *words = shlex.split(line, comments=True)
            command: Any = group.commands[name]
            if members := getattr(command, "commands", None):
                command = members[words.pop(0)]
            options = {option for p in command.params for option in (*p.opts, *p.secondary_opts)}
            words = words[: words.index("--")] if "--" in words else words  # then come the arguments of a script
            assert {word for word in words if word.startswith("-")} <= options, f"{page.name}: {line}"
            found += 1
    assert found > 40


def _code(page: Path) -> str:
    """The code blocks of a page, or the whole of a config."""
    text = page.read_text()
    blocks = re.findall(r"^```(?:sh|console)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return "\n".join(blocks) if page.suffix == ".md" else text

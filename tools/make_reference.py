"""Writes the tables of docs/reference/ from the declarations in the code.

    python tools/make_reference.py            writes the pages
    python tools/make_reference.py --check    exit code 1 when a page differs from the code

The prose of a page is written by hand. A table stands between two marks, `<!-- generated: NAME -->` and
`<!-- end -->`, and everything between them comes from the function of that name below.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import typer
from pydantic.fields import FieldInfo

from kbench import errors, explain
from kbench.cli import app
from kbench.config import builtin, schema
from kbench.contract.models import DIMENSIONS, MODELS
from kbench.protocol import Measure
from kbench.results.row import COLUMNS

PAGES = Path(__file__).resolve().parents[1] / "docs" / "reference"
MARKED = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def commands() -> str:
    """Every command: usage, what it does, its arguments and options."""
    group: Any = typer.main.get_command(app)
    parts = [_table(("option of kbench, before the command", ""), [_option(p) for p in group.params])]
    for name, command in _commands(group):
        arguments = [p for p in command.params if p.param_type_name == "argument"]
        options = [p for p in command.params if p.param_type_name == "option"]
        usage = " ".join(["kbench", name, *(["[OPTIONS]"] if options else []), *map(_argument, arguments)])
        parts.append(f"## kbench {name}\n\n```sh\n{usage}\n```\n\n{_text(command.help)}")
        rows = [(f"`{_cell(p.metavar)}`", _help(p)) for p in arguments] + [_option(p) for p in options]
        if rows:
            parts.append(_table(("argument or option", ""), rows))
    return "\n\n".join(parts)


def _commands(group: Any) -> Iterator[tuple[str, Any]]:
    """All commands with their names, such as `history check` for a command of a group."""
    for name, command in group.commands.items():
        members = getattr(command, "commands", None)
        yield from [(name, command)] if members is None else ((f"{name} {each}", one) for each, one in members.items())


def _argument(parameter: Any) -> str:
    name = parameter.metavar if parameter.required else f"[{parameter.metavar}]"
    return name + ("..." if parameter.nargs == -1 else "")


def _option(parameter: Any) -> tuple[str, str]:
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    given = f"{names} {parameter.metavar}" if parameter.metavar and not parameter.is_flag else names
    return f"`{_cell(given)}`", _help(parameter)


def _help(parameter: Any) -> str:
    """The help of an argument or option, with its default."""
    text = _text(parameter.help)
    flag = parameter.param_type_name == "option" and parameter.is_flag
    if flag and parameter.secondary_opts:  # such as --wait and --no-wait
        return f"{text} Default: `{(parameter.opts if parameter.default else parameter.secondary_opts)[0]}`."
    if parameter.default in (None, "", False, True) or flag or "efault" in text:
        return text
    return f"{text} Default: `{parameter.default}`."


def config_keys() -> str:
    """The keys at the top of a config file."""
    return _table(("key", "", ""), [_key(name, field) for name, field in schema.File.model_fields.items()])


def measure_keys() -> str:
    """The keys under `measure:` with their defaults."""
    rows = [
        (f"`{name}`", "none" if field.default is None else f"`{_yaml(field.default)}`", _text(field.description))
        for name, field in Measure.model_fields.items()
    ]
    return _table(("key", "default", ""), rows)


def _key(name: str, field: FieldInfo) -> tuple[str, str, str]:
    text = field.description or next((_text(m.description) for m in field.metadata if hasattr(m, "description")), "")
    if not text:
        text = str(schema.schema()["properties"][name].get("description", ""))
    return f"`{name}`", "required" if field.is_required() else "", _text(text)


def _yaml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def model_dimensions() -> str:
    """The models that a sweep can name, and their dimensions."""
    rows = [
        (f"`{name}`", *(str(model.dimensions.get(each, "")) for each in DIMENSIONS), f"<https://{model.source}>")
        for name, model in MODELS.items()
    ]
    return _table(("model", *(f"`{each}`" for each in DIMENSIONS), "source: config.json of"), rows)


def dimensions() -> str:
    """What each dimension is, and its key in config.json."""
    return _table(("dimension", "in config.json"), [(f"`{name}`", _text(text)) for name, text in DIMENSIONS.items()])


def builtin_configs() -> str:
    """The configs that `kbench run NAME` finds."""
    return _table(("config", ""), [(f"`{name}`", _cell(about)) for name, _, about in builtin.described()])


def columns() -> str:
    """Every column of a results file but the axes."""
    entries: dict[str, list[str]] = {}
    for column in COLUMNS.values():
        kind = f"{column.cells.name}, {column.unit}" if column.unit else column.cells.name
        entries.setdefault(f"{kind}): {_text(column.explanation)}", []).append(f"`{column.name}`")
    return "\n".join(f"- {', '.join(names)} ({text}" for text, names in entries.items())


def exit_codes() -> str:
    """The exit codes with the text below each member of `ExitStatus`."""
    [declared] = ast.parse(inspect.getsource(errors.ExitStatus)).body
    assert isinstance(declared, ast.ClassDef)
    texts: dict[str, str] = {}
    for before, after in itertools.pairwise(declared.body):
        if isinstance(before, ast.Assign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            texts[ast.unparse(before.targets[0])] = str(after.value.value)
    return _table(("code", "meaning"), [(str(e.value), _text(texts.get(e.name, "Done."))) for e in errors.ExitStatus])


def _paragraphs(texts: Mapping[str, str]) -> str:
    """One entry a paragraph. Words with the same paragraph share an entry."""
    names: dict[str, list[str]] = {}
    for name, text in texts.items():
        names.setdefault(_text(text), []).append(f"`{name}`")
    return "\n".join(f"- {', '.join(each)}: {text}" for text, each in names.items())


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _text(text: str | None) -> str:
    """On one line, as a cell of a table can hold it."""
    return _cell(" ".join((text or "").split()))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


TABLES: dict[str, Callable[[], str]] = {
    "statuses": lambda: _paragraphs(explain.KINDS["status"]),
    "flags": lambda: _paragraphs(explain.KINDS["flag"]),
    "controls": lambda: _paragraphs(explain.KINDS["control"]),
    "edge_inputs": lambda: _paragraphs(explain.KINDS["edge input"]),
    "verdicts": lambda: _paragraphs(explain.KINDS["verdict"]),
    "words": lambda: _paragraphs(explain.KINDS["word"]),
} | {
    table.__name__: table
    for table in (
        commands, config_keys, measure_keys, model_dimensions, dimensions, builtin_configs, columns, exit_codes
    )
}  # fmt: skip


def pages() -> dict[Path, str]:
    """Each page of docs/reference/ as it has to be."""
    made = {}
    for path in sorted(PAGES.glob("*.md")):
        made[path] = MARKED.sub(lambda m: f"{m[1]}\n{TABLES[m[2]]()}\n\n{m[3]}", path.read_text(encoding="utf-8"))
    return made


def main() -> None:
    differ = {path: text for path, text in pages().items() if path.read_text(encoding="utf-8") != text}
    for path, text in differ.items():
        if "--check" not in sys.argv:
            path.write_text(text, encoding="utf-8")
        print(path.relative_to(PAGES.parents[1]))
    sys.exit(bool(differ) and "--check" in sys.argv)


if __name__ == "__main__":
    main()

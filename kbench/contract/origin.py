"""Where operators and providers come from, `kbench/operators/` or a plug-in, and which files have their code."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from kbench.files import source_text

_PACKAGE = Path(__file__).resolve().parents[1]

_NOT_RUN = ("__init__.py", "operator.py", "cuda_driver.py", "libraries.py")
"""Files of kbench that have no code of a provider, although files with such code import them: what registers the providers,
the definition of an operator (`case_hash` covers it), calls of the driver, and reasons to decline a case."""

_IMPORT = re.compile(r"^[ \t]*from (kbench\.(?:kernels|operators)\b[\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)
_NAME_OF_SOURCE = re.compile(r"""["']([\w./-]+\.(?:cu|cpp))["']""")

_plugin: str | None = None
"""The plug-in that is being imported. Providers that register now belong to it."""


def current_plugin() -> str | None:
    """The plug-in that new providers belong to; None for kbench itself."""
    return _plugin


@contextmanager
def registering_for(plugin: str | None) -> Iterator[None]:
    """Inside, new providers belong to `plugin`; None is kbench itself. It is global, as threads of a plug-in register too."""
    global _plugin
    before, _plugin = _plugin, plugin
    try:
        yield
    finally:
        _plugin = before


@cache
def shipped() -> tuple[str, ...]:
    """Names of the operators that come with kbench: the packages and modules in `kbench/operators/`."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules([str(_PACKAGE / "operators")])))


def import_shipped(name: str) -> None:
    """Import an operator of kbench, which registers it. Does nothing while that import is running."""
    with registering_for(None):  # a plug-in that asks for the operator does not own it
        importlib.import_module(f"kbench.operators.{name}")


def code_files(files: Iterable[Path]) -> dict[Path, str]:
    """The texts of these files, and of those whose code they run: what a Python file imports of `kbench/kernels/` and
    `kbench/operators/`, the `.cu` and `.cpp` files that it names, the headers that these include, and so on."""
    texts: dict[Path, str] = {}
    paths = [*map(_resolved, files)]
    for path in paths:  # which grows meanwhile
        if path not in texts:
            texts[path] = (_text_of_kbench if path.is_relative_to(_PACKAGE) else source_text)(path)
            paths += _named_in(path, texts[path])
    return texts


_resolved, _text_of_kbench = cache(Path.resolve), cache(source_text)
"""Providers share files. Without these caches, a worker would resolve and read some of them a thousand times."""


@cache
def _named_in(path: Path, text: str) -> list[Path]:
    """What a file imports, names or includes, if these files exist."""
    named = _named_in_python(path, text) if path.suffix == ".py" else _included(path, text)
    return list(dict.fromkeys(path.resolve() for path in named if path.is_file()))


def _included(path: Path, text: str) -> Iterator[Path]:
    """Kernels find headers beside them and in `kbench/kernels/`."""
    for name in re.findall(r'^\s*#\s*include\s*["<]([^">\n]+)[">]', text, re.MULTILINE):
        yield from (path.parent / name, _PACKAGE / "kernels" / name)


def _named_in_python(path: Path, text: str) -> Iterator[Path]:
    """Regular expressions find the same as Python's parser, which took a tenth of the time in which a worker starts."""
    for module_name, names in _IMPORT.findall(text):
        module = _PACKAGE.parent.joinpath(*module_name.split("."))
        for file in (module.with_suffix(".py"), *(module / f"{name}.py" for name in re.findall(r"\w+", names))):
            if file.name not in _NOT_RUN:
                yield file
    for name in _NAME_OF_SOURCE.findall(text):
        yield path.parent / name

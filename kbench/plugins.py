"""Loads plug-ins: the user's Python files, and installed packages with an entry point in the group `kbench.plugins`.

Importing a plug-in registers its operators and providers. Only worker processes load plug-ins.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from kbench.contract import registry
from kbench.contract.origin import registering_for, shipped
from kbench.protocol import Fault
from kbench.results.stamps import digest
from kbench.text.exception_text import location, text_of

ENTRY_POINTS = "kbench.plugins"

Running = Callable[[str, str, str], AbstractContextManager[None]]
"""Makes a context in which code of a plug-in runs. Gets the plug-in, the step (see `STEPS` of kbench.protocol), and a name for
what runs."""


def unwatched(plugin: str, step: str, name: str) -> AbstractContextManager[None]:
    return nullcontext()


def load_plugins(paths: Sequence[str], running: Running = unwatched) -> list[Fault]:
    """Import the plug-in files at `paths`, then the plug-ins of installed packages. Returns the failures."""
    for name in shipped():  # first, so that no plug-in can take their names
        registry.operator(name)
    imports: list[tuple[str, Callable[[], Any]]] = [(path, partial(_import_file, Path(path))) for path in paths]
    for entry in importlib.metadata.entry_points(group=ENTRY_POINTS):
        imports.append((f"{entry.name} ({entry.value})", entry.load))
    failures = []
    for plugin, import_plugin in imports:
        with running(plugin, "import", f"plug-in {plugin}"):
            failure = _try_import(plugin, import_plugin)
        if failure:
            failures.append(failure)
    return failures


def _import_file(path: Path) -> None:
    """Import a file under a module name of its own. While it is imported, it can import files from its folder."""
    name = f"kbench_plugin_{digest(str(path.resolve()))}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(str(path.resolve().parent))


def _try_import(plugin: str, import_plugin: Callable[[], Any]) -> Fault | None:
    """Import a plug-in. Returns its failure, which is whatever it raises, SystemExit and KeyboardInterrupt included."""
    try:
        with registering_for(plugin):
            import_plugin()
    except BaseException as error:  # noqa: BLE001  a plug-in may raise anything; its failure must not end the worker
        return Fault(location(error, plugin), f"{type(error).__name__}: {text_of(error)}".removesuffix(": "), plugin)
    return None

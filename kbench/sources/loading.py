"""In the worker: loads a source, which registers its operators, and returns what it asks to measure."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from kbench.contract.origin import registering_for
from kbench.protocol import PluginError, Source, SourceSweep
from kbench.sources import folder_format
from kbench.text.exception_text import location
from kbench.text.printable import REASON_LIMIT, printable


class SourceFault(Exception):
    """A source that cannot be used. `where` is the place in it: a file, with a line if one is known."""

    def __init__(self, where: str, message: str) -> None:
        super().__init__(message)
        self.where = where


def load_source(source: Source) -> tuple[Sequence[SourceSweep], Sequence[PluginError]]:
    """Load a source. Returns its sweeps, or the reason why there are none."""
    path = Path(source.path)
    try:
        with registering_for(source.path):
            return _load(path, source.arguments), ()
    except SourceFault as fault:
        return (), [PluginError(source.path, fault.where, printable(str(fault), REASON_LIMIT))]
    except BaseException as error:  # noqa: BLE001  other people's code may raise anything
        what = printable(f"{type(error).__name__}: {error}", REASON_LIMIT)
        return (), [PluginError(source.path, location(error, source.path), what)]


def _load(path: Path, arguments: Sequence[str]) -> Sequence[SourceSweep]:
    module = folder_format(path)
    if module is None:
        raise SourceFault(str(path), "is no problem folder in a format that kbench knows")
    sweeps: Sequence[SourceSweep] = import_module(module).load(path)
    return sweeps

"""In the worker: loads a problem folder, which registers its operators, and returns what it asks to measure."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from kbench.contract.origin import registering_for
from kbench.protocol import PluginError, Source, SourceSweep
from kbench.sources import SourceFault, folder_format
from kbench.text.exception_text import location


def load_source(source: Source) -> tuple[Sequence[SourceSweep], Sequence[PluginError]]:
    """Load a source. Returns its sweeps, or the reason why there are none."""
    path = Path(source.path)
    try:
        module = folder_format(path)
        if module is None:
            raise SourceFault(str(path), "kbench does not know the format of this benchmark problem")
        with registering_for(source.path):
            return import_module(module).load(path), ()
    except SourceFault as fault:
        return (), [PluginError(source.path, fault.where, str(fault))]
    except BaseException as error:  # noqa: BLE001  other people's code may raise anything
        what = f"{type(error).__name__}: {error}"
        return (), [PluginError(source.path, location(error, source.path), what)]

"""In the worker: loads a problem folder, which registers its operator, and returns what it asks to measure."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from kbench.contract.origin import registering_for
from kbench.protocol import PluginError, SourceSweep
from kbench.sources import SourceFault, folder_format
from kbench.text.exception_text import location


def load_source(source: str) -> SourceSweep | PluginError:
    """Load a source. Returns its sweep, or the reason why there is none."""
    try:
        module = folder_format(Path(source))
        if module is None:
            raise SourceFault(source, "kbench does not know the format of this benchmark problem")
        with registering_for(source):
            sweep: SourceSweep = import_module(module).load(Path(source))
            return sweep
    except SourceFault as fault:
        return PluginError(source, fault.where, str(fault))
    except BaseException as error:  # noqa: BLE001  other people's code may raise anything
        return PluginError(source, location(error, source), f"{type(error).__name__}: {error}")

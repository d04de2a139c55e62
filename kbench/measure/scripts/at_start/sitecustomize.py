"""Python imports this file at its start, because `kbench exec` puts its folder first into PYTHONPATH.

It arranges that timers such as do_bench are replaced when their modules are imported, and that a program that uses torch is
read for calls that it times by hand when it ends. Then it imports the next file of this name, if there is one: a system or an
environment may have its own.
"""

import atexit
import importlib
import sys
from pathlib import Path

from kbench.measure.scripts.import_hook import replace_timers_on_import


def _at_end() -> None:
    if "torch" in sys.modules:
        from kbench.measure.scripts.hand_timing import note_hand_timing

        note_hand_timing()


replace_timers_on_import()
atexit.register(_at_end)
_folder = str(Path(__file__).parent)
sys.path[:] = [entry for entry in sys.path if entry != _folder]
_ours = sys.modules.pop("sitecustomize", None)
try:
    importlib.import_module("sitecustomize")
except ModuleNotFoundError:
    if _ours is not None:
        sys.modules["sitecustomize"] = _ours

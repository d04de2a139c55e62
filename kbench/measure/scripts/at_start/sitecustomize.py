"""Python imports this file at its start, because `kbench exec` puts its folder first into PYTHONPATH.

It arranges that timers such as do_bench are replaced when their modules are imported. Then it imports the next file of this
name, if there is one: a system or an environment may have its own.
"""

import importlib
import sys
from pathlib import Path

from kbench.measure.scripts.import_hook import replace_timers_on_import

replace_timers_on_import()
_folder = str(Path(__file__).parent)
sys.path[:] = [entry for entry in sys.path if entry != _folder]
_ours = sys.modules.pop("sitecustomize", None)
try:
    importlib.import_module("sitecustomize")
except ModuleNotFoundError:
    if _ours is not None:
        sys.modules["sitecustomize"] = _ours

"""Writes a script out as a config and a plug-in file, for a sweep of one's own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import yaml

from kbench.protocol import SourceSweep
from kbench.sources.source_config import as_config


def config_text(sweep: SourceSweep, plugin: Path) -> str:
    """The config of a plot of a script. `plugin` is the plug-in file, relative to the config."""
    content = as_config(sweep)
    whole = {"operator": content["operator"], "plugins": [plugin.as_posix()], **content}
    text = yaml.safe_dump(whole, sort_keys=False, allow_unicode=True, default_flow_style=None, width=120)
    return f"# {sweep.operator}: the cases and the lines of a script's plot; measure them with kbench run\n{text}"


def plugin_text(script: Path, arguments: Sequence[str], folder: Path) -> str:
    """A plug-in file that registers the plots of a script as operators. It will be in `folder`."""
    relative = Path(os.path.relpath(script, folder)).as_posix()
    given = "".join(f", {argument!r}" for argument in arguments)
    return f'''"""The plots of {script.name} as operators of kbench. A script has no reference, so nothing checks them."""

from pathlib import Path

import kbench

kbench.load_script(Path(__file__).parent / {relative!r}{given})
'''

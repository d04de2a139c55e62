"""Names that tests share. Fixtures are in conftest.py, which no test imports: every folder may have one."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLUGINS = Path(__file__).parent / "plugins"

Kbench = Callable[..., "subprocess.CompletedProcess[str]"]

"""Keeps what a command printed beside its files, for the tests that read one run (`made_once`)."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from promises.outside import Ended


def keep(ended: Ended, folder: Path, name: str = "ended") -> Ended:
    """Write the exit code and the output of a command into a folder."""
    (folder / f"{name}.json").write_text(json.dumps(asdict(ended)))
    return ended


def kept(folder: Path, name: str = "ended") -> Ended:
    return Ended(**json.loads((folder / f"{name}.json").read_text()))

"""The environment file beside a results CSV: what machine, what versions, what settings its rows come from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def environment_path(csv: Path | str) -> Path:
    """`results/softmax.csv` -> `results/softmax.env.json`"""
    return Path(csv).with_suffix(".env.json")


def read(csv: Path | str) -> tuple[dict[str, Any], str]:
    """The environment of a results CSV, and why there is none: one of the two is empty.

    A CSV says enough for itself: what is missing or damaged beside it is for the caller to mention, not an error.
    """
    path = environment_path(csv)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}, f"{path}: no such file; what is known of the machine is what the CSV says"
    except (OSError, ValueError, RecursionError) as error:  # ValueError: neither text nor JSON
        return {}, f"{path}: cannot be read ({error}); what is known of the machine is what the CSV says"
    if not isinstance(data, dict):
        return {}, f"{path}: not an environment file; what is known of the machine is what the CSV says"
    return data, ""

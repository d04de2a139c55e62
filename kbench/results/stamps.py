"""Stamps of rows and files: a short hash of what made them, and the time."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any


def digest(data: Any) -> str:
    """A hash of JSON-able data in 12 hexadecimal digits, for `case_hash`, `source_hash` and `env_id`. It is stable: equal
    data has an equal hash in every process and version."""
    text = data if isinstance(data, str) else json.dumps(data, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def now() -> str:
    """The time as ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")

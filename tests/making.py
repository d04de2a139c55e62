"""Makes rows, results files and machines for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from kbench.execute.writer import Writer
from kbench.results.case import Case
from kbench.results.environment import Machine
from kbench.results.row import Row

Write = Callable[..., Path]


def row(n: int = 256, ms: float | None = 1.0, provider: str = "triton", **fields: object) -> Row:
    case = Case("softmax", {"M": 4096, "N": n}, str(fields.pop("dtype", "float32")))
    constant = {"timer": "do_bench", "cache": "cold", "device": "NVIDIA H200", "case_hash": "c0ffee"}
    return Row(case, provider, **{**constant, "ms": ms, **fields})  # type: ignore[arg-type]


def failed(n: int = 256, status: str = "wrong", provider: str = "triton", **fields: object) -> Row:
    return row(n, None, provider, status=status, reason="differs at 3 elements", **fields)


def sessions(*ms: float, n: int = 256) -> list[Row]:
    return [row(n, ms=t, session=s) for s, t in enumerate(ms)]


def write_rows(path: Path, rows: Iterable[Row], axes: tuple[str, ...] = ("M", "N")) -> Path:
    """Write rows into a new results file."""
    Writer(path, axes).begin().write(list(rows))
    return path


def machine_info(name: str = "made-up host", **known: Any) -> Machine:
    """A machine about which little is known, and `known`."""
    found: dict[str, Any] = {"device_type": "cpu", "limits": {}, "packages": {}, "variables": {}}
    found |= {"triton_interpreter": True, "python": "3.11", "platform": "Linux", "cpu_count": 2, "threads": 1}
    return Machine(**(found | {"device": name} | known))

"""Makes rows and results files for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from kbench.execute.writer import Writer
from kbench.results.case import Case
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
    Writer(path, axes).write(list(rows))
    return path

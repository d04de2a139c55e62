"""What the tests of `kbench dispatch` share: results with planted times, and the written function."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import ROOT
from making import write_rows

from kbench.dispatching.dispatch import Dispatch
from kbench.results.case import Case
from kbench.results.row import Row
from kbench.results.vocabulary import Role

TALL = ROOT / "results/h200/softmax-peers.csv"

SHORT = ROOT / "results/h200/short/softmax-peers.csv"

NS = [2**k for k in range(7, 19)]

Ms = Callable[[int, int, str], dict[str, float]]


def rows(n: int, speeds: dict[str, Any], m: int = 64, dtype: str = "float32", **more: Any) -> list[Row]:
    """The rows of a case: a time in ms or a status for each provider, and a control that repeats torch."""
    case = Case(more.pop("operator", "softmax"), {"M": m, "N": n, **more.pop("axes", {})}, dtype)
    common = {"timer": "do_bench", "cache": "cold", "device": "NVIDIA H200", **more}
    made = []
    for provider, ms in {**speeds, "repeat": speeds["torch"]}.items():
        if isinstance(ms, str) and ms != "suspect":
            made.append(Row(case, provider, status=ms, reason="declines", **common))  # type: ignore[arg-type]
            continue
        flags = ("suspect",) if ms == "suspect" else ()
        time = 0.001 if ms == "suspect" else float(ms)
        role = {"role": Role.CONTROL} if provider == "repeat" else {}
        if not isinstance(speeds["torch"], str):  # as a run writes it: that of the baseline is 1
            common["speedup"] = speeds["torch"] / time
        made.append(Row(case, provider, ms=time, round_ms=(time,) * 5, flags=flags, **common, **role))
    return made


def written(path: Path, cases: list[list[Row]], axes: tuple[str, ...] = ("M", "N")) -> Path:
    return write_rows(path, itertools.chain(*cases), axes)


def emitted(found: Dispatch, folder: Path) -> Callable[..., str]:
    """The function of the written Python file."""
    path = folder / "dispatch.py"
    found.write(path)
    names: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    choose: Callable[..., str] = names["choose"]
    return choose

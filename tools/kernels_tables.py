"""Makes the tables of peers.md from results files:

    python tools/kernels_tables.py results/h200/softmax-peers.csv           one line per case, and lines that sum them up
    python tools/kernels_tables.py results/h200/short/softmax-peers.csv N   one line per N: our time and the peer's over it
    python tools/kernels_tables.py --summary results/h200/*.csv             one line per operator and mode, for several files

"Ours" is the faster of `cuda` and `triton`. The peer is the fastest other provider whose output is right. Both are medians over
sessions. Providers that work in place are compared apart: ours in place with every peer, ours out of place with peers that are
out of place too. `copy` is the control of the case. A provider that a file lacks is left out.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from kbench.results import table
from kbench.results.case import ITEMSIZE, value_order

OURS = ("cuda", "triton")
OURS_IN_PLACE = ("triton-in-place", "cuda-in-place")
IN_PLACE = {("add_rmsnorm", "flashinfer"), ("add_rmsnorm", "vllm")}
"""Operators and providers that write over their inputs, beside those whose names end with `-in-place`."""

LARGE_BYTES = 64 * 2**20
"""Matrices from this size on are held against the copy."""

BEHIND = 0.99
"""A peer that takes less than this share of our time is faster by more than 1 %."""


class Times:
    """The times of a results file, one line per case.

    case    the columns that tell its cases apart
    us      the time of each provider and control, in microseconds; of a provider with parameters, its fastest configuration's
    large   whether the matrix of each case has LARGE_BYTES or more
    """

    def __init__(self, path: str) -> None:
        frame = table.read_results(path)
        self.operator = str(frame["operator"].iloc[0])
        named = [name for name in table.axes(frame) if frame[name].dtype != float or frame[name].nunique() > 1]
        sizes = [name for name in named if pd.api.types.is_integer_dtype(frame[name])]
        words = [name for name in named if name not in sizes]
        several = [name for name in words if frame[name].nunique() > 1 or name == "approximate"]
        self.case = [*several, "dtype", *sizes]
        self.modes = sorted(frame["mode"].unique(), key=value_order) if "mode" in frame else ["forward"]
        self.frame = frame
        timed = frame[frame["status"] == "ok"]
        known = timed.fillna({"params": ""})
        medians = known.groupby([*self.case, "provider", "params"], observed=True)["ms"].median()
        self.us = medians.groupby([*self.case, "provider"], observed=True).min().unstack("provider") * 1e3
        keys = self.us.index.to_frame()
        matrix = keys[sizes[:2]].prod(axis=1) * keys["dtype"].astype(str).map(ITEMSIZE)
        self.large = matrix >= LARGE_BYTES

    def ours(self, names: tuple[str, ...] = OURS) -> pd.DataFrame:
        return self.us[[name for name in names if name in self.us]]

    def peers(self, in_place: bool = False) -> pd.DataFrame:
        """Of the providers in place only if `in_place`."""
        left_out = {*OURS, *OURS_IN_PLACE, "copy", "empty", "repeat"}
        if not in_place:
            left_out |= {name for name in self.us if name.endswith("-in-place") or (self.operator, name) in IN_PLACE}
        return self.us.drop(columns=[name for name in left_out if name in self.us])

    def of_copy(self, time: pd.Series) -> pd.Series:
        """The share of the copy's speed that a time is; NaN where the copy has none."""
        return self.us["copy"] / time if "copy" in self.us else time * np.nan


def cases(path: str, by: str) -> None:
    times = Times(path)
    peers = times.peers()
    ours, peer = times.ours().min(axis=1), peers.min(axis=1)
    lines = times.us[[name for name in ("copy", *OURS) if name in times.us]].round(2)
    lines["peer"] = [f"{row.min():.2f} {row.idxmin()}" if row.notna().any() else "" for _, row in peers.iterrows()]
    lines["peer / ours"] = (peer / ours).round(3)
    torch = times.us["torch-native"] if "torch-native" in times.us else peer * np.nan
    lines["torch / ours"] = (torch / ours).round(2)
    shares = {name: times.of_copy(times.us[name]) for name in OURS if name in times.us}
    for name, share in shares.items():
        lines[f"{name} of copy"] = share.round(3)
    if by:
        text = [f"{us:.2f} ({ratio:.2f})" for us, ratio in zip(ours, peer / ours, strict=True)]
        per = times.frame.groupby(by, observed=True)
        goes_along = [level for level in times.case if level != by and per[level].nunique().max() == 1]
        wide = pd.Series(text, ours.index).droplevel(goes_along)
        wide = wide.unstack([level for level in times.case if level not in (by, *goes_along)]).fillna("")
        keys = [column if isinstance(column, tuple) else (column,) for column in wide.columns]
        wide.columns = [", ".join(map(str, key)) for key in keys]
        markdown(wide.reset_index())
    else:
        markdown(lines.reset_index())
    print(f"\ngeomean of peer / ours: {geomean(peer / ours):.3f}; of torch-native / ours: "
          f"{geomean(torch / ours):.2f}; over {len(times.us)} cases")  # fmt: skip
    behind = (peer / ours)[(peer / ours) < 1]
    print(f"behind a peer in {len(behind)}: {', '.join(f'{key}: {ratio:.3f}' for key, ratio in behind.items())}")
    for name, share in shares.items():
        large = share[times.large].round(3)
        print(f"{name}, of copy, tensors of 64 MiB and more: least {large.min()}, median {large.median():.4g}")


def summary(paths: list[str]) -> None:
    """One line per file, mode and placement: how ours stands against the best peer that is right, and against the copy."""
    lines: list[dict[str, object]] = []
    for path in paths:
        times = Times(path)
        for mode in times.modes:
            for place, names in (("", OURS), (", in place", OURS_IN_PLACE)):
                line = _standing(times, str(mode), names, in_place=bool(place))
                if line:
                    file = f"{Path(path).parent.name}/{Path(path).stem}"
                    lines.append({"operator": f"{times.operator} {mode}{place}", "file": file} | line)
    if lines:
        markdown(pd.DataFrame(lines))
    else:
        print(f"no file has a time of {', '.join((*OURS, *OURS_IN_PLACE))}")


def _standing(times: Times, mode: str, names: tuple[str, ...], in_place: bool) -> dict[str, object]:
    """A line of the summary; empty if none of these providers has a time in this mode."""
    ours = times.ours(names).min(axis=1).dropna()
    if "mode" in times.us.index.names:
        ours = ours[ours.index.get_level_values("mode") == mode]
    if ours.empty:
        return {}
    peer = times.peers(in_place).min(axis=1).reindex(ours.index)
    ratio = (peer / ours).dropna()
    large = times.of_copy(ours).reindex(ours.index)[times.large.reindex(ours.index)].dropna()
    worst = f"{ratio.min():.3f} at {_named(ratio, mode)}" if len(ratio) else ""
    return {
        "cases": len(ours),
        "with a peer": len(ratio),
        "peer / ours": f"{geomean(ratio):.3f}" if len(ratio) else "",
        "behind by > 1 %": int((ratio < BEHIND).sum()),
        "worst": worst,
        "of copy, 64 MiB and more: least": f"{large.min():.3f}" if len(large) else "",
        "median": f"{large.median():.3f}" if len(large) else "",
    }


def _named(ratio: pd.Series, mode: str) -> str:
    """The case with the lowest ratio, without its mode: `bfloat16 M=4096 N=16384`."""
    key = ratio.idxmin()
    values = dict(zip(ratio.index.names, key if isinstance(key, tuple) else (key,), strict=True))
    return " ".join(str(v) if isinstance(v, str) else f"{k}={v}" for k, v in values.items() if v != mode)


def markdown(lines: pd.DataFrame) -> None:
    print("| " + " | ".join(lines.columns) + " |")
    print("|" + "---|" * len(lines.columns))
    for row in lines.itertuples(index=False):
        print("| " + " | ".join(map(str, row)) + " |")


def geomean(values: pd.Series) -> float:
    return float(np.exp(np.log(values.dropna()).mean()))


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--summary", action="store_true", help="one line per operator and mode, for several files")
    parser.add_argument(
        "given", nargs="+", metavar="FILE", help="a results file; without --summary, an axis may follow"
    )
    given = parser.parse_args(arguments)
    if given.summary:
        summary(given.given)
    elif len(given.given) <= 2:
        cases(given.given[0], "".join(given.given[1:]))
    else:
        parser.error("give one file, and perhaps an axis; several files need --summary")


if __name__ == "__main__":
    main(sys.argv[1:])

"""Makes the tables at the end of kernels.md from results files:

    python tools/kernels_tables.py results/h200/softmax-peers.csv           one line per case, and lines that sum them up
    python tools/kernels_tables.py results/h200/short/softmax-peers.csv N   one line per N: our time and the peer's over it

"Ours" is the faster of `cuda` and `triton`. The peer is the fastest other provider whose output is right. Both are medians over
sessions. `copy` is the control of the case.
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd

OURS = ("cuda", "triton")
LARGE_BYTES = 64 * 2**20
"""Tensors from this size on are held against the copy."""


def main(path: str, by: str = "") -> None:
    frame = pd.read_csv(path, low_memory=False)
    choices = ["approximate"] if "approximate" in frame else []
    case = [*choices, "dtype", "M", "N"]
    timed = frame[frame["status"] == "ok"]
    times = timed.pivot_table(index=case, columns="provider", values="ms", aggfunc="median") * 1e3
    peers = times.drop(columns=[*OURS, "copy", "empty", "repeat"], errors="ignore")
    ours, peer = times[[*OURS]].min(axis=1), peers.min(axis=1)
    table = times[["copy", *OURS]].round(2)
    table["peer"] = [f"{row.min():.2f} {row.idxmin()}" if row.notna().any() else "" for _, row in peers.iterrows()]
    table["peer / ours"] = (peer / ours).round(3)
    torch = times["torch-native"] if "torch-native" in times else peer * float("nan")
    table["torch / ours"] = (torch / ours).round(2)
    for name in OURS:
        table[f"{name} of copy"] = (times["copy"] / times[name]).round(3)
    shown = table.reset_index()
    if by:
        text = [f"{us:.2f} ({ratio:.2f})" for us, ratio in zip(ours, peer / ours, strict=True)]
        goes_along = [level for level in case if level != by and frame.groupby(by)[level].nunique().max() == 1]
        wide = pd.Series(text, ours.index).droplevel(goes_along)
        wide = wide.unstack([level for level in case if level not in (by, *goes_along)]).fillna("")
        wide.columns = [", ".join(map(str, column)) for column in wide.columns]
        markdown(wide.reset_index())
    else:
        markdown(shown)
    print(f"\ngeomean of peer / ours: {geomean(peer / ours):.3f}; of torch-native / ours: "
          f"{geomean(torch / ours):.2f}; over {len(times)} cases")  # fmt: skip
    behind = (peer / ours)[(peer / ours) < 1]
    print(f"behind a peer in {len(behind)}: {', '.join(f'{key}: {ratio:.3f}' for key, ratio in behind.items())}")
    size = shown["M"] * shown["N"] * shown["dtype"].map({"float32": 4, "float16": 2, "bfloat16": 2})
    large = shown[size.to_numpy() >= LARGE_BYTES]
    for name in OURS:
        column = large[f"{name} of copy"]
        print(f"{name}, of copy, tensors of 64 MiB and more: least {column.min()}, median {column.median()}")


def markdown(table: pd.DataFrame) -> None:
    print("| " + " | ".join(table.columns) + " |")
    print("|" + "---|" * len(table.columns))
    for row in table.itertuples(index=False):
        print("| " + " | ".join(map(str, row)) + " |")


def geomean(values: pd.Series) -> float:
    return float(np.exp(np.log(values.dropna()).mean()))


if __name__ == "__main__":
    main(*sys.argv[1:])
